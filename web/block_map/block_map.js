// @ts-check
// The block map: every KV block of a small run, the block table of one request, and what the step did.

import { fit, placeIn } from "../lib/canvas.js";
import { el, say, table, textButton } from "../lib/dom.js";
import { count, moment, seconds } from "../lib/format.js";
import { bytesOf, decode, fingerprint, same } from "../lib/packet.js";
import { iconButton, showPlaying } from "../lib/play_controls.js";
import { Player } from "../lib/player.js";
import { applyTheme, PLAIN } from "../lib/theme.js";
import { History } from "./history.js";
import { Prefixes } from "./prefixes.js";

/** @import { Context } from "../lib/canvas.js" */
/** @import { Host } from "../lib/mount.js" */
/** @import { Theme } from "../lib/theme.js" */
/** @import { MemoryLane } from "./history.js" */

/** States of a block and their words in the legend. */
const STATES = [
  ["used", "used"],
  ["shared", "shared"],
  ["cached", "cached, not in use"],
  ["free", "free"],
];
const CELL = 30;
const LARGEST_CELL = 46;
const SPEEDS = [2, 5, 10, 25]; // steps per second
const MOST_LINES = 6;

export class BlockMap {
  constructor() {
    this.step = 0;
    this.chosen = 0; // the request whose block table is shown
    this.columns = 8;
    this.cell = CELL;
    /** @type {Uint8Array | null} */
    this.packet = null;
    /** @type {History | null} */
    this.history = null;
    /** @type {Theme} */
    this.theme = PLAIN;
    // the player's clock counts steps
    this.player = new Player(
      () => this.follow(),
      () => this.showPlaying(),
    );
    this.play = iconButton("play", "Play", () => this.toggle());
    this.readout = el("span", { class: "readout" });
    const speeds = SPEEDS.map((n) => el("option", { value: n, text: `${n} steps/s` }));
    this.speed = el("select", { "aria-label": "Steps per second" }, ...speeds);
    this.speed.addEventListener("change", () => {
      this.player.speed = +this.speed.value;
    });
    this.speed.value = "5";
    this.player.speed = 5;
    const states = STATES.map(([name, words]) =>
      el("li", {}, el("span", { class: `block block-${name}` }), words),
    );
    this.legend = el("ul", { class: "legend", "aria-label": "Legend" }, ...states);
    const range = { type: "range", class: "steps", min: 0, value: 0, "aria-label": "Step" };
    this.slider = el("input", { ...range, oninput: () => this.jump(+this.slider.value) });
    this.canvas = el("canvas", { role: "img", "aria-label": "KV blocks" });
    this.canvas.addEventListener("pointerdown", (event) => this.pick(event));
    this.grid = el("div", { class: "grid" }, this.canvas);
    this.requests = el("div", {
      class: "requests",
      role: "radiogroup",
      "aria-label": "Request whose block table is shown",
    });
    this.requests.addEventListener("keydown", (event) => this.chooseByKey(event));
    this.blockTable = el("div", { class: "block-table" });
    this.lines = el("dl", { class: "lines" });
    this.counts = el("p", { class: "counts" });
    this.table = el("div", {
      class: "table-box",
      hidden: true,
      tabindex: 0,
      role: "region",
      "aria-label": "All steps as a table",
    });
    this.status = el("div", { class: "visually-hidden", "aria-live": "polite" });
    this.tableShown = false;
    this.tableButton = textButton("Table", () => this.showTable(!this.tableShown));
    this.prefixes = new Prefixes();
    const showPrefixes = () => this.showPrefixes(!this.prefixes.shown);
    this.prefixButton = textButton("Hash chains and tree", showPrefixes);
    for (const button of [this.tableButton, this.prefixButton]) {
      button.setAttribute("aria-pressed", "false");
    }
    const title = el("h3", { text: "Block table" });
    const side = [this.counts, this.lines, title, this.requests, this.blockTable];
    this.picture = el("div", { class: "memory" }, this.grid, el("div", { class: "side" }, ...side));
    this.root = el("div", { class: "bs map" }, this.buildCard(), this.status);
    this.resize = new ResizeObserver(() => this.paint());
    this.resize.observe(this.grid);
  }

