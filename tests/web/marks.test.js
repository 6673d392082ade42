// @ts-check
// Marks of a run: chunks, ticks, waits, gaps, in seconds and in steps.

import assert from "node:assert/strict";
import { test } from "node:test";
import { build, interpolate, numMarks, stateOf, stepUnder } from "../../web/lib/marks.js";
import { boundsOf } from "../../web/lib/view.js";
import { smallLane, timelineLane } from "./lanes_for_tests.js";

test("prefill chunks lie in their steps, and the last one of a prompt emits a token", () => {
  const [document] = build(smallLane(), "time").rows;
  assert.deepEqual(document.chunks, [
    { x0: 10, x1: 11, n: 8, step: 0, emits: false },
    { x0: 12, x1: 14, n: 4, step: 2, emits: true },
  ]);
});

test("a token reaches its reader at the end of a step", () => {
  const [document, chat] = build(smallLane(), "time").rows;
  assert.deepEqual([...document.ticks], [14, 16]);
  assert.deepEqual([...chat.ticks], [11, 12, 16]);
  assert.deepEqual(chat.tickSteps, [0, 1, 3]);
});

test("on an axis of steps the same tokens lie at the ends of columns", () => {
  const [document, chat] = build(smallLane(), "step").rows;
  assert.deepEqual([...document.ticks], [8, 9]);
  assert.deepEqual([...chat.ticks], [6, 7, 9]);
  assert.deepEqual(
    document.chunks.map(({ x0, x1 }) => [x0, x1]),
    [
      [5, 6],
      [7, 8],
    ],
  );
});

test("gaps above the limit run from token to token, over the edge of the window as well", () => {
  const [document, chat] = build(smallLane(), "time").rows;
  // 9 to 11 began before the window; 12 to 16 had a preemption in it; 11 to 12 is below the limit
  assert.deepEqual(chat.gaps, [
    { x0: 9, x1: 11, gap: 2, preempted: false },
    { x0: 12, x1: 16, gap: 4, preempted: true },
  ]);
  assert.deepEqual(document.gaps, [{ x0: 14, x1: 16, gap: 2, preempted: false }]);
});

test("waits have the kind that the packet names, and a prompt without tokens is held", () => {
  const [document, chat] = build(smallLane(), "time").rows;
  assert.deepEqual(document.waits, [
    { x0: 9, x1: 10, kind: "waiting" },
    { x0: 11, x1: 12, kind: "held" },
  ]);
  assert.deepEqual(chat.waits, [{ x0: 12, x1: 14, kind: "preempted" }]);
});

test("tokens from the prefix cache stand where the work begins", () => {
  const [, chat] = build(smallLane(), "time").rows;
  assert.deepEqual(chat.hits, [{ x: 10, n: 2 }]);
});

test("a rejection is in words, whatever its code", () => {
  const lane = smallLane();
  assert.equal(stateOf(build(lane, "time").rows[2]), "rejected: its prompt is too long");
  lane.row_rejection[2] = 2;
  assert.equal(build(lane, "time").rows[2].rejection, "it would be late");
  assert.equal(stateOf(build(lane, "time").rows[0]), "finished");
});

test("a status without a name is refused", () => {
  const lane = smallLane();
  lane.row_status[0] = 9;
  assert.throws(() => build(lane, "time"), /code 9 of row_status/);
});

test("marks between two plans move, the text does not", () => {
  const a = build(timelineLane(), "time");
  const later = { ...timelineLane(), t0_s: 14, budget: 32 };
  const half = interpolate(a, build(later, "time"), 0.5);
  assert.deepEqual([...half.starts], [12, 13, 14, 17]);
  assert.equal(half.budget, 24);
  assert.equal(half.rows[0].chunks[0].x0, 12);
  assert.deepEqual([...half.rows[1].ticks], [13, 14, 18]);
  assert.equal(half.rows[0].label, "document");
});

test("a row that is another request jumps", () => {
  const a = build(timelineLane(), "time");
  const other = { ...timelineLane(), t0_s: 14, labels: ["other", "chat", "essay"] };
  const half = interpolate(a, build(other, "time"), 0.5);
  assert.equal(half.rows[0].chunks[0].x0, 14);
  assert.equal(half.rows[1].ticks[0], 13);
});

test("marks are counted: steps, tokens, chunks", () => {
  assert.equal(numMarks(build(smallLane(), "time")), 4 + 5 + 2);
});

test("a column is found by where it ends", () => {
  const marks = build(smallLane(), "time");
  assert.deepEqual(
    [9, 10.5, 11, 14.5, 99].map((at) => stepUnder(marks, at)),
    [0, 0, 1, 3, 3],
  );
});

test("all lanes lie within the bounds, with a small margin in time", () => {
  const lane = timelineLane();
  assert.deepEqual(boundsOf([build(lane, "step")], "step"), [5, 9]);
  const [low, high] = boundsOf([build(lane, "time")], "time");
  assert.ok(Math.abs(low - (9 - 0.056)) < 1e-12); // from the first arrival, 0.8% of 7 s
  assert.ok(Math.abs(high - 16.056) < 1e-12);
  lane.overview = [0, 100];
  assert.deepEqual(boundsOf([build(lane, "time")], "time"), [10, 16]);
  assert.deepEqual(boundsOf([], "time"), [0, 1]);
});
