// @ts-check
// The lanes as a table: one row per way and request.

import { table } from "../lib/dom.js";
import { count, limitOf, moment, seconds } from "../lib/format.js";
import { stateOf } from "../lib/marks.js";

/** @import { LaneMarks, Row } from "../lib/marks.js" */
/** @import { WayLane } from "./types.js" */

/**
 * @param {(LaneMarks<WayLane> | null)[]} marks
 * @param {WayLane[]} lanes
 */
export function tableOf(marks, lanes) {
  const drawn = marks.find(Boolean)?.lane;
  const heads = [
    "Way",
    "Request",
    "Arrives",
    "First token after",
    "Prefill chunks",
    "Tokens",
    drawn ? `Gaps above ${limitOf(drawn)}` : "Gaps",
    "State at the end",
  ];
  return table("What each way does with each request", heads, rowsOf(marks, lanes));
}

/**
 * The cells of the table. A lane that was refused has one row that says why.
 * @param {(LaneMarks<WayLane> | null)[]} marks
 * @param {WayLane[]} lanes
 */
export function rowsOf(marks, lanes) {
  return lanes.flatMap((lane, k) => {
    const rows = marks[k]?.rows;
    if (!rows) return [[lane.title, lane.problem, "", "", "", "", "", "refused"]];
    return rows.map((row) => [lane.title, ...cellsOf(row, lane.arrives)]);
  });
}

/**
 * @param {Row} row
 * @param {string} [arrives]
 */
function cellsOf(row, arrives) {
  const ttft = row.firstTokenS - row.arrivalS;
  const arrival = `${moment(row.arrivalS)}${arrives ? `, ${arrives}` : ""}`;
  return [
    row.label,
    Number.isFinite(row.arrivalS) ? arrival : "never",
    Number.isFinite(ttft) ? seconds(ttft) : "none",
    count(row.chunks.length),
    count(row.ticks.length),
    row.gaps.map(({ gap }) => seconds(gap)).join(", ") || "none",
    stateOf(row),
  ];
}
