// The block map: every KV block of a small run, the block table of one request, and what the step did.

const v = new URL(import.meta.url).search;
const [{ el, icon, say }, { decode, same, fingerprint }, theme, { count, seconds, moment }] = await Promise.all(
  ["dom", "packet", "theme", "format"].map((name) => import(`../timeline/${name}.js${v}`)));
const [{ History, FREE, USED, SHARED, CACHED }, { Prefixes }] = await Promise.all(
  ["history", "prefixes"].map((name) => import(`./${name}.js${v}`)));

const PLAY = "M2 1v10l9-5z", PAUSE = "M2 1h3v10H2zM7 1h3v10H7z", BACK = "M9 1v10L2 6zM9.4 1H11v10H9.400z", NEXT = "M3 1v10l7-5zM1 1h1.600v10H1z";
const KINDS = [[USED, "used"], [SHARED, "shared"], [CACHED, "cached, nobody's"], [FREE, "free"]];
const CELL = 30, SPEEDS = [2, 5, 10, 25];

export class BlockMap {
  constructor(parent, sheets) {
    this.step = 0;
    this.chosen = 0;
    const button = (label, path, act, name = "") => el("button", { type: "button", class: `btn ${name}`, "aria-label": label, title: label, onclick: act }, icon(path));
    this.play = button("Play", PLAY, () => this.toggle(), "btn-play");
    this.readout = el("span", { class: "readout" });
    this.speed = el("select", { "aria-label": "Steps a second" }, ...SPEEDS.map((n) => el("option", { value: n, text: `${n} steps/s` })));
    this.speed.value = "5";
    this.legend = el("ul", { class: "legend", "aria-label": "Legend" }, ...KINDS.map(([kind, words]) => el("li", {}, el("span", { class: `block block-${kind}` }), words)));
    this.slider = el("input", { type: "range", class: "steps", min: 0, value: 0, "aria-label": "Step", oninput: () => this.go(+this.slider.value) });
    this.canvas = el("canvas", { role: "img", "aria-label": "KV blocks" });
    this.canvas.addEventListener("pointerdown", (event) => this.pick(event));
    this.grid = el("div", { class: "grid" }, this.canvas);
    this.requests = el("div", { class: "requests", role: "radiogroup", "aria-label": "Request whose block table is shown", onkeydown: (event) => this.turn(event) });
    this.tableLine = el("div", { class: "block-table" });
    this.lines = el("dl", { class: "lines" });
    this.counts = el("p", { class: "counts" });
    this.table = el("div", { class: "table-box", hidden: true, tabindex: 0, role: "region", "aria-label": "All steps as a table" });
    this.status = el("div", { class: "visually-hidden", "aria-live": "polite" });
    this.tableButton = el("button", { type: "button", class: "text", text: "Table", "aria-pressed": "false", onclick: () => this.showTable(this.table.hidden) });
    this.prefixes = new Prefixes();
    this.prefixButton = el("button", { type: "button", class: "text", text: "Hash chains and tree", "aria-pressed": "false", onclick: () => this.showPrefixes(this.prefixes.root.hidden) });
    this.picture = el("div", { class: "memory" }, this.grid,
      el("div", { class: "side" }, this.counts, this.lines, el("h3", { text: "Block table" }), this.requests, this.tableLine));
    this.root = el("div", { class: "bs map", hidden: true },
      el("div", { class: "card" },
        el("div", { class: "bar", role: "group", "aria-label": "Play" },
          el("div", { class: "transport" }, button("Step back", BACK, () => this.move(-1)), this.play, button("Step forward", NEXT, () => this.move(1))),
          this.readout, el("label", { class: "inline" }, this.speed), this.legend),
        el("div", { class: "slide" }, this.slider), this.picture, this.prefixes.root, this.table,
        el("div", { class: "bar slim" }, this.prefixButton, el("span", { class: "spring" }), this.tableButton)),
      this.status);
    this.attach(parent, sheets);
    this.resize = new ResizeObserver(() => this.paint());
    this.resize.observe(this.grid);
  }

  async attach(parent, sheets) {
    const links = sheets.map((href) => el("link", { rel: "stylesheet", href }));
    const loaded = Promise.all(links.map((link) => new Promise((done) => link.addEventListener("load", done))));
    parent.append(...links, this.root);
    await loaded;
    parent.querySelector(".skeleton")?.remove();
    this.root.hidden = false;
    this.theme = theme.read(this.root);
    this.paint();
  }

