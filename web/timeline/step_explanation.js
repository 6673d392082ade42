// @ts-check
// Why a step looks as it does: the server's sentences with the numbers of the step.

import { count, fill, seconds } from "../lib/format.js";
import { firstAtLeast } from "../lib/search.js";

/** @import { TimelineLane } from "./types.js" */

/** @typedef {{ chip: string, tone: string, parts: [string, boolean][], name?: string }} Line */

const MOST = 8; // lines of one kind; the rest is counted

/**
 * The lines of step i of a lane.
 * @param {TimelineLane} lane
 * @param {number} i
 * @returns {Line[]}
 */
export function linesOf(lane, i) {
  /** @type {Line[]} */
  const lines = [];
  const decodes = lane.decodes[i];
  if (decodes === 1) lines.push({ chip: "1 decode", tone: "decode", parts: [["1 token", false]] });
  if (decodes > 1) {
    const n = count(decodes);
    const text = `${n} tokens, one each, in list order`;
    lines.push({ chip: `${n} decodes`, tone: "decode", parts: [[text, false]] });
  }
  const to = firstAtLeast(lane.fact_step, i + 1);
  for (let f = firstAtLeast(lane.fact_step, i); f < to; f++) lines.push(lineOf(lane, f));
  const terms = termsOf(lane, i);
  if (terms)
    lines.push({ chip: seconds(lane.duration[i]), tone: "muted", parts: [[terms, false]] });
  return lines;
}

/**
 * @param {TimelineLane} lane
 * @param {number} f
 * @returns {Line}
 */
function lineOf(lane, f) {
  const { name, chip, tone, sentence } = lane.texts[lane.fact_kind[f]];
  const request = lane.fact_request[f];
  const words = {
    request: request ? lane.labels[request - 1] : "no request",
    a: count(lane.fact_a[f]),
    b: count(lane.fact_b[f]),
    c: count(lane.fact_c[f]),
    budget: count(lane.budget),
    cap: lane.cap ? count(lane.cap) : "off",
    reason: name === "stop_plain" ? lane.reasons[lane.fact_a[f]] : "",
  };
  return { name, chip: fill(chip, words)[0][0], tone, parts: fill(sentence, words) };
}

/**
 * How the duration of a step is made up; "" where the packet does not say.
 * @param {TimelineLane} lane
 * @param {number} i
 */
function termsOf(lane, i) {
  const { terms, terms_share: shares } = lane;
  if (!terms.length || !shares) return "";
  /** @type {Record<string, string>} */
  const words = {};
  terms.forEach((_, k) => {
    const share = shares[i * terms.length + k] / lane.terms_whole;
    words[k] = (share * lane.duration[i] * 1e3).toFixed(1);
  });
  return fill(lane.terms_text, words)[0][0];
}

/**
 * At most eight lines of a kind, and a line that counts the others.
 * @param {Line[]} lines
 * @returns {Line[]}
 */
export function shortened(lines) {
  /** @type {Map<string, Line[]>} */
  const kinds = new Map();
  const kindOf = (/** @type {Line} */ line) =>
    line.name?.startsWith("chunk") ? "chunk" : (line.name ?? line.chip);
  for (const line of lines) {
    kinds.set(kindOf(line), [...(kinds.get(kindOf(line)) ?? []), line]);
  }
  const left = new Set(lines);
  /** @type {Map<Line, Line>} */
  const counted = new Map(); // the last line of a kind that is shown, and the line that follows it
  for (const all of kinds.values()) {
    for (const line of all.slice(MOST)) left.delete(line);
    if (all.length <= MOST) continue;
    const last = all[MOST - 1];
    const chip = `${count(all.length - MOST)} more`;
    counted.set(last, { chip, tone: last.tone, parts: [["of the same kind in this step", false]] });
  }
  return [...left].flatMap((line) => [line, counted.get(line) ?? []].flat());
}
