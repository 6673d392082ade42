// @ts-check
// Several ways to batch, one above the other: one clock, one play head, figures beside each lane.

import { ticksOf } from "../lib/axis.js";
import { fit } from "../lib/canvas.js";
import { el, say, spans, textButton } from "../lib/dom.js";
import { axisTime, limitOf, moment } from "../lib/format.js";
import { listen, ZOOM_STEP } from "../lib/gestures.js";
import { build, PREEMPTED } from "../lib/marks.js";
import { bytesOf, decode, fingerprint, same } from "../lib/packet.js";
import { iconButton, showPlaying, speedSelect } from "../lib/play_controls.js";
import { Player, speedFor } from "../lib/player.js";
import { applyTheme, PLAIN, reducedMotion } from "../lib/theme.js";
import { View } from "../lib/view.js";
import { activityAt, nextEnd } from "./activity.js";
import { addTransfers, paintLinks } from "./kv_transfers.js";
import { heightOf } from "./layout.js";
import { paint } from "./paint.js";
import { tableOf } from "./table.js";

/** @import { LaneMarks } from "../lib/marks.js" */
/** @import { Host } from "../lib/mount.js" */
/** @import { Theme } from "../lib/theme.js" */
/** @import { WayLane } from "./types.js" */

const NARROWEST = { time: 0.01, step: 2 };
const PAGE = 0.1; // of the view: a long step with the keys, and the jump when motion is reduced

/** The elements of one lane. @typedef {{ row: HTMLElement, canvas: HTMLCanvasElement, now: HTMLElement, track: HTMLElement }} Elements */

export class Lanes {
  constructor() {
    this.player = new Player(
      () => this.showFrame(),
      () => this.showRest(),
    );
    this.view = new View(NARROWEST);
    /** @type {WayLane[]} */
    this.lanes = [];
    /** @type {(LaneMarks<WayLane> | null)[]} null for a lane that was refused */
    this.marks = [];
    /** @type {Elements[]} */
    this.elements = [];
    /** @type {Uint8Array | null} */
    this.packet = null;
    /** @type {Theme} */
    this.theme = PLAIN;
    this.left = 0; // of the tracks
    this.width = 0;
    this.play = iconButton("play", "Play", () => this.toggle(), "space");
    this.readout = el("span", { class: "readout" });
    this.speed = speedSelect((speed) => {
      this.player.speed = speed;
    });
    this.legend = el("ul", { class: "legend", "aria-label": "Legend" });
    this.rows = el("div", { class: "ways" });
    this.links = el("canvas", { class: "links", "aria-hidden": "true" });
    this.line = el("div", { class: "head" });
    this.veil = el("div", { class: "veil" });
    const slider = {
      class: "head-area",
      role: "slider",
      tabindex: 0,
      "aria-label": "Play head",
      "aria-valuemin": 0,
      "aria-valuemax": 0,
      "aria-valuenow": 0,
    };
    this.head = el("div", slider, this.veil, this.line);
    this.axis = el("div", { class: "axis", "aria-hidden": "true" });
    this.table = el("div", {
      class: "table-box",
      hidden: true,
      tabindex: 0,
      role: "region",
      "aria-label": "The lanes as a table",
    });
    this.status = el("div", { class: "visually-hidden", "aria-live": "polite" });
    this.tableShown = false;
    this.tableButton = textButton("Table", () => this.showTable(!this.tableShown));
    this.tableButton.setAttribute("aria-pressed", "false");
    const parts = [this.rows, this.links, this.head, this.axis];
    this.picture = el("div", { class: "ways-picture" }, ...parts);
    this.root = el("div", { class: "bs six" }, this.buildCard(), this.status);
    listen(this.head, {
      scrub: (px) => this.scrub(px),
      release: () => this.showRest(),
      toggle: () => this.toggle(),
      step: (by) => this.move(by),
      first: () => this.seek(this.player.from),
      last: () => this.seek(this.player.to),
      zoom: (factor, px) => this.zoom(factor, px),
      whole: () => this.showWhole(),
    });
    this.resize = new ResizeObserver(() => this.repaint());
    this.resize.observe(this.rows);
  }

