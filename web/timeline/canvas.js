// @ts-check
// The picture: a canvas that is painted when something changes, and one above it for the play head,
// drawn every frame. Also the tooltip, and the motion from one plan to the next.

import { contextOf, fit, zoomOf } from "../lib/canvas.js";
import { el } from "../lib/dom.js";
import { count, moment } from "../lib/format.js";
import { listen } from "../lib/gestures.js";
import { interpolate, numMarks } from "../lib/marks.js";
import { PLAIN } from "../lib/theme.js";
import { View } from "../lib/view.js";
import { layout } from "./layout.js";
import { paint } from "./paint.js";
import { describe } from "./tooltip.js";

/** @import { Context } from "../lib/canvas.js" */
/** @import { Handlers } from "../lib/gestures.js" */
/** @import { LaneMarks } from "../lib/marks.js" */
/** @import { Theme } from "../lib/theme.js" */
/** @import { TimelineLane } from "./types.js" */
/** @import { Place } from "./layout.js" */

/** @typedef {LaneMarks<TimelineLane>} Marks */

const MOTION_MS = 120;
const MOST_MARKS = 12000; // above it marks jump: motion would cost frames

export class TimelineCanvas {
  /** @param {Omit<Handlers, "hover" | "leave">} on */
  constructor(on) {
    this.base = el("canvas", { "aria-hidden": "true" });
    this.over = el("canvas", { "aria-hidden": "true", class: "over" });
    this.tip = el("div", { class: "tip", hidden: true, role: "presentation" });
    const slider = {
      class: "canvas",
      role: "slider",
      tabindex: 0,
      "aria-label": "Play head",
      "aria-valuemin": 0,
      "aria-valuemax": 0,
      "aria-valuenow": 0,
    };
    this.element = el("div", slider, this.base, this.over, this.tip);
    /** @type {Marks[]} */
    this.lanes = [];
    /** @type {Marks[]} what is on screen, maybe half way to the next plan */
    this.current = [];
    this.view = new View();
    /** @type {Theme} */
    this.theme = PLAIN;
    /** @type {Place | null} null until the element has a size */
    this.place = null;
    this.scale = 1; // px per unit of the axis
    this.labelWidth = 0;
    this.motion = 0;
    listen(this.element, {
      ...on,
      hover: (x, y) => this.hover(x, y),
      leave: () => {
        this.tip.hidden = true;
      },
    });
  }

  /**
   * Takes new marks.
   * @param {Marks[]} lanes
   * @param {Marks[]} before where the marks come from; empty: they jump
   * @param {() => void} onMotion
   */
  take(lanes, before, onMotion) {
    this.lanes = lanes;
    this.labelWidth = this.widestLabel(lanes);
    cancelAnimationFrame(this.motion);
    const marks = lanes.reduce((sum, one) => sum + numMarks(one), 0);
    if (before.length !== lanes.length || marks > MOST_MARKS) {
      this.current = lanes;
      return;
    }
    const began = performance.now();
    const move = () => {
      const u = Math.min(1, (performance.now() - began) / MOTION_MS);
      const eased = 1 - (1 - u) ** 3;
      this.current = u < 1 ? lanes.map((b, k) => interpolate(before[k], b, eased)) : lanes;
      this.paint(this.view, this.theme);
      onMotion();
      if (u < 1) this.motion = requestAnimationFrame(move);
    };
    this.current = before;
    this.motion = requestAnimationFrame(move);
  }

  /** @param {Marks[]} lanes */
  widestLabel(lanes) {
    const g = contextOf(this.base);
    g.font = `400 12px ${this.theme.font}`;
    const labels = lanes.flatMap(({ lane }) => lane.labels.slice(0, lane.num_rows));
    return Math.max(60, ...labels.map((text) => g.measureText(text).width));
  }