  update(component) {
    const packet = component.data instanceof Uint8Array ? component.data : new Uint8Array(component.data);
    this.theme = theme.read(this.root);
    if (!same(packet, this.packet)) this.take(packet);
    this.paint();
  }

  take(packet) {
    this.pause();
    this.packet = packet.slice();
    this.root.dataset.packet = fingerprint(packet);
    this.lane = decode(packet).lanes[0];
    this.history = new History(this.lane);
    this.slider.max = Math.max(0, this.history.length - 1);
    const first = this.history.ownerOf(this.lane.first);
    this.chosen = first >= 0 ? first : 0;
    this.requests.replaceChildren(...this.lane.labels.map((label, r) =>
      el("button", { type: "button", class: "pill", role: "radio", text: `${r + 1} ${label}`, onclick: () => this.choose(r) })));
    if (!this.table.hidden) this.fillTable();
    this.prefixButton.hidden = !this.lane.hashes.length;
    this.go(this.lane.first);
    this.showPrefixes(this.lane.hashes.length > 0 && (this.lane.open || !this.prefixes.root.hidden));
  }

  showPrefixes(shown) {
    this.prefixButton.setAttribute("aria-pressed", String(shown));
    this.prefixes.root.hidden = !shown;
    if (shown) this.prefixes.show(this.history, this.step);
  }

  choose(r) {
    this.chosen = r;
    this.show(false);
  }

