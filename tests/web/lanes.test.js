// @ts-check
// The lanes: transfers of KV, what happens at a moment, the table.

import assert from "node:assert/strict";
import { test } from "node:test";
import { activityAt, nextEnd, stepIn } from "../../web/lanes/activity.js";
import { addTransfers, numTransfersAt } from "../../web/lanes/kv_transfers.js";
import { legendOf } from "../../web/lanes/lanes.js";
import { rowsOf } from "../../web/lanes/table.js";
import { build } from "../../web/lib/marks.js";
import { wayLane } from "./lanes_for_tests.js";

function lane() {
  const marks = build(wayLane(), "time");
  addTransfers(marks);
  return marks;
}

test("transfers lie in the row of their request, lost ones by the name of their outcome", () => {
  const [document, chat, essay] = lane().rows;
  assert.deepEqual(document.transfers, [{ x0: 11, x1: 12, lost: false }]);
  assert.deepEqual(chat.transfers, [{ x0: 11.5, x1: 13, lost: true }]);
  assert.deepEqual(essay.transfers, []);
});

test("a transfer is under way from its start to before its end", () => {
  const marks = lane();
  assert.deepEqual(
    [10, 11, 11.5, 12, 13].map((t) => numTransfersAt(marks, t)),
    [0, 1, 2, 1, 0],
  );
});

test("a server is idle before, between and after its steps", () => {
  const { clock } = lane();
  assert.deepEqual(
    [11.5, 12.5, 14.5, 15.5].map((t) => stepIn(clock, 2, 3, t)),
    [-1, 2, -1, 3],
  );
});

test("all servers of a lane together in a few words", () => {
  const marks = lane();
  assert.equal(activityAt(marks, 10.5), "1 of 2 busy, 8 prefill, 1 decode");
  assert.equal(activityAt(marks, 11.75), "1 of 2 busy, 1 decode, 2 transfers, 1 wait");
  assert.equal(activityAt(marks, 14.5), "idle");
  assert.equal(activityAt(marks, 16), "all done");
});

test("one server says how long its step lasts", () => {
  const one = wayLane();
  one.servers = [[0, 3]];
  const marks = build(one, "time");
  assert.equal(activityAt(marks, 15.5), "2 decodes · 1.00 s");
});

test("the head goes to the next and the last end of a step", () => {
  const all = [lane(), null];
  assert.equal(nextEnd(all, 11.5, 1, 99), 12);
  assert.equal(nextEnd(all, 11.5, -1, 0), 11);
  assert.equal(nextEnd(all, 12, 1, 99), 14);
  assert.equal(nextEnd(all, 16, 1, 99), 99);
  assert.equal(nextEnd([null], 3, -1, 0), 0);
});

test("the table says why a way was refused, and why a request was rejected", () => {
  const drawn = lane();
  const refused = { ...wayLane(), title: "Orca", problem: "does not fit" };
  const rows = rowsOf([drawn, null], [{ ...drawn.lane, arrives: "handed over" }, refused]);
  assert.equal(rows.length, 4);
  assert.deepEqual(rows[0], [
    ...["vLLM V1", "document", "9.000 s, handed over", "5.00 s", "2", "2", "2.00 s", "finished"],
  ]);
  assert.equal(rows[2].at(-1), "rejected: its prompt is too long");
  assert.deepEqual(rows[3], ["Orca", "does not fit", "", "", "", "", "", "refused"]);
});

test("the legend names transfers and preemptions only where there are some", () => {
  assert.deepEqual(
    legendOf([lane()]).map(([, words]) => words),
    ["prefill", "decode token", "gap above 1.50 s", "KV transfer", "preempted", "waiting"],
  );
  assert.deepEqual(
    legendOf([null]).map(([tone]) => tone),
    ["prefill", "decode", "stall", "waiting"],
  );
});
