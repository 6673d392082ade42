// @ts-check
// The block map: the state of memory, block tables, hash chains and the radix tree.

import assert from "node:assert/strict";
import { test } from "node:test";
import { countsInWords, stepRows } from "../../web/block_map/block_map.js";
import { History } from "../../web/block_map/history.js";
import { chainsAt, treeAt } from "../../web/block_map/prefix_tree.js";

/** @import { MemoryLane } from "../../web/block_map/history.js" */

const u8 = (/** @type {number[]} */ ...values) => Uint8Array.from(values);

/**
 * Four blocks of 16 tokens, three steps, two requests. `a` fills blocks 0 and 1; then `b` shares block
 * 0 and takes block 2; then `a` ends, and its block 1 stays in the cache. The states are in another
 * order than the server's.
 * @returns {MemoryLane}
 */
function memoryLane() {
  return {
    first_step: 0,
    t0_s: 0,
    start: Float64Array.of(0, 0.5, 2),
    duration: Float64Array.of(0.5, 0.5, 0.5),
    num_blocks: 4,
    block_size: 16,
    rules: "Gate on.",
    labels: ["a", "b"],
    lines: [[["admitted", "decode", "a: 2 blocks"]], [], []],
    lost: [[], [], []],
    first: 0,
    hashes: ["aaaa", "bbbb", "cccc"],
    parents: [0, 1, 1],
    found: [[1, 1, 1]],
    open: false,
    prefill: u8(32, 16, 0),
    decodes: u8(0, 1, 1),
    waiting: u8(1, 0, 0),
    change_step: u8(0, 0, 1, 1, 2, 2),
    change_block: u8(0, 1, 0, 2, 0, 1),
    change_state: u8(2, 2, 3, 2, 2, 1),
    change_owner: u8(1, 1, 1, 2, 2, 0),
    change_hash: u8(1, 2, 1, 3, 1, 2),
    table_step: u8(0, 0, 1, 1, 2),
    table_request: u8(0, 0, 1, 1, 0),
    table_position: u8(0, 1, 0, 1, 0),
    table_block: u8(1, 2, 1, 3, 0),
    names: { change_state: ["free", "cached", "used", "shared"] },
    rejections: {},
    texts: [],
    reasons: [],
  };
}

const history = new History(memoryLane());

/** @param {number} step */
const statesAt = (step) => [...history.at(step).codes].map((code) => history.states[code]);

test("changes add up to the state of every step", () => {
  assert.deepEqual(statesAt(0), ["used", "used", "free", "free"]);
  assert.deepEqual(statesAt(1), ["shared", "used", "used", "free"]);
  assert.deepEqual(statesAt(2), ["used", "cached", "used", "free"]);
  assert.deepEqual([...history.at(2).owners], [2, 0, 2, 0]);
});

test("a block that never changes is free, whatever its code is", () => {
  const lane = { ...memoryLane(), names: { change_state: ["used", "shared", "cached", "free"] } };
  assert.equal(new History({ ...lane, change_step: u8() }).countsAt(0).free, 4);
});

test("states are counted by name", () => {
  assert.deepEqual(history.countsAt(1), { free: 1, used: 2, shared: 1, cached: 0 });
});

test("the request that holds most blocks is found", () => {
  assert.equal(history.ownerOf(0), 0);
  assert.equal(history.ownerOf(2), 1);
  assert.equal(new History({ ...memoryLane(), change_step: u8() }).ownerOf(0), -1);
});

test("a block table grows at its end and is given back", () => {
  assert.deepEqual(history.table(0, 1), [0, 1]);
  assert.deepEqual(history.table(1, 0), []);
  assert.deepEqual(history.table(1, 2), [0, 2]);
  assert.deepEqual(history.table(0, 2), []);
});

test("chains have the hashes of whole blocks, and how many were found", () => {
  assert.deepEqual(chainsAt(history, 1), [
    { request: 0, hashes: [1, 2], found: 0 },
    { request: 1, hashes: [1, 3], found: 1 },
  ]);
});

test("the tree parts where chains do", () => {
  assert.deepEqual(treeAt(history, 0), [{ hashes: [1, 2], requests: [0], children: [] }]);
  assert.deepEqual(treeAt(history, 1), [
    {
      hashes: [1],
      requests: [0, 1],
      children: [
        { hashes: [2], requests: [0], children: [] },
        { hashes: [3], requests: [1], children: [] },
      ],
    },
  ]);
});

test("blocks that no request holds stay in the tree", () => {
  const [root] = treeAt(history, 2);
  assert.deepEqual(root.hashes, [1, 3].slice(0, root.hashes.length));
  assert.deepEqual(
    root.children.map(({ hashes, requests }) => [hashes, requests]),
    [
      [[2], []],
      [[3], [1]],
    ],
  );
});

test("a step in words", () => {
  assert.equal(
    countsInWords(history, 0),
    "2 of 4 blocks held, 0 of them shared · 0 cached · 2 free · 1 wait. Gate on.",
  );
  assert.equal(
    countsInWords(history, 1),
    "3 of 4 blocks held, 1 of them shared · 0 cached · 1 free. Gate on.",
  );
});

test("the table has one row per step", () => {
  assert.deepEqual(stepRows(history)[0], [1, "0 ms", 2, 0, 0, 2, "admitted: a: 2 blocks"]);
  assert.deepEqual(stepRows(history)[2], [3, "2.00 s", 2, 0, 1, 1, ""]);
});
