// @ts-check
// Messages to the server.

import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Transport } from "../../web/lib/transport.js";

function recorded() {
  /** @type {[string, any][]} */
  const sent = [];
  /** @type {boolean[]} */
  const busy = [];
  const transport = new Transport(
    (kind, value) => sent.push([kind, value]),
    (waiting) => busy.push(waiting),
  );
  return { sent, busy, transport };
}

test("one message is in flight, and the newest value of a kind follows it", () => {
  const { sent, busy, transport } = recorded();
  for (const budget of [16, 32, 64]) transport.put("dials", { budget });
  assert.deepEqual(
    sent.map(([, { budget }]) => budget),
    [16],
  );
  transport.answered(sent[0][1].seq);
  assert.deepEqual(
    sent.map(([, { budget }]) => budget),
    [16, 64],
  );
  assert.equal(sent[1][1].seq, sent[0][1].seq + 1);
  transport.answered(sent[1][1].seq);
  assert.ok(transport.idle);
  assert.deepEqual(busy, [true, false, true, false]);
});

test("an answer to an older message does not count", () => {
  const { sent, transport } = recorded();
  transport.put("dials", { budget: 16 });
  transport.answered(sent[0][1].seq - 1);
  assert.ok(!transport.idle);
  transport.close();
});

test("kinds wait in the order in which they came, and one can be dropped", () => {
  const { sent, transport } = recorded();
  for (const kind of ["dials", "window", "play"]) transport.put(kind, {});
  transport.drop("window");
  transport.answered(Number.POSITIVE_INFINITY);
  assert.deepEqual(
    sent.map(([kind]) => kind),
    ["dials", "play"],
  );
  transport.close();
});

test("an answer that never comes does not block the next message", () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { sent, transport } = recorded();
  transport.put("dials", { budget: 16 });
  transport.put("dials", { budget: 32 });
  mock.timers.tick(2999);
  assert.equal(sent.length, 1);
  mock.timers.tick(1);
  assert.equal(sent.length, 2);
  transport.close();
  mock.timers.reset();
});
