// @ts-check
// The stretch of the axis in view, and the ticks of the axis.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ticksOf } from "../../web/lib/axis.js";
import { View } from "../../web/lib/view.js";

/**
 * @param {number} from
 * @param {number} to
 */
function viewOf(from, to) {
  const view = new View();
  view.limit([0, 100]);
  view.show(from, to);
  return view;
}

test("a view keeps its length at the ends", () => {
  assert.deepEqual(viewOf(-10, 10).range, [0, 20]);
  assert.deepEqual(viewOf(95, 115).range, [80, 100]);
  assert.deepEqual(viewOf(-10, 500).range, [0, 100]);
});

test("zoom keeps the point under the pointer", () => {
  const view = viewOf(20, 60);
  view.zoom(0.5, 30); // a quarter of the view is left of it, before and after
  assert.deepEqual(view.range, [25, 45]);
  view.zoom(2, 30);
  assert.deepEqual(view.range, [20, 60]);
});

test("a view has a narrowest stretch per axis", () => {
  const view = viewOf(20, 60);
  view.zoom(1e-9, 20);
  assert.ok(Math.abs(view.length - 1e-3) < 1e-12);
  view.axis = "step";
  view.zoom(1e-9, 20);
  assert.equal(view.length, 2);
});

test("panning stops at the ends", () => {
  const view = viewOf(20, 60);
  view.pan(15);
  assert.deepEqual(view.range, [35, 75]);
  view.pan(500);
  assert.deepEqual(view.range, [60, 100]);
});

test("a page is turned when the head leaves the view", () => {
  const view = viewOf(0, 20);
  assert.equal(view.follow(20), false);
  assert.equal(view.follow(30), true);
  assert.deepEqual(view.range, [28, 48]); // a tenth of the page is behind the head
});

test("bounds without a length get one", () => {
  const view = new View();
  view.limit([5, 5]);
  assert.deepEqual(view.bounds, [5, 6]);
});

test("a moment outside is taken to the nearest end", () => {
  assert.deepEqual(
    [10, 30, 70].map((at) => viewOf(20, 60).clamp(at)),
    [20, 30, 60],
  );
});

test("ticks are round numbers inside the view", () => {
  assert.deepEqual(ticksOf([3, 21], "step", 4), { at: [5, 10, 15, 20], step: 5 });
  assert.deepEqual(ticksOf([0, 100], "time", 5).at, [0, 20, 40, 60, 80, 100]);
  assert.equal(ticksOf([0, 0.9], "time", 10).step, 0.1);
});

test("steps are never cut", () => {
  assert.deepEqual(ticksOf([0, 3], "step", 30), { at: [0, 1, 2, 3], step: 1 });
});
