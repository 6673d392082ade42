// @ts-check
// Steps on the clock, and binary search.

import assert from "node:assert/strict";
import { test } from "node:test";
import { StepClock } from "../../web/lib/clock.js";
import { firstAtLeast, firstIndex } from "../../web/lib/search.js";
import { smallLane } from "./lanes_for_tests.js";

const clock = new StepClock(smallLane());

test("a moment falls into its step, between two steps into the next one", () => {
  const moments = [9, 10, 10.9, 11, 13.9, 14.5, 15, 99];
  assert.deepEqual(
    moments.map((t) => clock.stepAt(t)),
    [0, 0, 0, 1, 2, 3, 3, 3],
  );
});

test("positions count steps from the first one", () => {
  assert.equal(clock.position(10), 5);
  assert.equal(clock.position(13), 7.5); // half of the step of two seconds
  assert.equal(clock.position(14.5), 8); // idle: the next step has not begun
  assert.equal(clock.position(99), 9);
});

test("a position is the inverse of a moment inside the steps", () => {
  for (const t of [10, 10.25, 11.5, 13, 15.75]) {
    assert.ok(Math.abs(clock.moment(clock.position(t)) - t) < 1e-12);
  }
  assert.equal(clock.moment(7.5), 13);
  assert.equal(clock.moment(-3), 10);
});

test("the head stands inside a step, not in its middle", () => {
  assert.equal(clock.inside(2), 12.6);
});

test("rounding opens no gap between steps that touch", () => {
  const lane = { first_step: 0, t0_s: 0, start: [0, 1.000001], duration: [1, 1] };
  const rounded = new StepClock({
    ...lane,
    start: Float64Array.from(lane.start),
    duration: Float64Array.from(lane.duration),
  });
  assert.equal(rounded.ends[0], rounded.starts[1]);
});

test("a run without steps has a place for every moment", () => {
  const nothing = new Float64Array(0);
  const empty = new StepClock({ first_step: 0, t0_s: 0, start: nothing, duration: nothing });
  assert.equal(empty.stepAt(3), 0);
  assert.equal(empty.position(3), 0);
  assert.equal(empty.moment(3), 0);
});

test("the first index is found by halving", () => {
  assert.equal(firstAtLeast([1, 3, 3, 7], 3), 1);
  assert.equal(firstAtLeast([1, 3, 3, 7], 8), 4);
  assert.equal(firstAtLeast([], 1), 0);
  for (let answer = 0; answer <= 9; answer++) {
    assert.equal(
      firstIndex(0, 9, (i) => i >= answer),
      answer,
    );
  }
});
