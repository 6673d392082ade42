// @ts-check
// A run too large to draw whole: fill, queue and worst gap in time bins, and a brush for the window.

import { ticksOf } from "../lib/axis.js";
import { fit, placeIn } from "../lib/canvas.js";
import { el, say, textButton } from "../lib/dom.js";
import { axisTime, count, moment, seconds } from "../lib/format.js";

/** @import { Context } from "../lib/canvas.js" */
/** @import { Numbers } from "../lib/packet.js" */
/** @import { Theme } from "../lib/theme.js" */
/** @import { Range } from "../lib/view.js" */
/** @import { TimelineLane, Window } from "./types.js" */

const HEIGHT = 74;
const BASE = HEIGHT - 18; // the bottom of the bars; the labels of the axis stand below it

export class Overview {
  /** @param {(window: Window) => void} onWindow the reader asks for another window */
  constructor(onWindow) {
    this.onWindow = onWindow;
    /** @type {TimelineLane | undefined} */
    this.lane = undefined;
    /** @type {Range} the run's span */
    this.span = [0, 1];
    /** @type {Range} the window's */
    this.window = [0, 1];
    const label = "Window on the whole run";
    const attributes = { class: "overview", role: "slider", tabindex: 0, "aria-label": label };
    this.canvas = el("canvas", attributes);
    this.order = el("select", {
      "aria-label": "Order of rows",
      onchange: () => this.ask({ order: this.order.value, first_row: 0 }),
    });
    this.rows = el("span", { class: "readout" });
    this.up = textButton("Earlier rows", () => this.page(-1));
    this.down = textButton("Later rows", () => this.page(1));
    const order = el("label", { class: "inline" }, "Rows by ", this.order);
    const bar = el("div", { class: "bar slim" }, order, this.rows, this.up, this.down);
    this.element = el("div", { class: "overview-box", hidden: true }, this.canvas, bar);
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  get shown() {
    return !this.element.hidden;
  }

  /**
   * @param {TimelineLane | undefined} lane
   * @param {Theme} theme
   */
  update(lane, theme) {
    this.lane = lane;
    this.element.hidden = !lane?.overview;
    if (!lane?.overview) return;
    this.span = lane.overview;
    const { num_rows: n, first_row: first, total_rows: total } = lane;
    if (this.order.length !== lane.orders.length) {
      const options = lane.orders.map(([value, text]) => el("option", { value, text }));
      this.order.replaceChildren(...options);
    }
    this.order.value = lane.order;
    say(this.rows, `${count(first + 1)} to ${count(first + n)} of ${count(total)} requests`);
    this.up.disabled = first === 0;
    this.down.disabled = first + n >= total;
    const last = lane.start.length - 1;
    const end = last < 0 ? 0 : lane.start[last] + lane.duration[last];
    this.window = [lane.t0_s, lane.t0_s + end];
    const [from, to] = this.window;
    this.canvas.setAttribute("aria-valuemin", "0");
    this.canvas.setAttribute("aria-valuemax", this.span[1].toFixed(3));
    this.canvas.setAttribute("aria-valuenow", from.toFixed(3));
    this.canvas.setAttribute("aria-valuetext", `${moment(from)} to ${moment(to)}`);
    this.paint(theme);
  }

  /** @param {Theme} theme */
  paint(theme) {
    const width = this.canvas.clientWidth;
    if (!width || !this.lane?.overview) return;
    const g = fit(this.canvas, width, HEIGHT);
    const [start, stop] = this.span;
    const x = (/** @type {number} */ t) => ((t - start) / (stop - start)) * width;
    g.fillStyle = theme.unused;
    g.fillRect(0, 0, width, BASE);
    this.paintBins(g, theme, this.lane, width);
    this.paintBrush(g, theme, x);
    this.paintAxis(g, theme, this.lane, width, x);
  }

  /**
   * @param {Context} g
   * @param {Theme} theme
   * @param {TimelineLane} lane
   * @param {number} width
   */
  paintBins(g, theme, lane, width) {
    const bins = lane.fill_max.length;
    const wide = width / bins;
    const bars = (/** @type {Numbers} */ values, /** @type {number} */ alpha) => {
      g.fillStyle = theme.prefill;
      g.globalAlpha = alpha;
      for (let i = 0; i < bins; i++) {
        const height = (values[i] / lane.fill_whole) * BASE;
        if (height > 0) g.fillRect(i * wide, BASE - height, Math.max(wide, 0.6), height);
      }
      g.globalAlpha = 1;
    };
    bars(lane.fill_max, 0.3);
    bars(lane.fill_mean, 0.85);
    const queue = Math.max(1, ...lane.queue_max);
    g.strokeStyle = theme.ink;
    g.lineWidth = 1.3;
    g.beginPath();
    for (let i = 0; i < bins; i++) {
      g.lineTo((i + 0.5) * wide, BASE - 1 - (lane.queue_mean[i] / queue) * (BASE - 4));
    }
    g.stroke();
    g.fillStyle = theme.stall;
    for (let i = 0; i < bins; i++) {
      if (lane.worst_gap[i] > lane.itl_limit_s) g.fillRect(i * wide, 0, Math.max(1.5, wide), 5);
    }
  }

  /**
   * @param {Context} g
   * @param {Theme} theme
   * @param {(t: number) => number} x
   */
  paintBrush(g, theme, x) {
    const left = x(this.window[0]);
    const width = Math.max(6, x(this.window[1]) - left);
    g.fillStyle = theme.accent;
    g.globalAlpha = 0.16;
    g.fillRect(left, 0, width, BASE);
    g.globalAlpha = 1;
    g.strokeStyle = theme.accent;
    g.lineWidth = 2;
    g.strokeRect(left + 1, 1, width - 2, BASE - 2);
  }

  /**
   * @param {Context} g
   * @param {Theme} theme
   * @param {TimelineLane} lane
   * @param {number} width
   * @param {(t: number) => number} x
   */
  paintAxis(g, theme, lane, width, x) {
    g.fillStyle = theme.muted;
    g.font = `400 11px ${theme.font}`;
    g.textAlign = "left";
    const { at, step } = ticksOf(this.span, "time", width / 130);
    for (const tick of at) {
      const words = axisTime(tick, step);
      const left = x(tick) + 2;
      if (left + g.measureText(words).width < width - 190) g.fillText(words, left, HEIGHT - 5);
    }
    g.textAlign = "right";
    const queue = count(Math.max(1, ...lane.queue_max));
    const worst = seconds(Math.max(...lane.worst_gap));
    g.fillText(`queue up to ${queue}, worst gap ${worst}`, width - 2, HEIGHT - 5);
  }

  /** @param {Partial<Window>} changes */
  ask(changes) {
    if (!this.lane) return;
    const { order, first_row } = this.lane;
    const [start_s, end_s] = this.window;
    this.onWindow({ order, first_row, start_s, end_s, ...changes });
  }

  /** @param {number} by pages of rows */
  page(by) {
    if (!this.lane) return;
    const { num_rows, first_row, total_rows } = this.lane;
    const rows = Math.max(1, num_rows);
    const wanted = Math.max(0, first_row + by * rows);
    this.ask({ first_row: Math.min(total_rows - rows, wanted) });
  }

  /** @param {number} from */
  moveTo(from) {
    const [start, stop] = this.span;
    const length = this.window[1] - this.window[0];
    const at = Math.min(stop - length, Math.max(start, from));
    this.ask({ start_s: at, end_s: at + length });
  }

  /** @param {PointerEvent} event */
  grab(event) {
    const [start, stop] = this.span;
    const move = (/** @type {PointerEvent} */ e) => {
      const share = placeIn(this.canvas, e.clientX, e.clientY)[0] / this.canvas.offsetWidth;
      const length = this.window[1] - this.window[0];
      this.moveTo(start + share * (stop - start) - length / 2);
    };
    const release = () => {
      this.canvas.onpointermove = null;
    };
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.onpointermove = move;
    this.canvas.onpointerup = release;
    this.canvas.onpointercancel = release;
    move(event);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const [from, to] = this.window;
    const length = to - from;
    const place = {
      ArrowLeft: from - length / 2,
      ArrowRight: from + length / 2,
      PageUp: from - 4 * length,
      PageDown: from + 4 * length,
      Home: Number.NEGATIVE_INFINITY,
      End: Number.POSITIVE_INFINITY,
    }[event.key];
    if (place === undefined) return;
    event.preventDefault();
    this.moveTo(place);
  }
}