  buildCard() {
    const speed = el("label", { class: "inline" }, "speed ", this.speed);
    const playing = { class: "bar", role: "group", "aria-label": "Play" };
    const viewing = { class: "bar slim", role: "group", "aria-label": "View" };
    return el(
      "div",
      { class: "card" },
      el("div", playing, this.play, this.readout, speed, this.legend),
      this.picture,
      this.table,
      el(
        "div",
        viewing,
        textButton("−", () => this.zoom(ZOOM_STEP, null), { "aria-label": "Zoom out" }),
        textButton("+", () => this.zoom(1 / ZOOM_STEP, null), { "aria-label": "Zoom in" }),
        textButton("Whole run", () => this.showWhole()),
        el("span", { class: "spring" }),
        this.tableButton,
      ),
    );
  }

  /** @param {Host} host */
  update(host) {
    const packet = bytesOf(host.data);
    this.theme = applyTheme(this.root);
    if (!same(packet, this.packet)) this.take(packet);
    this.repaint();
    this.showRest(true);
  }

  /** @param {Uint8Array} packet */
  take(packet) {
    this.packet = packet.slice();
    this.root.dataset.packet = fingerprint(packet);
    this.lanes = decode(packet);
    this.marks = this.lanes.map((lane) => (lane.num_rows ? build(lane, "time") : null));
    for (const marks of this.marks) if (marks) addTransfers(marks);
    const ends = this.lanes.map(({ end_s }) => end_s).filter((end) => end > 0);
    ends.sort((a, b) => a - b);
    const end = ends.at(-1) ?? 1;
    const usual = ends[ends.length >> 1] ?? end;
    this.view.limit([0, end]);
    this.view.range = [0, Math.min(end, 1.25 * usual)];
    this.player.pause();
    this.player.limit(0, end);
    this.player.seek(0.25 * this.view.length);
    this.player.speed = speedFor(this.view.length);
    this.speed.value = String(this.player.speed);
    this.showLegend();
    this.build();
    if (this.tableShown) this.table.replaceChildren(tableOf(this.marks, this.lanes));
  }

  showLegend() {
    const items = legendOf(this.marks);
    const nodes = items.map(([tone, words]) =>
      el("li", {}, el("span", { class: `swatch swatch-${tone}` }), words),
    );
    this.legend.replaceChildren(...nodes);
  }

  build() {
    this.elements = this.lanes.map((lane, k) => {
      const drawn = this.marks[k] !== null;
      const canvas = el("canvas", { "aria-hidden": "true" });
      const now = el("div", { class: "now" });
      const refusal = el("p", { class: "refused", text: lane.problem });
      const track = el("div", { class: "track-cell" }, drawn ? canvas : refusal);
      track.style.height = drawn ? `${heightOf(lane.num_rows)}px` : "";
      const title = el("b", { text: lane.title });
      const note = el("div", { class: "way-note", text: lane.note });
      const figures = lane.figures.map((line) => el("div", {}, ...spans(line)));
      const row = el(
        "div",
        { class: "way", "data-engine": lane.engine },
        el("div", { class: "way-name" }, title, note, now),
        track,
        el("div", { class: "figures" }, ...figures),
      );
      return { row, canvas, now, track };
    });
    this.rows.replaceChildren(...this.elements.map(({ row }) => row));
  }

  repaint() {
    const track = this.elements[0]?.track;
    if (!track?.clientWidth || this.root.hidden) return;
    const { view, theme } = this;
    const width = track.clientWidth;
    this.left = track.offsetLeft;
    this.width = width;
    this.elements.forEach(({ canvas }, k) => {
      const marks = this.marks[k];
      if (!marks) return;
      const height = heightOf(marks.rows.length);
      const g = fit(canvas, width, height);
      paint({ g, marks, width, height, view: view.range, theme });
    });
    for (const over of [this.head, this.links]) {
      Object.assign(over.style, { left: `${this.left}px`, width: `${width}px` });
    }
    paintLinks({
      canvas: this.links,
      marks: this.marks,
      tops: this.elements.map(({ canvas }) => canvas.offsetTop),
      width,
      height: this.rows.offsetHeight,
      x: (t) => this.x(t),
      theme,
    });
    const { at, step } = ticksOf(view.range, "time", width / 110);
    const labels = at.map((t) => {
      const label = el("span", { text: axisTime(t, step) });
      label.style.left = `${this.left + this.x(t)}px`;
      return label;
    });
    this.axis.replaceChildren(...labels);
    this.showFrame();
  }

  /** @param {number} t */
  x(t) {
    return ((t - this.view.range[0]) / this.view.length) * this.width;
  }

