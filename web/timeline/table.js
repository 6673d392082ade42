// @ts-check
// The picture as two tables: the requests and the steps that are in view.

import { el, table, textButton } from "../lib/dom.js";
import { count, limitOf, moment, seconds } from "../lib/format.js";
import { stateOf, stepUnder } from "../lib/marks.js";
import { linesOf } from "./step_explanation.js";

/** @import { LaneMarks } from "../lib/marks.js" */
/** @import { View } from "../lib/view.js" */
/** @import { TimelineLane } from "./types.js" */

const STEPS_PER_PAGE = 200;

export class Tables {
  constructor() {
    this.element = el("div", {
      class: "table-box",
      hidden: true,
      tabindex: 0,
      role: "region",
      "aria-label": "The picture as tables",
    });
  }

  get shown() {
    return !this.element.hidden;
  }

  /**
   * Shows what is in view.
   * @param {LaneMarks<TimelineLane>[]} lanes
   * @param {View} view
   * @param {number | null} from the first step of the page, null for the first in view
   */
  show(lanes, view, from = null) {
    this.element.hidden = false;
    const tables = lanes.map((marks) => {
      const first = stepUnder(marks, view.range[0]);
      const last = stepUnder(marks, view.range[1]) + 1;
      return tablesOf(marks, from ?? first, last, (next) => this.show(lanes, view, next));
    });
    this.element.replaceChildren(...tables);
  }

  hide() {
    this.element.hidden = true;
  }
}

/**
 * The tables of steps [from, to).
 * @param {LaneMarks<TimelineLane>} marks
 * @param {number} from
 * @param {number} to
 * @param {(next: number) => void} onPage
 */
function tablesOf(marks, from, to, onPage) {
  const last = Math.min(to, from + STEPS_PER_PAGE);
  const { title, budget } = marks.lane;
  const tables = [
    table(`${title}: requests`, requestHeads(marks.lane), requestRows(marks, from, to)),
    table(`${title}: steps, budget ${count(budget)}`, STEP_HEADS, stepRows(marks, from, last)),
  ];
  const box = el("div", { class: "tables" }, ...tables);
  if (last < to) {
    const { first } = marks.clock;
    const steps = `Steps ${count(first + from)} to ${count(first + last - 1)} of the view shown.`;
    box.append(
      el(
        "p",
        { class: "note" },
        steps,
        " ",
        textButton("Next steps", () => onPage(last)),
      ),
    );
  }
  return box;
}

/** @param {TimelineLane} lane */
const requestHeads = (lane) => [
  "Request",
  "Arrives",
  "First token after",
  "Prefill chunks in view, tokens",
  "Output tokens in view",
  `Gaps above ${limitOf(lane)} in view`,
  "State at the end",
];

/**
 * One row per request.
 * @param {LaneMarks<TimelineLane>} marks
 * @param {number} from
 * @param {number} to
 */
export function requestRows(marks, from, to) {
  return marks.rows.map((row) => {
    const chunks = row.chunks.filter((chunk) => chunk.step >= from && chunk.step < to);
    const ticks = row.tickSteps.filter((step) => step >= from && step < to);
    const gaps = row.gaps.filter((gap) =>
      ticks.some((step) => Math.abs(marks.ends[step] - gap.x1) < 1e-9),
    );
    const ttft = row.firstTokenS - row.arrivalS;
    return [
      row.label,
      Number.isFinite(row.arrivalS) ? moment(row.arrivalS) : "not sent yet",
      Number.isFinite(ttft) ? seconds(ttft) : "none",
      chunks.map((chunk) => count(chunk.n)).join(", ") || "none",
      count(ticks.length),
      gaps.map((gap) => seconds(gap.gap)).join(", ") || "none",
      stateOf(row),
    ];
  });
}

const STEP_HEADS = [
  "Step",
  "Starts",
  "Lasts",
  "Prefill tokens",
  "Decodes",
  "Unused",
  "Waiting",
  "Stopped by",
];

/**
 * One row per step of [from, to).
 * @param {LaneMarks<TimelineLane>} marks
 * @param {number} from
 * @param {number} to
 */
export function stepRows({ lane, clock }, from, to) {
  const rows = [];
  for (let i = from; i < to; i++) {
    const stop = linesOf(lane, i).find((line) => line.name?.startsWith("stop"));
    rows.push([
      count(clock.first + i),
      moment(clock.starts[i]),
      seconds(lane.duration[i]),
      count(lane.prefill[i]),
      count(lane.decodes[i]),
      count(lane.budget - lane.prefill[i] - lane.decodes[i]),
      count(lane.waiting[i]),
      stop ? stop.parts.map(([text]) => text).join("") : "",
    ]);
  }
  return rows;
}
