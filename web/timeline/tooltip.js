// @ts-check
// What is under the pointer, in words.

import { count, moment, seconds } from "../lib/format.js";
import { HELD, PREEMPTED, stateOf, stepUnder } from "../lib/marks.js";
import { rowAt } from "./layout.js";

/** @import { LaneMarks, Row } from "../lib/marks.js" */
/** @import { TimelineLane } from "./types.js" */
/** @import { Place } from "./layout.js" */

/** @typedef {{ title: string, lines: string[] }} Tooltip */

/**
 * @param {LaneMarks<TimelineLane>[]} lanes
 * @param {Place} place
 * @param {number} at in units of the axis
 * @param {number} y px
 * @returns {Tooltip | null}
 */
export function describe(lanes, place, at, y) {
  const k = place.lanes.findIndex((lane) => y >= lane.top && y <= lane.bottom);
  if (k < 0 || !lanes[k].clock.length) return null;
  const marks = lanes[k];
  const r = rowAt(place.lanes[k], marks.rows.length, y);
  if (r >= 0) return describeRow(marks, marks.rows[r], at);
  return y <= place.lanes[k].stripBottom ? describeStep(marks, at) : null;
}

/**
 * @param {LaneMarks<TimelineLane>} marks
 * @param {number} at
 * @returns {Tooltip}
 */
export function describeStep(marks, at) {
  const i = stepUnder(marks, at);
  if (at < marks.starts[i] || at > marks.ends[i]) {
    return { title: "No step runs", lines: ["no request is in the system"] };
  }
  const { lane, clock } = marks;
  const [prefill, decodes] = [lane.prefill[i], lane.decodes[i]];
  const used = `${count(prefill + decodes)} of ${count(lane.budget)} tokens`;
  const lines = [
    `${moment(clock.starts[i])}, lasts ${seconds(lane.duration[i])}`,
    `${count(prefill)} prefill + ${count(decodes)} decode = ${used}`,
    `${count(lane.running[i])} running, ${count(lane.waiting[i])} waiting`,
  ];
  if (lane.kv_blocks > 0) {
    lines.push(`KV: ${count(lane.kv[i])} of ${count(lane.kv_blocks)} blocks`);
  }
  return { title: `Step ${count(clock.first + i)}`, lines };
}

/**
 * @param {LaneMarks<TimelineLane>} marks
 * @param {Row} row
 * @param {number} at
 * @returns {Tooltip}
 */
export function describeRow(marks, row, at) {
  const now = stateAt(marks, row, at);
  const lines = now ? [now] : [];
  const tokens = `${count(row.prompt)} prompt tokens, ${count(row.outputs)} output tokens`;
  lines.push(`${tokens}, ${stateOf(row)}`);
  if (Number.isFinite(row.firstTokenS)) {
    const ttft = seconds(row.firstTokenS - row.arrivalS);
    lines.push(`TTFT ${ttft}, worst gap ${seconds(row.worst)}`);
  }
  if (row.cached > 0) lines.push(`${count(row.cached)} prompt tokens from the prefix cache`);
  return { title: row.label, lines };
}

/**
 * @param {LaneMarks<TimelineLane>} marks
 * @param {Row} row
 * @param {number} at
 */
function stateAt({ clock }, row, at) {
  const within = (/** @type {{ x0: number, x1: number }} */ mark) => mark.x0 <= at && at < mark.x1;
  const chunk = row.chunks.find(within);
  if (chunk) return `${count(chunk.n)} prompt tokens in step ${count(clock.first + chunk.step)}`;
  const wait = row.waits.find(within);
  if (wait?.kind === PREEMPTED) return "preempted, waits to be computed again";
  if (wait) return wait.kind === HELD ? "its prompt gets no tokens" : "waiting";
  const next = row.ticks.findIndex((x) => x >= at);
  if (next < 0 || (next === 0 && !Number.isFinite(row.before))) return null;
  const previous = next > 0 ? clock.ends[row.tickSteps[next - 1]] : row.before;
  const end = clock.ends[row.tickSteps[next]];
  return `next token at ${moment(end)}, ${seconds(end - previous)} after the previous one`;
}
