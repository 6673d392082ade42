// @ts-check
// A run as marks: numbers in units of the axis (seconds, or steps), without pixels or colours.

import { StepClock } from "./clock.js";
import { nameOf } from "./packet.js";
import { firstIndex } from "./search.js";

/** @import { Lane, Numbers } from "./packet.js" */
/** @import { Axis } from "./view.js" */

/**
 * A stretch of a row without work. `waiting`: not admitted yet; `preempted`: it lost its KV;
 * `held`: its prompt is under way, but gets no tokens.
 * @typedef {{ x0: number, x1: number, kind: string }} Wait
 */
/** Prefill tokens of one step. @typedef {{ x0: number, x1: number, n: number, step: number, emits: boolean }} Chunk */
/** Tokens from the prefix cache. @typedef {{ x: number, n: number }} Hit */
/** A gap between two tokens above the limit. @typedef {{ x0: number, x1: number, gap: number, preempted: boolean }} Gap */
/** KV on its way between two servers. @typedef {{ x0: number, x1: number, lost: boolean }} Transfer */

/**
 * A row. Names ending in S are seconds whatever the axis; NaN stands for what did not happen.
 * @typedef {object} Row
 * @property {string} label
 * @property {number} arrival
 * @property {number} arrivalS
 * @property {number} end
 * @property {number} firstTokenS
 * @property {string} status
 * @property {string} rejection why it was rejected, "" where it was not
 * @property {number} prompt
 * @property {number} outputs
 * @property {number} cached
 * @property {number} worst
 * @property {number} before when its last token before this window came
 * @property {Wait[]} waits
 * @property {Chunk[]} chunks
 * @property {Hit[]} hits
 * @property {Float64Array} ticks
 * @property {number[]} tickSteps
 * @property {Gap[]} gaps
 * @property {Transfer[]} transfers
 */

/**
 * @template {Lane} [L=any]
 * @typedef {object} LaneMarks
 * @property {L} lane
 * @property {StepClock} clock
 * @property {Float64Array} starts of the steps, in units of the axis
 * @property {Float64Array} ends
 * @property {Row[]} rows
 * @property {number} budget
 */

export const WAITING = "waiting";
export const PREEMPTED = "preempted";
export const HELD = "held";
const CHUNKS = new Set(["chunk", "chunk_completes", "chunk_clamped"]);

/**
 * @template {Lane & { budget?: number }} L
 * @param {L} lane
 * @param {Axis} axis
 * @returns {LaneMarks<L>}
 */
export function build(lane, axis) {
  const clock = new StepClock(lane);
  const at = axis === "time" ? (/** @type {number} */ t) => t : clock.position.bind(clock);
  const starts = new Float64Array(clock.length);
  const ends = new Float64Array(clock.length);
  for (let i = 0; i < clock.length; i++) {
    starts[i] = axis === "time" ? clock.starts[i] : clock.first + i;
    ends[i] = axis === "time" ? clock.ends[i] : clock.first + i + 1;
  }
  const rows = Array.from({ length: lane.num_rows }, (_, k) => rowOf(lane, k, at));
  addChunks(lane, rows, starts, ends);
  addTicks(lane, rows, ends);
  for (let i = 0; i < lane.wait_row.length; i++) {
    rows[lane.wait_row[i]].waits.push({
      x0: at(lane.t0_s + lane.wait_start[i]),
      x1: at(lane.t0_s + lane.wait_stop[i]),
      kind: nameOf(lane, "wait_kind", lane.wait_kind[i]),
    });
  }
  for (const row of rows) {
    addGaps(row, lane, clock, at);
    addHeld(row);
  }
  return { lane, clock, starts, ends, rows, budget: lane.budget ?? 0 };
}

/**
 * @param {Lane} lane
 * @param {number} k
 * @param {(t: number) => number} at
 * @returns {Row}
 */
function rowOf(lane, k, at) {
  const time = (/** @type {Numbers} */ values) => lane.t0_s + values[k];
  const status = nameOf(lane, "row_status", lane.row_status[k]);
  const rejection = nameOf(lane, "row_rejection", lane.row_rejection[k]);
  return {
    label: lane.labels[k],
    arrival: at(time(lane.row_arrival)),
    arrivalS: time(lane.row_arrival),
    end: at(time(lane.row_end)),
    firstTokenS: time(lane.row_first_token),
    status,
    rejection: status === "rejected" ? lane.rejections[rejection] : "",
    prompt: lane.row_prompt[k],
    outputs: lane.row_outputs[k],
    cached: lane.row_hits[k],
    worst: lane.row_worst[k],
    before: time(lane.row_before),
    waits: [],
    chunks: [],
    hits: [],
    ticks: new Float64Array(0),
    tickSteps: [],
    gaps: [],
    transfers: [],
  };
}

/**
 * @param {Lane} lane
 * @param {Row[]} rows
 * @param {Float64Array} starts
 * @param {Float64Array} ends
 */