  /** The head moved: line, veil, what each lane does now. Screen readers stay quiet. */
  showFrame() {
    if (!this.width) return;
    const { player, view } = this;
    const t = player.time;
    if (player.playing && t > view.range[1] - 1e-9 && view.range[1] < player.to) this.turnTo(t);
    const x = this.x(t);
    this.line.style.transform = `translateX(${x}px)`;
    this.line.hidden = x < -1 || x > this.width + 1;
    this.veil.hidden = !player.playing;
    this.veil.style.left = `${Math.min(this.width, Math.max(0, x))}px`;
    say(this.readout, moment(t));
    this.elements.forEach(({ now }, k) => {
      const marks = this.marks[k];
      say(now, marks ? activityAt(marks, t) : "");
    });
  }

  /**
   * Shows the page of the view that begins a little before `t`.
   * @param {number} t
   */
  turnTo(t) {
    const { length } = this.view;
    this.view.show(t - 0.1 * length, t + 0.9 * length);
    this.repaint();
  }

  /** @param {boolean} [quiet] for screen readers */
  showRest(quiet = false) {
    const { player } = this;
    showPlaying(this.play, player.playing);
    this.showFrame();
    const t = player.time;
    this.head.setAttribute("aria-valuemax", String(Math.round(player.to * 1e3)));
    this.head.setAttribute("aria-valuenow", String(Math.round(t * 1e3)));
    this.head.setAttribute("aria-valuetext", moment(t));
    if (quiet || player.playing) return;
    const words = this.marks.map((marks) =>
      marks ? `${marks.lane.title}: ${activityAt(marks, t)}` : "",
    );
    say(this.status, `${moment(t)}. ${words.filter(Boolean).join(". ")}`);
  }

  toggle() {
    const { player } = this;
    if (!player.playing && reducedMotion()) {
      const atEnd = player.time >= player.to - 1e-9;
      this.seek(atEnd ? 0 : player.time + PAGE * this.view.length);
      return;
    }
    player.toggle();
    this.showRest(player.playing);
  }

  /**
   * To the next or the last moment at which a step of any lane ends; by pages for longer moves.
   * @param {number} by
   */
  move(by) {
    const { time, from, to } = this.player;
    if (Math.abs(by) > 1) this.seek(time + Math.sign(by) * PAGE * this.view.length);
    else this.seek(nextEnd(this.marks, time, by, by > 0 ? to : from));
  }

  /** @param {number} t */
  seek(t) {
    const { player, view } = this;
    player.pause();
    player.seek(t);
    if (player.time < view.range[0] || player.time > view.range[1]) this.turnTo(player.time);
    this.showRest();
  }

  /** @param {number} px */
  scrub(px) {
    this.player.pause();
    this.player.seek(this.timeAt(px));
    this.showFrame();
  }

  /** @param {number} px */
  timeAt(px) {
    return this.view.range[0] + (px / this.width) * this.view.length;
  }

  /**
   * @param {number} factor
   * @param {number | null} px where; null: at the head
   */
  zoom(factor, px) {
    this.view.zoom(factor, px === null ? this.view.clamp(this.player.time) : this.timeAt(px));
    this.repaint();
  }

  showWhole() {
    this.view.whole();
    this.repaint();
  }

  /** @param {boolean} shown */
  showTable(shown) {
    this.tableShown = shown;
    this.tableButton.setAttribute("aria-pressed", String(shown));
    this.picture.hidden = shown;
    this.table.hidden = !shown;
    if (shown) this.table.replaceChildren(tableOf(this.marks, this.lanes));
    else this.repaint();
  }

  restyle() {
    this.theme = applyTheme(this.root);
    this.repaint();
  }

  close() {
    this.player.close();
    this.resize.disconnect();
  }
}

/**
 * What the legend explains: a colour and its words. Rare marks are left out where there are none.
 * @param {(LaneMarks<WayLane> | null)[]} marks
 * @returns {[tone: string, words: string][]}
 */
export function legendOf(marks) {
  const rows = marks.flatMap((one) => one?.rows ?? []);
  const lane = marks.find(Boolean)?.lane;
  /** @type {[string, string][]} */
  const items = [
    ["prefill", "prefill"],
    ["decode", "decode token"],
    ["stall", lane ? `gap above ${limitOf(lane)}` : "gap too long"],
  ];
  if (rows.some((row) => row.transfers.length)) items.push(["cached", "KV transfer"]);
  if (rows.some((row) => row.waits.some((wait) => wait.kind === PREEMPTED))) {
    items.push(["preempted", "preempted"]);
  }
  items.push(["waiting", "waiting"]);
  return items;
}
