// @ts-check
// What a lane does at a moment, in a few words: all its servers together.

import { count, countOf, seconds } from "../lib/format.js";
import { firstIndex } from "../lib/search.js";
import { numTransfersAt } from "./kv_transfers.js";

/** @import { StepClock } from "../lib/clock.js" */
/** @import { LaneMarks } from "../lib/marks.js" */
/** @import { Numbers } from "../lib/packet.js" */
/** @import { WayLane } from "./types.js" */

/**
 * @param {LaneMarks<WayLane>} marks
 * @param {number} t
 */
export function activityAt(marks, t) {
  const { lane, clock } = marks;
  const { servers } = lane;
  if (!clock.length || t >= lane.end_s - 1e-9) return "all done";
  const steps = servers
    .map(([first, last]) => stepIn(clock, first, last, t))
    .filter((step) => step >= 0);
  const sum = (/** @type {Numbers} */ values) =>
    steps.reduce((total, step) => total + values[step], 0);
  const transfers = numTransfersAt(marks, t);
  if (!steps.length && !transfers) return "idle";
  const [prefill, decodes] = [sum(lane.prefill), sum(lane.decodes)];
  const waiting = sum(lane.waiting);
  const parts = [];
  if (servers.length > 1) parts.push(`${steps.length} of ${servers.length} busy`);
  if (prefill) parts.push(`${count(prefill)} prefill`);
  if (decodes) parts.push(countOf(decodes, "decode"));
  if (transfers) parts.push(countOf(transfers, "transfer"));
  if (waiting) parts.push(`${count(waiting)} wait`);
  const single = servers.length === 1 && steps.length;
  return `${parts.join(", ")}${single ? ` · ${seconds(lane.duration[steps[0]])}` : ""}`;
}

/**
 * The step of a server that runs at `t`, -1 for none; its steps are first to last.
 * @param {StepClock} clock
 * @param {number} first
 * @param {number} last
 * @param {number} t
 */
export function stepIn(clock, first, last, t) {
  const step = firstIndex(first, last, (i) => clock.ends[i] > t);
  return clock.starts[step] <= t + 1e-9 && clock.ends[step] > t ? step : -1;
}

/**
 * The end of a step of any lane that is next to `t` in a direction; `limit` where there is none.
 * @param {(LaneMarks<WayLane> | null)[]} marks
 * @param {number} t
 * @param {number} direction 1 or -1
 * @param {number} limit
 */
export function nextEnd(marks, t, direction, limit) {
  let best = limit;
  for (const one of marks) {
    for (const end of one?.ends ?? []) {
      const after = direction * (end - t) > 1e-6;
      if (after && direction * (end - best) < 0) best = end;
    }
  }
  return best;
}