function addChunks(lane, rows, starts, ends) {
  for (let i = 0; i < lane.fact_step.length; i++) {
    const row = rows[lane.fact_request[i] - 1];
    if (!row) continue;
    const { name } = lane.texts[lane.fact_kind[i]];
    const step = lane.fact_step[i];
    const n = lane.fact_a[i];
    if (name === "hit" || name === "resumed") row.hits.push({ x: starts[step], n });
    if (CHUNKS.has(name)) {
      row.chunks.push({ x0: starts[step], x1: ends[step], n, step, emits: n === lane.fact_b[i] });
    }
  }
}

/**
 * A token reaches the user at the end of the step that emits it.
 * @param {Lane} lane
 * @param {Row[]} rows
 * @param {Float64Array} ends
 */
function addTicks(lane, rows, ends) {
  for (const row of rows) {
    row.tickSteps = row.chunks.filter((chunk) => chunk.emits).map((chunk) => chunk.step);
  }
  for (let i = 0; i < lane.run_row.length; i++) {
    const { tickSteps } = rows[lane.run_row[i]];
    for (let s = lane.run_first[i]; s <= lane.run_last[i]; s++) tickSteps.push(s);
  }
  for (const row of rows) {
    row.tickSteps.sort((a, b) => a - b);
    row.ticks = Float64Array.from(row.tickSteps, (s) => ends[s]);
  }
}

/**
 * Gaps above the limit between two tokens of a row.
 * @param {Row} row
 * @param {Lane} lane
 * @param {StepClock} clock
 * @param {(t: number) => number} at
 */
function addGaps(row, lane, clock, at) {
  let last = row.before; // NaN when no token came before this window
  for (let i = 0; i < row.tickSteps.length; i++) {
    const t = clock.ends[row.tickSteps[i]];
    const gap = t - last;
    if (gap > lane.itl_limit_s) {
      const x0 = at(last);
      const x1 = row.ticks[i];
      const preempted = row.waits.some((w) => w.kind === PREEMPTED && w.x0 < x1 && w.x1 > x0);
      row.gaps.push({ x0, x1, gap, preempted });
    }
    last = t;
  }
}

/**
 * Stretches in which a prompt under way got no tokens.
 * @param {Row} row
 */
function addHeld(row) {
  const lost = row.waits.filter((w) => w.kind === PREEMPTED);
  for (let i = 1; i < row.chunks.length; i++) {
    const x0 = row.chunks[i - 1].x1;
    const x1 = row.chunks[i].x0;
    const middle = (x0 + x1) / 2;
    if (x1 <= x0 + 1e-9 || row.chunks[i - 1].emits) continue;
    if (!lost.some((w) => w.x0 <= middle && w.x1 >= middle)) row.waits.push({ x0, x1, kind: HELD });
  }
}

/**
 * The marks between two plans: u runs from 0 (a) to 1 (b). Rows keep their place.
 * @template {Lane} L
 * @param {LaneMarks<L>} a
 * @param {LaneMarks<L>} b
 * @param {number} u
 * @returns {LaneMarks<L>}
 */
export function interpolate(a, b, u) {
  const mix = (/** @type {number} */ p, /** @type {number} */ q) => p + (q - p) * u;
  const mixArrays = (/** @type {Float64Array} */ p, /** @type {Float64Array} */ q) =>
    Float64Array.from(q, (x, i) => (i < p.length ? mix(p[i], x) : x));
  /**
   * @template {{ x0: number, x1: number }} M
   * @param {M[]} p
   * @param {M[]} q
   * @returns {M[]}
   */
  const mixMarks = (p, q) =>
    q.map((m, i) => (p[i] ? { ...m, x0: mix(p[i].x0, m.x0), x1: mix(p[i].x1, m.x1) } : m));
  return {
    ...b,
    starts: mixArrays(a.starts, b.starts),
    ends: mixArrays(a.ends, b.ends),
    budget: mix(a.budget, b.budget),
    rows: b.rows.map((row, k) => {
      const old = a.rows[k];
      if (!old || old.label !== row.label) return row;
      return {
        ...row,
        ticks: mixArrays(old.ticks, row.ticks),
        chunks: mixMarks(old.chunks, row.chunks),
        waits: mixMarks(old.waits, row.waits),
        gaps: mixMarks(old.gaps, row.gaps),
        end: mix(old.end, row.end),
      };
    }),
  };
}

/** @param {LaneMarks} marks */
export function numMarks(marks) {
  const ofRows = marks.rows.map((row) => row.ticks.length + row.chunks.length);
  return ofRows.reduce((a, b) => a + b, marks.starts.length);
}

/**
 * The step whose column ends after `at`, the last one beyond the end.
 * @param {{ ends: ArrayLike<number> }} marks
 * @param {number} at
 */
export function stepUnder({ ends }, at) {
  return firstIndex(0, Math.max(0, ends.length - 1), (i) => ends[i] > at);
}

/**
 * Where a request stands at the end of the run, in words.
 * @param {Row} row
 */
export const stateOf = (row) => (row.rejection ? `${row.status}: ${row.rejection}` : row.status);
