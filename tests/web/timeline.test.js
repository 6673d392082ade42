// @ts-check
// The timeline's words: inspector, tooltip, tables, legend, dials, addresses.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build } from "../../web/lib/marks.js";
import { legendOf } from "../../web/timeline/controls.js";
import { nearest, scaleOf } from "../../web/timeline/dials.js";
import { layout } from "../../web/timeline/layout.js";
import { queryOf, wrap } from "../../web/timeline/share.js";
import { linesOf, shortened } from "../../web/timeline/step_explanation.js";
import { requestRows, stepRows } from "../../web/timeline/table.js";
import { describe, describeRow, describeStep } from "../../web/timeline/tooltip.js";
import { timelineLane } from "./lanes_for_tests.js";

const lane = timelineLane();
const marks = build(lane, "time");

/** @param {number} step */
const wordsOf = (step) =>
  linesOf(lane, step).map(({ chip, parts }) => [chip, parts.map(([text]) => text).join("")]);

test("a step explains itself in the server's sentences", () => {
  assert.deepEqual(wordsOf(0), [
    ["1 decode", "1 token"],
    ["document", "8 of 12, 15 left of 16"],
    ["chat", "2 tokens from the cache"],
    ["1.00 s", "weights 250.0 ms, rest 750.0 ms"],
  ]);
});

test("a fact without a request, a reason by its code, and several decodes", () => {
  assert.deepEqual(wordsOf(2).slice(0, 2), [
    ["document", "4 of 4, 16 left of 16"],
    ["stopped by", "budget"],
  ]);
  assert.deepEqual(wordsOf(3)[0], ["2 decodes", "2 tokens, one each, in list order"]);
});

test("lines beyond the eighth of a kind are counted after it", () => {
  const chunk = (/** @type {number} */ i) => ({
    name: i % 2 ? "chunk" : "chunk_completes",
    chip: `request ${i}`,
    tone: "prefill",
    parts: /** @type {[string, boolean][]} */ ([]),
  });
  const stop = { name: "stop_queue", chip: "stopped by", tone: "muted", parts: [] };
  const shown = shortened([...Array.from({ length: 11 }, (_, i) => chunk(i)), stop]);
  assert.equal(shown.length, 10);
  assert.deepEqual(
    shown.slice(7).map(({ chip }) => chip),
    ["request 7", "3 more", "stopped by"],
  );
  assert.equal(shortened(Array.from({ length: 8 }, (_, i) => chunk(i))).length, 8);
});

test("the tooltip of a step has its tokens and its KV blocks", () => {
  assert.deepEqual(describeStep(marks, 12.5), {
    title: "Step 7",
    lines: [
      "12.000 s, lasts 2.00 s",
      "4 prefill + 0 decode = 4 of 16 tokens",
      "2 running, 1 waiting",
      "KV: 6 of 50 blocks",
    ],
  });
  assert.equal(describeStep(marks, 14.5).title, "No step runs");
});

test("the tooltip of a row says what happens to it now", () => {
  const [document, chat, essay] = marks.rows;
  assert.equal(describeRow(marks, document, 10.5).lines[0], "8 prompt tokens in step 5");
  assert.equal(describeRow(marks, document, 11.5).lines[0], "its prompt gets no tokens");
  assert.equal(describeRow(marks, document, 9.5).lines[0], "waiting");
  assert.equal(
    describeRow(marks, document, 15.5).lines[0],
    "next token at 16.000 s, 2.00 s after the previous one",
  );
  assert.match(describeRow(marks, chat, 13).lines[0], /^preempted/);
  assert.deepEqual(describeRow(marks, document, 99).lines, [
    "12 prompt tokens, 2 output tokens, finished",
    "TTFT 5.00 s, worst gap 2.00 s",
  ]);
  assert.deepEqual(describeRow(marks, essay, 12).lines, [
    "99 prompt tokens, 0 output tokens, rejected: its prompt is too long",
  ]);
});

test("a tooltip is found by lane, row and strip", () => {
  const place = layout([marks], 900, 100);
  const [{ stripTop, rowY, bottom }] = place.lanes;
  assert.equal(describe([marks], place, 10.5, stripTop + 5)?.title, "Step 5");
  assert.equal(describe([marks], place, 10.5, rowY(1))?.title, "chat");
  assert.equal(describe([marks], place, 10.5, bottom + 1), null);
});

test("the tables have one row per request and one per step", () => {
  assert.deepEqual(requestRows(marks, 0, 4), [
    ["document", "9.000 s", "5.00 s", "8, 4", "2", "2.00 s", "finished"],
    ["chat", "1.000 s", "2.00 s", "none", "3", "2.00 s, 4.00 s", "finished"],
    ["essay", "11.000 s", "none", "none", "0", "none", "rejected: its prompt is too long"],
  ]);
  assert.deepEqual(requestRows(marks, 1, 2)[1].slice(3, 6), ["none", "1", "none"]);
  assert.deepEqual(stepRows(marks, 1, 3), [
    ["6", "11.000 s", "1.00 s", "0", "1", "15", "1", "done: 15 unused"],
    ["7", "12.000 s", "2.00 s", "4", "0", "12", "1", "budget"],
  ]);
});

test("the legend leaves out what the picture does not have", () => {
  const tones = (/** @type {typeof marks} */ one) => legendOf([one]).map(([tone]) => tone);
  const usual = ["prefill", "decode", "stall", "waiting", "unused"];
  assert.deepEqual(tones(marks), [
    ...["prefill", "decode", "stall", "cached", "preempted", "waiting", "unused"],
  ]);
  assert.deepEqual(tones({ ...marks, rows: [marks.rows[2]] }), usual);
  assert.equal(legendOf([marks])[2][1], "gap above 1.50 s");
});

test("dials have powers of two and three values in between", () => {
  assert.deepEqual(scaleOf(16, 64), [16, 20, 24, 28, 32, 40, 48, 56, 64]);
});

test("a value that is not on a dial takes the nearest place by ratio", () => {
  const values = [...scaleOf(16, 64), 0];
  assert.equal(values[nearest(values, 30)], 32); // 32/30 is less than 30/28
  assert.equal(values[nearest(values, 1e6)], 64);
  assert.equal(values[nearest(values, 0)], 0);
});

test("an address has the step, the view, and the page's embed options", () => {
  const view = {
    axis: /** @type {const} */ ("time"),
    range: /** @type {[number, number]} */ ([0.5, 2]),
  };
  const query = queryOf("v=1&preset=burst", { step: 7, view }, "?embed=true&other=1");
  assert.equal(query, "v=1&preset=burst&step=7&view=time,0.5,2&embed=true");
});

test("of a large run the address has the window", () => {
  const view = {
    axis: /** @type {const} */ ("step"),
    range: /** @type {[number, number]} */ ([0, 9]),
  };
  const window = {
    overview: /** @type {[number, number]} */ ([0, 60]),
    t0_s: 1.2345678,
    window_end_s: 3,
  };
  assert.equal(queryOf("", { step: null, view, lane: window }, ""), "view=time,1.234568,3");
});

test("text is wrapped at words", () => {
  const lines = wrap("one two three four", 9, (text) => text.length);
  assert.deepEqual(lines, ["one two", "three", "four"]);
  assert.deepEqual(
    wrap("", 9, (text) => text.length),
    [],
  );
});
