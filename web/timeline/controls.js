// @ts-check
// The bar above the picture (play, step, speed, legend) and the one below it (axis, zoom, table).

import { el, say, term, textButton } from "../lib/dom.js";
import { count, limitOf, moment } from "../lib/format.js";
import { ZOOM_STEP } from "../lib/gestures.js";
import { PREEMPTED } from "../lib/marks.js";
import { iconButton, showPlaying, speedSelect } from "../lib/play_controls.js";

/** @import { LaneMarks } from "../lib/marks.js" */
/** @import { Axis } from "../lib/view.js" */
/** @import { TimelineLane } from "./types.js" */

/**
 * @typedef {object} Handlers
 * @property {() => void} toggle
 * @property {(by: number) => void} step
 * @property {() => void} first
 * @property {() => void} last
 * @property {(speed: number) => void} speed
 * @property {(factor: number, px: number | null) => void} zoom
 * @property {() => void} whole
 * @property {() => void} focus
 * @property {(axis: Axis) => void} axis
 * @property {(shown: boolean) => void} table
 * @property {() => void} save
 * @property {() => void} copy
 */

const COPIED_MS = 1600;

/** @type {{ axis: Axis, name: string }[]} */
const AXES = [
  { axis: "time", name: "Time" },
  { axis: "step", name: "Steps" },
];

export class Controls {
  /** @param {Handlers} on */
  constructor(on) {
    this.play = iconButton("play", "Play", on.toggle, "space");
    this.readout = el("span", { class: "readout" });
    this.speed = speedSelect(on.speed);
    this.legend = el("ul", { class: "legend", "aria-label": "Legend" });
    this.legendWritten = "";
    this.transport = el(
      "div",
      { class: "transport" },
      iconButton("first", "First step", on.first, "Home"),
      iconButton("back", "Step back", () => on.step(-1), "left arrow"),
      this.play,
      iconButton("forward", "Step forward", () => on.step(1), "right arrow"),
      iconButton("last", "Last step", on.last, "End"),
    );
    this.speedLabel = el("label", { class: "inline" }, "speed ", this.speed);
    this.top = el(
      "div",
      { class: "bar", role: "group", "aria-label": "Play" },
      this.transport,
      this.readout,
      this.speedLabel,
      this.legend,
    );
    this.axes = AXES.map(({ axis, name }) => {
      const label = `${name} on the axis`;
      const button = textButton(name, () => on.axis(axis), { "aria-label": label });
      return { axis, button };
    });
    this.table = textButton("Table", () => on.table(!this.tableShown));
    this.tableShown = false;
    this.whole = textButton("Whole run", on.whole);
    this.copy = textButton("Copy link", on.copy);
    this.address = el("input", {
      class: "address",
      readonly: true,
      hidden: true,
      "aria-label": "The address of this view",
    });
    this.bottom = el(
      "div",
      { class: "bar slim", role: "group", "aria-label": "View" },
      el("span", { class: "pair" }, ...this.axes.map(({ button }) => button)),
      el(
        "span",
        { class: "pair" },
        textButton("−", () => on.zoom(ZOOM_STEP, null), { "aria-label": "Zoom out" }),
        textButton("+", () => on.zoom(1 / ZOOM_STEP, null), { "aria-label": "Zoom in" }),
      ),
      this.whole,
      textButton("Longest prompt", on.focus, { "aria-label": "Zoom to the longest prompt" }),
      el("span", { class: "spring" }),
      this.table,
      textButton("Save picture", on.save),
      this.copy,
      this.address,
    );
    this.showTable(false);
  }

  /** @param {boolean} playing */
  showPlaying(playing) {
    showPlaying(this.play, playing);
  }

  /** @param {number} speed */
  showSpeed(speed) {
    this.speed.value = String(speed);
  }

  /** @param {Axis} axis */
  showAxis(axis) {
    for (const one of this.axes) {
      one.button.setAttribute("aria-pressed", String(one.axis === axis));
    }
  }

  /** @param {boolean} shown */
  showTable(shown) {
    this.tableShown = shown;
    this.table.setAttribute("aria-pressed", String(shown));
    say(this.table, shown ? "Picture" : "Table");
  }

  /**
   * @param {number} step
   * @param {number} total
   * @param {number} time
   */
  showPlace(step, total, time) {
    const after = ` of ${count(total)} · ${moment(time)}`;
    this.readout.replaceChildren("step ", el("b", { text: count(step) }), after);
  }

  /** @param {string | null} address what could not be copied, null where it was */
  showCopied(address) {
    this.address.hidden = address === null;
    if (address !== null) {
      this.address.value = address;
      this.address.select();
      return;
    }
    say(this.copy, "Copied");
    setTimeout(() => say(this.copy, "Copy link"), COPIED_MS);
  }

  /** @param {string[] | null} shown the controls that are left, null for all */
  limit(shown) {
    const left = (/** @type {string} */ name) => !shown || shown.includes(name);
    this.transport.hidden = !left("play");
    this.speedLabel.hidden = !left("play");
    this.bottom.hidden = !left("view");
  }

  /**
   * @param {LaneMarks<TimelineLane>[]} lanes
   * @param {Record<string, string>} terms
   */
  showLegend(lanes, terms) {
    say(this.whole, lanes[0]?.lane.overview ? "Whole window" : "Whole run");
    const items = legendOf(lanes);
    const written = JSON.stringify([items, terms]);
    if (written === this.legendWritten) return;
    this.legendWritten = written;
    const nodes = items.map(([tone, words, name]) => {
      const swatch = el("i", { class: `swatch swatch-${tone}` });
      return el("li", {}, swatch, term(words, name ? terms[name] : undefined));
    });
    this.legend.replaceChildren(...nodes);
  }
}

/**
 * What the legend explains: a colour, its words, and the glossary's term. Rare marks are left out
 * where there are none.
 * @param {LaneMarks<TimelineLane>[]} lanes
 * @returns {[tone: string, words: string, name?: string][]}
 */
export function legendOf(lanes) {
  const rows = lanes.flatMap((marks) => marks.rows);
  const limit = lanes.length ? limitOf(lanes[0].lane) : "the limit";
  /** @type {[string, string, string?][]} */
  const items = [
    ["prefill", "prefill chunk", "prefill"],
    ["decode", "decode token", "decode"],
    ["stall", `gap above ${limit}`, "ITL"],
  ];
  if (rows.some((row) => row.cached > 0)) items.push(["cached", "from the prefix cache"]);
  if (rows.some((row) => row.waits.some((wait) => wait.kind === PREEMPTED))) {
    items.push(["preempted", "preempted"]);
  }
  items.push(["waiting", "waiting"], ["unused", "unused"]);
  return items;
}
