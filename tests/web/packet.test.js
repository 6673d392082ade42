// @ts-check
// The envelope and the packet: what the server packs is what the browser reads.

import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesOf, decode, fingerprint, nameOf, openEnvelope, same } from "../../web/lib/packet.js";
import { smallLane } from "./lanes_for_tests.js";

/**
 * JSON behind its length, padded so that what follows is a multiple of 8 bytes away from the start.
 * @param {object} value
 */
function packJson(value) {
  const text = new TextEncoder().encode(JSON.stringify(value));
  const length = text.length + ((8 - ((text.length + 4) % 8)) % 8);
  const bytes = new Uint8Array(4 + length).fill(32);
  new DataView(bytes.buffer).setUint32(0, length, true);
  bytes.set(text, 4);
  return bytes;
}

const HEADER = {
  lanes: [{ title: "é" }, { title: "Pinned" }],
  texts: [["chunk", "{request}", "prefill", "{a} tokens"]],
  reasons: ["queue empty"],
  names: { row_status: ["expected", "finished"] },
  rejections: { none: "" },
  arrays: [
    ["0.row_status", "u1", 0, 3],
    ["1.start", "f4", 8, 2],
    ["1.tokens", "u2", 16, 1],
  ],
};
const ARRAYS = new Uint8Array(24);
ARRAYS.set([1, 0, 1], 0);
new DataView(ARRAYS.buffer).setFloat32(8, 0.5, true);
new DataView(ARRAYS.buffer).setFloat32(12, -2, true);
new DataView(ARRAYS.buffer).setUint16(16, 513, true);
const PACKET = new Uint8Array([...packJson(HEADER), ...ARRAYS]);

test("a packet has its arrays in the lane that their names begin with", () => {
  const [first, second] = decode(PACKET);
  assert.equal(first.title, "é");
  assert.deepEqual([...first.row_status], [1, 0, 1]);
  assert.deepEqual([...second.start], [0.5, -2]);
  assert.deepEqual([...second.tokens], [513]);
  assert.equal(first.start, undefined);
});

test("every lane has the tables of the packet", () => {
  for (const lane of decode(PACKET)) {
    assert.deepEqual(lane.reasons, ["queue empty"]);
    assert.deepEqual(lane.texts, [
      { name: "chunk", chip: "{request}", tone: "prefill", sentence: "{a} tokens" },
    ]);
  }
});

test("codes are looked up by the packet's own table", () => {
  const [lane] = decode(PACKET);
  const named = [...lane.row_status].map((code) => nameOf(lane, "row_status", code));
  assert.deepEqual(named, ["finished", "expected", "finished"]);
  assert.equal(nameOf(smallLane(), "wait_kind", 0), "preempted");
});

test("a code without a name is an error and not another name", () => {
  const [lane] = decode(PACKET);
  assert.throws(() => nameOf(lane, "row_status", 2), /no name for code 2 of row_status/);
  assert.throws(() => nameOf(lane, "wait_kind", 0), /wait_kind/);
});

test("an empty packet has no lanes", () => {
  assert.deepEqual(decode(new Uint8Array(0)), []);
});

test("a packet is read wherever it lies in its buffer", () => {
  const padded = new Uint8Array(PACKET.length + 3);
  padded.set(PACKET, 3);
  assert.deepEqual([...decode(padded.subarray(3))[1].start], [0.5, -2]);
});

test("an envelope and its packet come apart again", () => {
  const envelope = { epoch: 3, sentence: [["ünits", true]] };
  const data = new Uint8Array([...packJson(envelope), ...PACKET]);
  const opened = openEnvelope(data.buffer);
  assert.deepEqual(opened.envelope, envelope);
  assert.equal(opened.packet.length, PACKET.length);
  assert.ok(same(opened.packet, PACKET));
});

test("an envelope may come without a packet", () => {
  const opened = openEnvelope(packJson({ epoch: 0 }));
  assert.equal(opened.packet.length, 0);
});

test("packets are the same when their bytes are", () => {
  const other = PACKET.slice();
  assert.ok(same(PACKET, other));
  other[other.length - 1] ^= 1;
  assert.ok(!same(PACKET, other));
  assert.ok(!same(PACKET, PACKET.subarray(1)));
  assert.ok(!same(null, PACKET));
});

test("a fingerprint tells length and content", () => {
  assert.equal(fingerprint(new Uint8Array(0)), "0-811c9dc5"); // the basis of FNV-1a
  assert.equal(fingerprint(Uint8Array.of(0x61)), "1-e40c292c"); // published for "a"
  assert.notEqual(fingerprint(PACKET), fingerprint(PACKET.slice().reverse()));
});

test("bytes may come as an array buffer", () => {
  assert.deepEqual([...bytesOf(Uint8Array.of(7, 8).buffer)], [7, 8]);
});
