// @ts-check
// One chat: a question, an answer that grows by one word per token, and the wait for the next one.

import { el, say } from "../lib/dom.js";
import { firstIndex } from "../lib/search.js";

/** @import { Conversation } from "./conversations.js" */

const LEAST_MARKED_S = 0.15; // shorter waits get no mark in the text

export class ChatWindow {
  /** @param {Conversation} conversation */
  constructor({ name, question, answer }) {
    this.words = answer.split(/\s+/).filter(Boolean);
    this.text = el("div", { class: "answer", "aria-hidden": "true" });
    this.badge = el("span", { class: "badge" });
    const head = el("div", { class: "head" }, el("b", { text: name }), this.badge);
    const asks = el("p", { class: "asks", text: question });
    const attributes = { class: "window", "aria-label": `Chat of ${name}` };
    this.element = el("section", attributes, head, asks, this.text);
    this.count = -1;
    /** @type {number | null} */
    this.sent = null;
  }

  /**
   * @param {number[]} times at which its tokens come, s
   * @param {number} now the run's time
   * @param {number | null} sent when the document arrives, null: it was not sent
   * @param {number} limit s
   */
  show(times, now, sent, limit) {
    const count = tokensUntil(times, now);
    const state = stateOf(times, now, sent, limit);
    this.element.classList.toggle("frozen", state.frozen);
    say(this.badge, state.words);
    this.badge.className = `badge ${state.long ? "long" : "short"}`;
    if (count === this.count && sent === this.sent) return;
    this.count = count;
    this.sent = sent;
    this.write(times, count, sent, limit);
  }

  /**
   * Writes the last paragraphs, with a mark where the reader had to wait. When the answer is over it
   * begins again in a paragraph of its own, so that lines never wrap anew.
   * @param {number[]} times
   * @param {number} count
   * @param {number | null} sent
   * @param {number} limit
   */
  write(times, count, sent, limit) {
    const round = this.words.length;
    const from = Math.max(0, Math.floor((count - 1) / round) * round - round);
    const paragraphs = [el("p", {})];
    for (let i = from; i < count; i++) {
      if (i % round === 0 && i > from) paragraphs.push(el("p", {}));
      const paragraph = paragraphs[paragraphs.length - 1];
      const gap = i > 0 ? times[i] - times[i - 1] : 0;
      if (sent !== null && times[i] > sent && gap > Math.max(limit, LEAST_MARKED_S)) {
        paragraph.append(el("span", { class: "gap", text: duration(gap) }), " ");
      }
      paragraph.append(`${this.words[i % round]} `);
    }
    paragraphs[paragraphs.length - 1].append(el("i", { class: "caret" }));
    for (const paragraph of paragraphs) paragraph.normalize();
    this.text.replaceChildren(...paragraphs);
  }

  thaw() {
    this.element.classList.remove("frozen");
  }
}

/** @param {number} s */
export const duration = (s) => (s < 1 ? `${Math.round(s * 1e3)} ms` : `${s.toFixed(2)} s`);

/**
 * How many tokens have come by `now`.
 * @param {number[]} times
 * @param {number} now
 */
export const tokensUntil = (times, now) => firstIndex(0, times.length, (i) => times[i] > now);

/**
 * Whether a chat stands still, and what its badge says.
 * @param {number[]} times
 * @param {number} now
 * @param {number | null} sent
 * @param {number} limit
 */
export function stateOf(times, now, sent, limit) {
  const count = tokensUntil(times, now);
  const wait = count > 0 && count < times.length ? now - times[count - 1] : 0;
  const frozen = sent !== null && now > sent && wait > limit;
  const worst = sent === null ? 0 : longestWait(times, count, sent);
  const past = worst > 0 ? `longest wait ${duration(worst)}` : "";
  const words = frozen ? `no token for ${duration(wait)}` : past;
  return { frozen, long: frozen || worst > limit, words };
}

/**
 * @param {number[]} times
 * @param {number} count of the tokens that have come
 * @param {number} sent
 */
function longestWait(times, count, sent) {
  let worst = 0;
  for (let i = Math.max(1, tokensUntil(times, sent)); i < count; i++) {
    worst = Math.max(worst, times[i] - times[i - 1]);
  }
  return worst;
}
