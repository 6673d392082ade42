// @ts-check
// The chat windows: waits, badges, and what the document does.

import assert from "node:assert/strict";
import { test } from "node:test";
import { endOf, statusOf } from "../../web/chat_windows/chat_windows.js";
import { CONVERSATIONS } from "../../web/chat_windows/conversations.js";
import { duration, stateOf, tokensUntil } from "../../web/chat_windows/window.js";

const TIMES = [0.1, 0.2, 0.3, 1.1, 1.2]; // a wait of 800 ms
const LIMIT = 0.05;

test("tokens that have come are counted", () => {
  assert.deepEqual(
    [0, 0.1, 0.25, 1.15, 9].map((now) => tokensUntil(TIMES, now)),
    [0, 1, 2, 4, 5],
  );
});

test("a chat freezes once its wait exceeds the limit, and only after the document came", () => {
  assert.deepEqual(stateOf(TIMES, 0.8, 0.25, LIMIT), {
    frozen: true,
    long: true,
    words: "no token for 500 ms",
  });
  assert.equal(stateOf(TIMES, 0.8, null, LIMIT).frozen, false);
  assert.equal(stateOf(TIMES, 0.32, 0.25, LIMIT).frozen, false);
});

test("afterwards its badge has the longest wait", () => {
  assert.deepEqual(stateOf(TIMES, 1.15, 0.25, LIMIT), {
    frozen: false,
    long: true,
    words: "longest wait 800 ms",
  });
  assert.equal(stateOf(TIMES, 1.15, 0.25, 1).long, false);
  assert.equal(stateOf(TIMES, 1.15, null, LIMIT).words, "");
});

test("durations", () => {
  assert.equal(duration(0.1234), "123 ms");
  assert.equal(duration(1.5), "1.50 s");
});

test("the document is on its way, computed, and answered", () => {
  const ways = [{ name: "Whole prompts", tokens_s: [[1]], document_s: 1.815 }];
  const show = { ways, sent_s: 1, document_tokens: 8000, limit_s: 0.05, server: "", told: [] };
  assert.match(statusOf(show, 1, 0, 0.5), /on its way/);
  assert.match(statusOf(show, 1, 0, 1.5), /has arrived/);
  assert.equal(statusOf(show, 1, 0, 2), "The document's first token came after 815 ms.");
  assert.equal(endOf(show), 1.815 + 2.2);
});

test("every conversation has words to type", () => {
  for (const { answer } of CONVERSATIONS) assert.ok(answer.split(/\s+/).length > 80);
});