  buildCard() {
    const back = iconButton("back", "Step back", () => this.move(-1));
    const forward = iconButton("forward", "Step forward", () => this.move(1));
    const transport = el("div", { class: "transport" }, back, this.play, forward);
    const speed = el("label", { class: "inline" }, this.speed);
    const group = { class: "bar", role: "group", "aria-label": "Play" };
    return el(
      "div",
      { class: "card" },
      el("div", group, transport, this.readout, speed, this.legend),
      el("div", { class: "slide" }, this.slider),
      this.picture,
      this.prefixes.root,
      this.table,
      el(
        "div",
        { class: "bar slim" },
        this.prefixButton,
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
    this.paint();
  }

  /** @param {Uint8Array} packet */
  take(packet) {
    this.player.pause();
    this.packet = packet.slice();
    this.root.dataset.packet = fingerprint(packet);
    /** @type {MemoryLane[]} */
    const [lane] = decode(packet);
    this.history = new History(lane);
    const last = Math.max(0, this.history.length - 1);
    this.slider.max = String(last);
    this.player.limit(0, last);
    this.chosen = Math.max(0, this.history.ownerOf(lane.first));
    const pills = lane.labels.map((label, r) =>
      textButton(`${r + 1} ${label}`, () => this.choose(r), { class: "pill", role: "radio" }),
    );
    this.requests.replaceChildren(...pills);
    if (this.tableShown) this.fillTable(this.history);
    this.prefixButton.hidden = !lane.hashes.length;
    this.go(lane.first);
    const open = lane.open || this.prefixes.shown;
    this.showPrefixes(lane.hashes.length > 0 && open);
  }

  /** @param {boolean} shown */
  showPrefixes(shown) {
    this.prefixButton.setAttribute("aria-pressed", String(shown));
    this.prefixes.shown = shown;
    if (shown && this.history) this.prefixes.show(this.history, this.step);
  }

  /** @param {number} request */
  choose(request) {
    this.chosen = request;
    this.show(false);
  }

  /**
   * Arrow keys among the requests, as in any group of radio buttons.
   * @param {KeyboardEvent} event
   */
  chooseByKey(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const all = /** @type {HTMLElement[]} */ ([...this.requests.children]);
    if (!by) return;
    this.choose((this.chosen + by + all.length) % all.length);
    all[this.chosen].focus();
    event.preventDefault();
  }

  /** @param {number} step */
  go(step) {
    if (!this.history) return;
    this.step = Math.min(this.history.length - 1, Math.max(0, step));
    this.show(!this.player.playing);
  }

  /** Shows the step under the play head. */
  follow() {
    const step = Math.floor(this.player.time);
    if (step !== this.step) this.go(step);
  }

  /** @param {number} step */
  jump(step) {
    this.player.seek(step);
    this.go(step);
  }

  /** @param {number} by */
  move(by) {
    this.player.pause();
    this.go(this.step + by);
  }

  toggle() {
    if (!this.player.playing) this.player.seek(this.step);
    this.player.toggle();
    this.showPlaying();
  }

  showPlaying() {
    showPlaying(this.play, this.player.playing);
  }

  /**
   * Shows what belongs to the step under the slider.
   * @param {boolean} aloud whether screen readers say it
   */
  show(aloud) {
    const { history, step } = this;
    if (!history) return;
    const { lane, length } = history;
    this.slider.value = String(step);
    this.slider.setAttribute("aria-valuetext", `step ${step + 1} of ${length}`);
    const place = `step ${count(step + 1)} of ${count(length)} · ${moment(lane.start[step])}`;
    const tokens = `${count(lane.prefill[step])} prefill, ${count(lane.decodes[step])} decode`;
    say(this.readout, `${place} · ${tokens}`);
    const words = countsInWords(history, step);
    say(this.counts, words);
    this.showLines(lane.lines[step]);
    [...this.requests.children].forEach((pill, r) => {
      pill.setAttribute("aria-checked", String(r === this.chosen));
      pill.setAttribute("tabindex", r === this.chosen ? "0" : "-1");
    });
    this.showBlockTable(history);
    if (this.prefixes.shown) this.prefixes.show(history, step);
    if (aloud) say(this.status, `Step ${step + 1}. ${words} ${inWords(lane.lines[step], ". ")}`);
    this.paint();
  }

  /** @param {MemoryLane["lines"][number]} lines */
  showLines(lines) {
    /** @type {MemoryLane["lines"][number]} */
    const quiet = [["quiet", "waiting", "Every request keeps its blocks; some take one more."]];
    const shown = lines.length ? lines : quiet;
    const facts = shown.slice(0, MOST_LINES).map(([chip, tone, text]) => {
      const name = el("span", { class: `chip chip-${tone}`, text: chip });
      return el("div", { class: "fact" }, el("dt", {}, name), el("dd", { text }));
    });
    this.lines.replaceChildren(...facts);
  }

  /** @param {History} history */
  showBlockTable(history) {
    const { lane } = history;
    const blocks = history.table(this.chosen, this.step);
    const label = lane.labels[this.chosen];
    const holds = `${label} holds ${count(blocks.length)} blocks of ${lane.block_size} tokens`;
    const last = count(blocks.length * lane.block_size - 1);
    const text = blocks.length
      ? `${holds}; its tokens 0 to ${last} lie in`
      : `${label} holds no block.`;
    const items = blocks.map((block) => el("li", { text: String(block) }));
    this.blockTable.replaceChildren(el("p", { text }), el("ol", { start: 0 }, ...items));
  }

  paint() {
    const width = this.grid.clientWidth;
    const { history } = this;
    if (!width || this.root.hidden || !history) return;
    const { num_blocks: n, lost } = history.lane;
    const most = n > 64 ? 16 : 12;
    this.columns = Math.max(8, Math.min(most, Math.floor(width / CELL)));
    this.cell = Math.min(LARGEST_CELL, width / this.columns);
    const height = Math.ceil(n / this.columns) * this.cell;
    const g = fit(this.canvas, this.columns * this.cell, height);
    const now = history.at(this.step);
    const before = history.at(Math.max(0, this.step - 1));
    const losers = new Set(lost[this.step]);
    for (let b = 0; b < n; b++) {
      const state = history.states[now.codes[b]];
      const wasLost = state === "free" && losers.has(before.owners[b] - 1);
      this.paintBlock(g, b, state, now.owners[b] - 1, wasLost);
    }
    this.canvas.setAttribute("aria-label", `KV blocks. ${this.counts.textContent}`);
  }

  /**
   * @param {Context} g
   * @param {number} b
   * @param {string} state
   * @param {number} owner -1 for none
   * @param {boolean} wasLost a preempted request had it in the step before
   */
  paintBlock(g, b, state, owner, wasLost) {
    const { theme, cell } = this;
    const x = (b % this.columns) * cell + 1.5;
    const y = Math.floor(b / this.columns) * cell + 1.5;
    const size = cell - 3;
    const free = state === "free";
    const cached = state === "cached";
    const mine = !cached && owner === this.chosen;
    const used = mine ? theme.accent : theme.unused;
    g.beginPath();
    g.roundRect(x, y, size, size, 4);
    g.fillStyle = free ? theme.paper : cached ? theme.cached : used;
    g.fill();
    g.lineWidth = wasLost ? 2.5 : 1;
    g.strokeStyle = free ? theme.line : mine ? theme.accent : theme.waiting;
    if (wasLost) g.strokeStyle = theme.preempted;
    g.stroke();
    if (state === "shared") {
      g.beginPath();
      g.roundRect(x + 2.5, y + 2.5, size - 5, size - 5, 3);
      g.lineWidth = 2;
      g.strokeStyle = mine ? theme.onMark : theme.cached;
      g.stroke();
    }
    if (free || size < 16) return;
    g.fillStyle = cached ? theme.onPreempted : mine ? theme.onMark : theme.ink;
    g.font = `600 ${Math.min(13, size * 0.42)}px ${theme.font}`;
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.fillText(cached ? "c" : String(owner + 1), x + size / 2, y + size / 2 + 0.5);
  }

  /** @param {PointerEvent} event */
  pick(event) {
    if (!this.history) return;
    const [x, y] = placeIn(this.canvas, event.clientX, event.clientY);
    const b = Math.floor(x / this.cell) + this.columns * Math.floor(y / this.cell);
    const owner = this.history.at(this.step).owners[b];
    if (owner) this.choose(owner - 1);
  }

  /** @param {boolean} shown */
  showTable(shown) {
    this.tableShown = shown;
    this.tableButton.setAttribute("aria-pressed", String(shown));
    this.picture.hidden = shown;
    this.table.hidden = !shown;
    if (!shown) this.paint();
    else if (this.history) this.fillTable(this.history);
  }

  /** @param {History} history */
  fillTable(history) {
    const heads = ["Step", "Starts", "Used", "Shared", "Cached", "Free", "What happened"];
    this.table.replaceChildren(table("KV blocks step by step", heads, stepRows(history)));
  }

  restyle() {
    this.theme = applyTheme(this.root);
    this.paint();
  }

  close() {
    this.player.close();
    this.resize.disconnect();
  }
}

/**
 * How many blocks are held, shared, cached and free, and the rule of the engine.
 * @param {History} history
 * @param {number} step
 */
export function countsInWords(history, step) {
  const { lane } = history;
  const { used, shared, cached, free } = history.countsAt(step);
  const held = `${count(used + shared)} of ${count(lane.num_blocks)} blocks held`;
  const waiting = lane.waiting[step] ? ` · ${count(lane.waiting[step])} wait` : "";
  const others = `${count(cached)} cached · ${count(free)} free${waiting}`;
  return `${held}, ${count(shared)} of them shared · ${others}. ${lane.rules}`;
}

/**
 * @param {MemoryLane["lines"][number]} lines
 * @param {string} separator
 */
const inWords = (lines, separator) =>
  lines.map(([chip, , text]) => `${chip}: ${text}`).join(separator);

/**
 * One row per step.
 * @param {History} history
 */
export function stepRows(history) {
  const { lane } = history;
  return Array.from({ length: history.length }, (_, s) => {
    const { used, shared, cached, free } = history.countsAt(s);
    const happened = inWords(lane.lines[s], "; ");
    return [s + 1, seconds(lane.start[s]), used, shared, cached, free, happened];
  });
}
