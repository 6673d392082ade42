// @ts-check
// Numbers in words.

import assert from "node:assert/strict";
import { test } from "node:test";
import { axisTime, count, countOf, fill, limitOf, moment, seconds } from "../../web/lib/format.js";

test("counts are grouped by thousands", () => {
  assert.equal(count(1234567), "1,234,567");
  assert.equal(countOf(1, "block"), "1 block");
  assert.equal(countOf(0, "block"), "0 blocks");
  assert.equal(countOf(2048, "block"), "2,048 blocks");
});

test("seconds have about three digits and a unit", () => {
  /** @type {[number, string][]} */
  const cases = [
    [0, "0 ms"],
    [0.00043, "0.43 ms"],
    [0.0146, "14.6 ms"],
    [0.169, "169 ms"],
    [1.0203, "1.02 s"],
    [12.34, "12.3 s"],
    [4321, "4,321 s"],
  ];
  for (const [s, words] of cases) assert.equal(seconds(s), words);
});

test("a change of unit leaves no four-digit milliseconds", () => {
  assert.equal(seconds(0.09994), "99.9 ms");
  assert.equal(seconds(0.09996), "100 ms");
  assert.equal(seconds(0.9996), "1.00 s");
});

test("a limit has no needless decimals", () => {
  assert.equal(limitOf({ itl_limit_s: 0.05 }), "50 ms");
  assert.equal(limitOf({ itl_limit_s: 0.0125 }), "12.5 ms");
});

test("moments tell neighbouring steps apart", () => {
  assert.equal(moment(0.0123), "12.3 ms");
  assert.equal(moment(0.4567), "457 ms");
  assert.equal(moment(12.3456), "12.346 s");
  assert.equal(moment(1234.56), "1,234.5 s");
});

test("labels of an axis have the digits that its ticks need", () => {
  assert.equal(axisTime(0.0005, 0.0005), "0.5 ms");
  assert.equal(axisTime(0.02, 0.01), "20 ms");
  assert.equal(axisTime(0.5, 0.5), "500 ms");
  assert.equal(axisTime(1.5, 0.5), "1.5 s");
  assert.equal(axisTime(3, 1), "3 s");
});

test("templates are filled, and bold parts are marked", () => {
  const parts = fill("**{request}** gets {a} of {b}", { request: "chat 1", a: "3" });
  assert.deepEqual(parts, [
    ["", false],
    ["chat 1", true],
    [" gets 3 of {b}", false],
  ]);
});