  /**
   * @param {View} view
   * @param {Theme} theme
   */
  paint(view, theme) {
    this.view = view;
    this.theme = theme;
    const width = this.element.clientWidth;
    if (!width) return; // not laid out yet
    const place = layout(this.current, width, this.labelWidth);
    this.place = place;
    this.scale = (place.right - place.left) / view.length;
    const zoom = zoomOf(this.element);
    const g = fit(this.base, width, place.height, zoom);
    fit(this.over, width, place.height, zoom);
    this.element.style.height = `${place.height}px`;
    paint({ g, lanes: this.current, place, view: view.range, axis: view.axis, theme });
  }

  /**
   * @param {number[]} at the head's place on each lane's axis: they differ when the axis counts steps
   * @param {number[]} steps the head's step in each lane
   * @param {boolean} playing
   */
  drawHead(at, steps, playing) {
    const { place, theme, view, lanes } = this;
    if (!place || !lanes.length) return;
    const g = contextOf(this.over);
    g.clearRect(0, 0, place.width, place.height);
    const x = (/** @type {number} */ p) => place.left + (p - view.range[0]) * this.scale;
    const shared = at.every((p) => p === at[0]);
    lanes.forEach((marks, k) => {
      if (!marks.clock.length) return;
      const lane = place.lanes[k];
      const a = Math.max(place.left, x(marks.starts[steps[k]]));
      const b = Math.min(place.right, x(marks.ends[steps[k]]));
      if (!playing && b > a) {
        g.fillStyle = theme.accent;
        g.globalAlpha = 0.07;
        const top = lane.stripTop - 4;
        g.fillRect(a, top, Math.max(2, b - a), lane.bottom - top + 2);
        g.globalAlpha = 1;
      }
      const px = x(at[k]);
      if (px < place.left - 1 || px > place.right + 1 || (shared && k > 0)) return;
      g.fillStyle = theme.ink;
      const top = shared ? place.headY + 4 : lane.stripTop - 6;
      g.fillRect(px - 0.8, top, 1.6, (shared ? place.axisY : lane.bottom) - top);
      drawHandle(g, px, top - 4);
    });
  }

  /**
   * What screen readers say about the head.
   * @param {number} i
   * @param {TimelineLane} lane
   * @param {number} time
   */
  describe(i, lane, time) {
    const step = lane.first_step + i;
    const words = `step ${count(step)} of ${count(lane.total_steps)}, ${moment(time)}`;
    this.element.setAttribute("aria-valuemax", String(Math.max(0, lane.total_steps - 1)));
    this.element.setAttribute("aria-valuenow", String(step));
    this.element.setAttribute("aria-valuetext", words);
  }

  /**
   * The number of the lane at a height.
   * @param {number} py
   */
  laneAt(py) {
    if (!this.place) return 0;
    const k = this.place.lanes.findIndex((lane) => py <= lane.bottom + 12);
    return k < 0 ? this.place.lanes.length - 1 : k;
  }

  /** @param {number} px */
  axisAt(px) {
    return this.view.range[0] + (px - (this.place?.left ?? 0)) / this.scale;
  }

  /**
   * @param {number} px
   * @param {number} py
   */
  hover(px, py) {
    const { place, tip } = this;
    const inside = place && px >= place.left && px <= place.right;
    const found = inside ? describe(this.lanes, place, this.axisAt(px), py) : null;
    tip.hidden = !found;
    if (!found || !place) return;
    const lines = found.lines.map((text) => el("div", { text }));
    tip.replaceChildren(el("b", { text: found.title }), ...lines);
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    const left = px + 14 + width > place.width ? px - 14 - width : px + 14;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(place.height - height - 4, py + 14))}px`;
  }

  close() {
    cancelAnimationFrame(this.motion);
  }
}

/**
 * @param {Context} g
 * @param {number} x
 * @param {number} top
 */
function drawHandle(g, x, top) {
  g.beginPath();
  g.moveTo(x - 6, top);
  g.lineTo(x + 6, top);
  g.lineTo(x, top + 9);
  g.fill();
}