  // Arrow keys among the requests, as in any group of radio buttons.
  turn(event) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], all = this.requests.children;
    if (!by) return;
    this.choose((this.chosen + by + all.length) % all.length);
    all[this.chosen].focus();
    event.preventDefault();
  }

  go(step) {
    this.step = Math.min(this.history.length - 1, Math.max(0, step));
    this.show(!this.timer);
  }

  move(by) {
    this.pause();
    this.go(this.step + by);
  }

  toggle() {
    if (this.timer) return this.pause();
    if (this.step >= this.history.length - 1) this.go(0);
    const tick = () => {
      if (this.step >= this.history.length - 1) return this.pause();
      this.go(this.step + 1);
      this.timer = setTimeout(tick, 1000 / +this.speed.value);
    };
    this.timer = setTimeout(tick, 0);
    this.showPlaying();
  }

  pause() {
    clearTimeout(this.timer);
    this.timer = null;
    this.showPlaying();
  }

  showPlaying() {
    this.play.setAttribute("aria-label", this.timer ? "Pause" : "Play");
    this.play.replaceChildren(icon(this.timer ? PAUSE : PLAY));
  }

  // Everything that belongs to the step under the slider.
  show(aloud) {
    const { lane, step, history } = this, now = history.at(step), kinds = [0, 0, 0, 0];
    for (const kind of now.kinds) kinds[kind]++;
    this.slider.value = step;
    this.slider.setAttribute("aria-valuetext", `step ${step + 1} of ${history.length}`);
    say(this.readout, `step ${count(step + 1)} of ${count(history.length)} · ${moment(lane.start[step])} · ${count(lane.prefill[step])} prefill, ${count(lane.decodes[step])} decode`);
    const waits = lane.waiting[step] ? ` · ${count(lane.waiting[step])} wait` : "";
    const words = `${count(kinds[USED] + kinds[SHARED])} of ${count(lane.num_blocks)} blocks held, ${count(kinds[SHARED])} of them shared · ${count(kinds[CACHED])} cached · ${count(kinds[FREE])} free${waits}. ${lane.rules}`;
    say(this.counts, words);
    const lines = lane.lines[step].length ? lane.lines[step] : [["quiet", "waiting", "Every request keeps its blocks; some take one more."]];
    this.lines.replaceChildren(...lines.slice(0, 6).map(([chip, tone, text]) => el("div", { class: "fact" },
      el("dt", {}, el("span", { class: `chip chip-${tone}`, text: chip })), el("dd", { text }))));
    [...this.requests.children].forEach((pill, r) => {
      pill.setAttribute("aria-checked", String(r === this.chosen));
      pill.tabIndex = r === this.chosen ? 0 : -1;
    });
    const table = history.table(this.chosen, step);
    this.tableLine.replaceChildren(el("p", { text: table.length
      ? `${lane.labels[this.chosen]} holds ${count(table.length)} blocks of ${lane.block_size} tokens; its tokens 0 to ${count(table.length * lane.block_size - 1)} lie in`
      : `${lane.labels[this.chosen]} holds no block.` }), el("ol", { start: 0 }, ...table.map((block) => el("li", { text: String(block) }))));
    if (!this.prefixes.root.hidden) this.prefixes.show(history, step);
    if (aloud) say(this.status, `Step ${step + 1}. ${words} ${lane.lines[step].map(([chip, , text]) => `${chip}: ${text}`).join(". ")}`);
    this.paint();
  }

  paint() {
    const width = this.grid.clientWidth;
    if (!width || this.root.hidden || !this.history) return;
    const { g, theme: colors } = { g: this.canvas.getContext("2d"), theme: this.theme };
    const most = this.lane.num_blocks > 64 ? 16 : 12;
    this.columns = Math.max(8, Math.min(most, Math.floor(width / CELL)));
    this.cell = Math.min(46, width / this.columns);
    const height = Math.ceil(this.lane.num_blocks / this.columns) * this.cell, ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(this.columns * this.cell * ratio), height: Math.round(height * ratio) });
    Object.assign(this.canvas.style, { width: `${this.columns * this.cell}px`, height: `${height}px` });
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    const now = this.history.at(this.step), before = this.history.at(Math.max(0, this.step - 1));
    const lost = new Set(this.lane.lost[this.step]);
    for (let b = 0; b < this.lane.num_blocks; b++) this.paintBlock(g, colors, b, now, before, lost);
    this.canvas.setAttribute("aria-label", `KV blocks. ${this.counts.textContent}`);
  }

  paintBlock(g, colors, b, now, before, lost) {
    const x = (b % this.columns) * this.cell + 1.5, y = Math.floor(b / this.columns) * this.cell + 1.5, size = this.cell - 3;
    const kind = now.kinds[b], owner = now.owners[b] - 1, mine = kind !== CACHED && owner === this.chosen && owner >= 0;
    g.beginPath();
    g.roundRect(x, y, size, size, 4);
    g.fillStyle = kind === FREE ? colors.paper : kind === CACHED ? colors.cached : mine ? colors.accent : colors.unused;
    g.fill();
    g.lineWidth = 1;
    g.strokeStyle = kind === FREE ? colors.line : mine ? colors.accent : colors.waiting;
    if (kind === FREE && lost.has(before.owners[b] - 1)) {
      g.strokeStyle = colors.preempted;
      g.lineWidth = 2.5;
    }
    g.stroke();
    if (kind === SHARED) { // two frames: more than one request reads it
      g.beginPath();
      g.roundRect(x + 2.5, y + 2.5, size - 5, size - 5, 3);
      g.lineWidth = 2;
      g.strokeStyle = mine ? colors.onMark : colors.cached;
      g.stroke();
    }
    if (kind === FREE || size < 16) return;
    g.fillStyle = kind === CACHED ? colors.onPreempted : mine ? colors.onMark : colors.ink;
    g.font = `600 ${Math.min(13, size * 0.42)}px ${colors.font}`;
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.fillText(kind === CACHED ? "c" : String(owner + 1), x + size / 2, y + size / 2 + 0.5);
  }

  pick(event) {
    const box = this.canvas.getBoundingClientRect(), zoom = box.width / this.canvas.offsetWidth || 1;
    const b = Math.floor((event.clientX - box.left) / zoom / this.cell) + this.columns * Math.floor((event.clientY - box.top) / zoom / this.cell);
    const owner = this.history.at(this.step).owners[b];
    if (owner) this.choose(owner - 1);
  }

  showTable(shown) {
    this.tableButton.setAttribute("aria-pressed", String(shown));
    this.picture.hidden = shown;
    this.table.hidden = !shown;
    if (shown) this.fillTable();
    else this.paint();
  }

  fillTable() {
    const rows = Array.from({ length: this.history.length }, (_, s) => {
      const kinds = [0, 0, 0, 0];
      for (const kind of this.history.at(s).kinds) kinds[kind]++;
      return [s + 1, seconds(this.lane.start[s]), kinds[USED], kinds[SHARED], kinds[CACHED], kinds[FREE], this.lane.lines[s].map(([chip, , text]) => `${chip}: ${text}`).join("; ")];
    });
    const heads = ["Step", "Starts", "Used", "Shared", "Cached", "Free", "What happened"];
    this.table.replaceChildren(el("table", {}, el("caption", { text: "KV blocks step by step" }),
      el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((text, i) => (i ? el("td", { text: String(text) }) : el("th", { scope: "row", text: String(text) }))))))));
  }

  close() {
    clearTimeout(this.timer);
    this.resize.disconnect();
  }
}
