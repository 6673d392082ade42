// @ts-check
// The elements of the timeline and how they stand in the page: built once, filled with every answer.

import { el } from "../lib/dom.js";
import { TimelineCanvas } from "./canvas.js";
import { Compare } from "./compare.js";
import { Controls } from "./controls.js";
import { Dials } from "./dials.js";
import { Inspector } from "./inspector.js";
import { Busy, Problem, Question } from "./notices.js";
import { Overview } from "./overview.js";
import { Tables } from "./table.js";

/** @import { Handlers as ControlHandlers } from "./controls.js" */
/** @import { Handlers as Gestures } from "../lib/gestures.js" */
/** @import { Window } from "./types.js" */

/**
 * What the reader can do.
 * @typedef {ControlHandlers & Required<Omit<Gestures, "hover" | "leave">> & {
 *   action: (id: string) => void,
 *   dials: (value: { budget: number, cap: number, released: boolean }) => void,
 *   window: (window: Window) => void,
 *   lane: (k: number) => void,
 * }} Handlers
 */
/** @typedef {ReturnType<typeof buildElements>} Elements */

/** @param {Handlers} on */
export function buildElements(on) {
  const compare = new Compare(on.action);
  const question = new Question(on.action);
  const problem = new Problem(on.action);
  const dials = new Dials(on.dials, compare.element);
  const sentence = el("p", { class: "say" });
  const controls = new Controls(on);
  const overview = new Overview(on.window);
  const canvas = new TimelineCanvas(on);
  const tables = new Tables();
  const inspector = new Inspector(on.lane);
  const card = el(
    "div",
    { class: "card" },
    controls.top,
    overview.element,
    el("div", { class: "picture" }, canvas.element, problem.element),
    tables.element,
    controls.bottom,
    inspector.element,
  );
  const root = el("div", { class: "bs" }, dials.element, question.element, sentence, card);
  const busy = new Busy(card);
  return {
    root,
    card,
    compare,
    question,
    problem,
    dials,
    sentence,
    controls,
    overview,
    canvas,
    tables,
    inspector,
    busy,
  };
}
