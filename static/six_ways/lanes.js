// Several ways one above the other: one clock, one play head, figures beside each lane.

const v = new URL(import.meta.url).search;
const [{ el, icon, spans, say }, { decode, same, fingerprint }, scenes, { Player, SPEEDS, speedName }, theme,
  { count, seconds, moment, axisTime, limitOf }, { ticksOf }] = await Promise.all(["dom", "packet", "scene", "player", "theme",
  "format", "paint"].map((name) => import(`../timeline/${name}.js${v}`)));
const [{ paint, heightOf }, { tableOf }, { listen }, { addMoves, moving, paintLinks }] = await Promise.all(
  ["paint", "table", "gestures", "moves"].map((name) => import(`./${name}.js${v}`)));

const PLAY = "M2 1v10l9-5z", PAUSE = "M2 1h3v10H2zM7 1h3v10H7z";
const LEGEND = [["prefill", "prefill"], ["decode", "decode token"], ["stall", "gap too long"], ["cached", "KV transfer"], ["preempted", "preempted"], ["waiting", "waiting"]];

export class Lanes {
  constructor(parent, sheets) {
    this.player = new Player(() => this.frame(), () => this.rest());
    this.scenes = [];
    this.button = el("button", { type: "button", class: "btn btn-play", "aria-label": "Play", title: "Play (space)", onclick: () => this.toggle() }, icon(PLAY));
    this.readout = el("span", { class: "readout" });
    this.speed = el("select", { "aria-label": "Speed", onchange: () => { this.player.speed = +this.speed.value; } },
      ...SPEEDS.map((value) => el("option", { value, text: speedName(value) })));
    this.legend = el("ul", { class: "legend", "aria-label": "Legend" });
    this.rows = el("div", { class: "ways" });
    this.links = el("canvas", { class: "links", "aria-hidden": "true" });
    this.line = el("div", { class: "head" });
    this.veil = el("div", { class: "veil" });
    this.stage = el("div", { class: "stage-over", role: "slider", tabindex: 0, "aria-label": "Play head", "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0 }, this.veil, this.line);
    this.axis = el("div", { class: "axis", "aria-hidden": "true" });
    this.table = el("div", { class: "table-box", hidden: true, tabindex: 0, role: "region", "aria-label": "The lanes as a table" });
    this.status = el("div", { class: "visually-hidden", "aria-live": "polite" });
    const text = (words, act) => el("button", { type: "button", class: "text", text: words, onclick: act });
    this.tableButton = text("Table", () => this.showTable(this.table.hidden));
    this.tableButton.setAttribute("aria-pressed", "false");
    this.picture = el("div", { class: "ways-picture" }, this.rows, this.links, this.stage, this.axis);
    this.root = el("div", { class: "bs six", hidden: true },
      el("div", { class: "card" },
        el("div", { class: "bar", role: "group", "aria-label": "Play" }, this.button, this.readout, el("label", { class: "inline" }, "speed ", this.speed), this.legend),
        this.picture, this.table,
        el("div", { class: "bar slim", role: "group", "aria-label": "View" },
          text("−", () => this.zoom(1.6)), text("+", () => this.zoom(1 / 1.6)), text("Whole run", () => this.whole()), el("span", { class: "spring" }), this.tableButton)),
      this.status);
    this.root.querySelector(".slim").children[0].setAttribute("aria-label", "Zoom out");
    this.root.querySelector(".slim").children[1].setAttribute("aria-label", "Zoom in");
    listen(this.stage, {
      scrub: (px, released) => this.scrub(px, released), toggle: () => this.toggle(), move: (by) => this.move(by),
      to: (t) => this.seek(t === "end" ? this.player.to : this.player.from), zoom: (factor) => this.zoom(factor), whole: () => this.whole(),
    });
    this.attach(parent, sheets);
    this.resize = new ResizeObserver(() => this.repaint());
    this.resize.observe(this.rows);
    this.onPrint = () => this.restyle();
    for (const name of ["beforeprint", "afterprint"]) addEventListener(name, this.onPrint);
  }

  async attach(parent, sheets) {
    const links = sheets.map((href) => el("link", { rel: "stylesheet", href }));
    const loaded = Promise.all(links.map((link) => new Promise((done) => link.addEventListener("load", done))));
    parent.append(...links, this.root);
    await loaded;
    parent.querySelector(".skeleton")?.remove();
    this.root.hidden = false;
    this.restyle();
  }

  update(component) {
    const packet = component.data instanceof Uint8Array ? component.data : new Uint8Array(component.data);
    this.theme = theme.read(this.root);
    if (!same(packet, this.packet)) this.take(packet);
    this.repaint();
    this.rest(true);
  }

  take(packet) {
    this.packet = packet.slice();
    this.root.dataset.packet = fingerprint(packet);
    this.lanes = decode(packet).lanes;
    this.scenes = this.lanes.map((lane) => (lane.num_rows ? scenes.build(lane, "time") : null));
    this.scenes.forEach((scene, k) => scene && addMoves(scene, this.lanes[k]));
    const ends = this.lanes.map((lane) => lane.end_s).filter((end) => end > 0).sort((a, b) => a - b);
    this.end = ends.at(-1) ?? 1;
    const usual = ends[ends.length >> 1] ?? this.end;
    this.view = [0, Math.min(this.end, 1.25 * usual)];
    this.player.pause();
    this.player.limit(0, this.end);
    this.player.seek(0.25 * this.view[1]);
    this.player.suit(this.view[1]);
    this.speed.value = String(this.player.speed);
    const any = (has) => this.scenes.some((scene) => scene?.rows.some(has));
    const rare = { preempted: () => any((r) => r.waits.some((w) => w.kind === scenes.PREEMPTED)), cached: () => any((r) => r.moves.length) };
    const shown = LEGEND.filter(([name]) => !rare[name] || rare[name]());
    const limit = this.scenes.find(Boolean)?.lane;
    this.legend.replaceChildren(...shown.map(([name, words]) => el("li", {}, el("span", { class: `swatch swatch-${name}` }),
      name === "stall" && limit ? `gap above ${limitOf(limit)}` : words)));
    this.build();
    if (!this.table.hidden) this.table.replaceChildren(tableOf(this.scenes, this.lanes));
  }

  build() {
    this.parts = this.lanes.map((lane, k) => {
      const canvas = el("canvas", { "aria-hidden": "true" }), now = el("div", { class: "now" });
      const track = el("div", { class: "track-cell" }, this.scenes[k] ? canvas : el("p", { class: "refused", text: lane.problem }));
      track.style.height = this.scenes[k] ? `${heightOf(lane.num_rows)}px` : "";
      const figures = el("div", { class: "figures" }, ...lane.figures.map((line) => el("div", {}, ...spans(line))));
      this.rows.append(track);
      const row = el("div", { class: "way", "data-engine": lane.engine },
        el("div", { class: "way-name" }, el("b", { text: lane.title }), el("div", { class: "way-note", text: lane.note }), now), track, figures);
      return { row, canvas, now, track };
    });
    this.rows.replaceChildren(...this.parts.map((part) => part.row));
  }

  repaint() {
    const track = this.parts?.[0]?.track;
    if (!track?.clientWidth || this.root.hidden) return;
    const width = track.clientWidth, ratio = devicePixelRatio || 1;
    this.left = track.offsetLeft;
    this.width = width;
    this.parts.forEach(({ canvas }, k) => {
      if (!this.scenes[k]) return;
      const height = heightOf(this.lanes[k].num_rows);
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
      const g = canvas.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      paint({ g, scene: this.scenes[k], width, height, view: this.view, theme: this.theme });
    });
    for (const over of [this.stage, this.links]) Object.assign(over.style, { left: `${this.left}px`, width: `${width}px` });
    paintLinks({ canvas: this.links, parts: this.parts, scenes: this.scenes, lanes: this.lanes, width, height: this.rows.offsetHeight, x: (t) => this.x(t), theme: this.theme });
    const { at, step } = ticksOf(this.view, "time", width / 110);
    this.axis.replaceChildren(...at.map((t) => {
      const mark = el("span", { text: axisTime(t, step) });
      mark.style.left = `${this.left + this.x(t)}px`;
      return mark;
    }));
    this.frame();
  }

  x(t) {
    return ((t - this.view[0]) / (this.view[1] - this.view[0])) * this.width;
  }

  // The head moved: line, veil, what each lane does at this moment. Nothing is said aloud.
  frame() {
    if (!this.width) return;
    const t = this.player.time;
    if (this.player.playing && t > this.view[1] - 1e-9 && this.view[1] < this.end) this.pan(t);
    const x = this.x(t), inside = x >= -1 && x <= this.width + 1;
    this.line.style.transform = `translateX(${x}px)`;
    this.line.hidden = !inside;
    this.veil.hidden = !this.player.playing;
    this.veil.style.left = `${Math.min(this.width, Math.max(0, x))}px`;
    say(this.readout, moment(t));
    this.parts.forEach(({ now }, k) => say(now, this.scenes[k] ? nowOf(this.scenes[k], t) : ""));
  }

  pan(t) {
    const wide = this.view[1] - this.view[0], from = Math.min(Math.max(0, t - 0.1 * wide), Math.max(0, this.end - wide));
    this.view = [from, from + wide];
    this.repaint();
  }

  rest(quiet = false) {
    this.button.setAttribute("aria-label", this.player.playing ? "Pause" : "Play");
    this.button.replaceChildren(icon(this.player.playing ? PAUSE : PLAY));
    this.frame();
    const t = this.player.time;
    this.stage.setAttribute("aria-valuemax", Math.round(this.end * 1e3));
    this.stage.setAttribute("aria-valuenow", Math.round(t * 1e3));
    this.stage.setAttribute("aria-valuetext", moment(t));
    if (!quiet && !this.player.playing && this.parts) {
      say(this.status, `${moment(t)}. ${this.lanes.map((lane, k) => (this.scenes[k] ? `${lane.title}: ${nowOf(this.scenes[k], t)}` : "")).filter(Boolean).join(". ")}`);
    }
  }

  toggle() {
    if (!this.player.playing && theme.reducedMotion()) { // no motion: ahead by a tenth of the view
      this.seek(this.player.time >= this.end - 1e-9 ? 0 : this.player.time + 0.1 * (this.view[1] - this.view[0]));
      return;
    }
    this.player.toggle();
    this.rest(this.player.playing);
  }

  // To the next or the last moment at which any lane gives somebody a token.
  move(by) {
    const t = this.player.time, far = Math.abs(by) > 1 ? 0.1 * (this.view[1] - this.view[0]) : 0;
    if (far) return this.seek(t + Math.sign(by) * far);
    let best = by > 0 ? this.end : 0;
    for (const scene of this.scenes) {
      for (const end of scene?.ends ?? []) {
        if (by > 0 && end > t + 1e-6 && end < best) best = end;
        if (by < 0 && end < t - 1e-6 && end > best) best = end;
      }
    }
    return this.seek(best);
  }

  seek(t) {
    this.player.pause();
    this.player.seek(t);
    if (this.player.time < this.view[0] || this.player.time > this.view[1]) this.pan(this.player.time);
    this.rest();
  }

  scrub(px, released) {
    if (released) return this.rest();
    this.player.pause();
    this.player.seek(this.view[0] + (px / this.width) * (this.view[1] - this.view[0]));
    return this.frame();
  }

  zoom(factor) {
    const t = Math.min(this.view[1], Math.max(this.view[0], this.player.time)), wide = Math.min(this.end, Math.max(0.01, (this.view[1] - this.view[0]) * factor));
    const from = Math.min(Math.max(0, t - (wide * (t - this.view[0])) / (this.view[1] - this.view[0])), this.end - wide);
    this.view = [from, from + wide];
    this.repaint();
  }

  whole() {
    this.view = [0, this.end];
    this.repaint();
  }

  showTable(shown) {
    this.tableButton.setAttribute("aria-pressed", String(shown));
    this.picture.hidden = shown;
    this.table.hidden = !shown;
    if (shown) this.table.replaceChildren(tableOf(this.scenes, this.lanes));
    else this.repaint();
  }

  restyle() {
    this.theme = theme.read(this.root);
    this.repaint();
  }

  close() {
    this.player.close();
    this.resize.disconnect();
    for (const name of ["beforeprint", "afterprint"]) removeEventListener(name, this.onPrint);
  }
}

// What a lane does at a moment, in a few words: all its servers together.
function nowOf(scene, t) {
  const { lane, clock } = scene;
  if (!clock.length || t >= lane.end_s - 1e-9) return "all done";
  const parts = [], sent = moving(scene, t);
  const steps = lane.servers.map(([first, last]) => stepIn(clock, first, last, t)).filter((i) => i >= 0);
  const sum = (name) => steps.reduce((total, i) => total + lane[name][i], 0);
  const prefill = sum("prefill"), decodes = sum("decodes"), waiting = sum("waiting");
  if (lane.servers.length > 1) parts.push(`${steps.length} of ${lane.servers.length} busy`);
  if (prefill) parts.push(`${count(prefill)} prefill`);
  if (decodes) parts.push(`${count(decodes)} decode${decodes > 1 ? "s" : ""}`);
  if (sent) parts.push(`${count(sent)} transfer${sent > 1 ? "s" : ""}`);
  if (waiting) parts.push(`${count(waiting)} wait`);
  if (!steps.length && !sent) return "idle";
  const one = lane.servers.length === 1 && steps.length ? ` · ${seconds(lane.duration[steps[0]])}` : "";
  return `${parts.join(", ")}${one}`;
}

// The step of a server that runs at `t`, -1 for none; its steps are first to last.
function stepIn(clock, first, last, t) {
  let low = first, high = last;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (clock.ends[middle] > t) high = middle; else low = middle + 1;
  }
  return clock.starts[low] <= t + 1e-9 && clock.ends[low] > t ? low : -1;
}
