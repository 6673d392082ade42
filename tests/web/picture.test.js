// @ts-check
// Shapes, layout and gestures that pictures share.

import assert from "node:assert/strict";
import { test } from "node:test";
import { heightOf, middleOf, rowHeight } from "../../web/lanes/layout.js";
import { eachTickGroup } from "../../web/lib/canvas.js";
import { actOn } from "../../web/lib/gestures.js";
import { isDark } from "../../web/lib/theme.js";
import { add, newBin } from "../../web/timeline/budget_strip.js";
import { layout, rowAt } from "../../web/timeline/layout.js";

/**
 * @param {number[]} times
 * @param {number} left
 * @param {number} right
 */
function groupsOf(times, left, right) {
  /** @type {number[][]} */
  const groups = [];
  eachTickGroup(
    times,
    (t) => 10 * t,
    left,
    right,
    (...group) => groups.push(group),
  );
  return groups;
}

test("ticks that are apart are drawn one by one, with the room up to the next", () => {
  assert.deepEqual(groupsOf([1, 2, 4], 0, 100), [
    [10, 10, 1, 10],
    [20, 20, 1, 20],
    [40, 40, 1, Number.POSITIVE_INFINITY],
  ]);
});

test("three and more ticks within 2.5 px of each other are one group", () => {
  const close = [1, 1.25, 1.5, 1.75, 3];
  assert.deepEqual(groupsOf(close, 0, 100), [
    [10, 17.5, 4, 12.5],
    [30, 30, 1, Number.POSITIVE_INFINITY],
  ]);
  assert.equal(groupsOf([1, 1.25, 3], 0, 100).length, 3); // two stay two
});

test("ticks out of sight are left out", () => {
  const shown = groupsOf([0, 1, 2, 3, 4, 5], 20, 30).map(([at]) => at);
  assert.deepEqual(shown, [20, 30]);
});

test("a wide timeline has its labels at the left, a narrow one above the rows", () => {
  const rows = { rows: { length: 2 } };
  const wide = layout([rows, rows], 900, 100);
  assert.equal(wide.left, 126);
  assert.equal(wide.right, 886);
  assert.deepEqual([wide.lanes[0].stripTop, wide.lanes[0].stripBottom], [20, 78]);
  assert.equal(wide.lanes[0].rowY(1), 89 + 21 * 1.5);
  assert.equal(wide.lanes[0].bottom, 131);
  assert.equal(wide.lanes[1].top, 155);
  const narrow = layout([rows], 400, 100);
  assert.ok(narrow.narrow);
  assert.equal(narrow.left, 10);
});

test("a point falls into its row", () => {
  const place = { rowsTop: 100, rowHeight: 20 };
  assert.deepEqual(
    [99, 100, 119, 120, 140].map((y) => rowAt(place, 2, y)),
    [-1, 0, 0, 1, -1],
  );
});

test("lanes of more than eight rows are not higher", () => {
  assert.equal(rowHeight(8), 11);
  assert.equal(heightOf(8), 98);
  assert.equal(heightOf(20), 120);
  assert.equal(rowHeight(40), 4);
  assert.equal(middleOf(1, 8), 5 + 16.5);
});

test("steps that share a pixel are weighted by time", () => {
  const bin = newBin();
  add(bin, 1, 4, 0);
  add(bin, 3, 0, 8);
  assert.deepEqual([bin.decodes / bin.weight, bin.prefill / bin.weight, bin.most], [1, 6, 8]);
});

test("a colour is dark by its luminance", () => {
  assert.ok(isDark([14, 17, 23]));
  assert.ok(!isDark([255, 255, 255]));
  assert.ok(!isDark([0, 255, 0]));
  assert.ok(isDark([0, 0, 255]));
});

/** @param {boolean} withPan */
function recorder(withPan) {
  /** @type {(string | number | null)[][]} */
  const calls = [];
  const on = {
    scrub: () => {},
    release: () => {},
    zoom: (/** @type {number} */ factor, /** @type {number | null} */ px) =>
      calls.push(["zoom", factor, px]),
    toggle: () => calls.push(["toggle"]),
    step: (/** @type {number} */ by) => calls.push(["step", by]),
    first: () => calls.push(["first"]),
    last: () => calls.push(["last"]),
    whole: () => calls.push(["whole"]),
    ...(withPan ? { pan: (/** @type {number} */ px) => calls.push(["pan", px]) } : {}),
  };
  return { calls, on };
}

test("keys step, jump and zoom", () => {
  const { calls, on } = recorder(true);
  const keys = ["ArrowLeft", "ArrowUp", "PageDown", "Home", "End", " ", "0", "-"];
  for (const key of keys) assert.ok(actOn({ key, shiftKey: false }, 600, on));
  assert.deepEqual(calls, [
    ["step", -1],
    ["step", 1],
    ["step", -10],
    ["first"],
    ["last"],
    ["toggle"],
    ["whole"],
    ["zoom", 1.6, null],
  ]);
  assert.equal(actOn({ key: "x", shiftKey: false }, 600, on), false);
});

test("shift and an arrow pan by a sixth of the picture, where it can pan", () => {
  const wide = recorder(true);
  actOn({ key: "ArrowRight", shiftKey: true }, 600, wide.on);
  assert.deepEqual(wide.calls, [["pan", 100]]);
  const fixed = recorder(false);
  actOn({ key: "ArrowRight", shiftKey: true }, 600, fixed.on);
  assert.deepEqual(fixed.calls, [["step", 1]]);
});
