// A run too large to draw whole: fill, queue and worst gap in time bins, and a brush for the window.

const v = new URL(import.meta.url).search;
const [{ el, say }, { count, seconds, moment, axisTime }, { ticksOf }] = await Promise.all([
  import(`./dom.js${v}`), import(`./format.js${v}`), import(`./paint.js${v}`),
]);

const HEIGHT = 74, ORDERS = [["arrival", "arrival"], ["ttft", "TTFT, longest first"], ["worst gap", "worst gap first"]];

export class Overview {
  // onWindow({ order, first_row, start_s, end_s })
  constructor(onWindow) {
    this.onWindow = onWindow;
    this.canvas = el("canvas", { class: "overview", role: "slider", tabindex: 0, "aria-label": "Window on the whole run" });
    this.order = el("select", { "aria-label": "Order of rows", onchange: () => this.ask({ order: this.order.value, first_row: 0 }) },
      ...ORDERS.map(([value, text]) => el("option", { value, text })));
    this.rows = el("span", { class: "readout" });
    const page = (by, text, label) => el("button", { type: "button", class: "text", text, "aria-label": label, onclick: () => this.page(by) });
    this.up = page(-1, "Earlier rows", "Earlier rows");
    this.down = page(1, "Later rows", "Later rows");
    this.element = el("div", { class: "overview-box", hidden: true }, this.canvas,
      el("div", { class: "bar slim" }, el("label", { class: "inline" }, "Rows by ", this.order), this.rows, this.up, this.down));
    this.canvas.addEventListener("pointerdown", (event) => this.grab(event));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  update(lane, theme) {
    this.lane = lane;
    this.element.hidden = !lane?.overview;
    if (this.element.hidden) return;
    const n = lane.num_rows;
    this.order.value = lane.order;
    say(this.rows, `${count(lane.first_row + 1)} to ${count(lane.first_row + n)} of ${count(lane.total_rows)} requests`);
    this.up.disabled = lane.first_row === 0;
    this.down.disabled = lane.first_row + n >= lane.total_rows;
    const last = lane.start.length - 1;
    this.from = lane.t0_s;
    this.to = last < 0 ? lane.t0_s : lane.t0_s + lane.start[last] + lane.duration[last];
    this.canvas.setAttribute("aria-valuemin", 0);
    this.canvas.setAttribute("aria-valuemax", lane.overview[1].toFixed(3));
    this.canvas.setAttribute("aria-valuenow", this.from.toFixed(3));
    this.canvas.setAttribute("aria-valuetext", `${moment(this.from)} to ${moment(this.to)}`);
    this.paint(theme);
  }

  paint(theme) {
    const width = this.canvas.clientWidth, ratio = devicePixelRatio || 1;
    if (!width || !this.lane?.overview) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(HEIGHT * ratio);
    const g = this.canvas.getContext("2d"), lane = this.lane, [start, stop] = lane.overview;
    g.scale(ratio, ratio);
    const bins = lane.fill_max.length, wide = width / bins, base = HEIGHT - 18;
    const bars = (values, top, color, alpha, height) => {
      g.fillStyle = color;
      g.globalAlpha = alpha;
      for (let i = 0; i < bins; i++) {
        const h = (values[i] / top) * height;
        if (h > 0) g.fillRect(i * wide, base - h, Math.max(wide, 0.6), h);
      }
      g.globalAlpha = 1;
    };
    g.fillStyle = theme.unused;
    g.fillRect(0, 0, width, base);
    bars(lane.fill_max, 255, theme.prefill, 0.3, base);
    bars(lane.fill_mean, 255, theme.prefill, 0.85, base);
    const queue = Math.max(1, ...lane.queue_max);
    g.strokeStyle = theme.ink;
    g.lineWidth = 1.3;
    g.beginPath();
    for (let i = 0; i < bins; i++) g.lineTo((i + 0.5) * wide, base - 1 - (lane.queue_mean[i] / queue) * (base - 4));
    g.stroke();
    g.fillStyle = theme.stall;
    for (let i = 0; i < bins; i++) if (lane.worst_gap[i] > lane.itl_limit_s) g.fillRect(i * wide, 0, Math.max(1.5, wide), 5);
    const x = (t) => ((t - start) / (stop - start)) * width;
    g.fillStyle = theme.accent;
    g.globalAlpha = 0.16;
    const left = x(this.from), brush = Math.max(6, x(this.to) - left);
    g.fillRect(left, 0, brush, base);
    g.globalAlpha = 1;
    g.strokeStyle = theme.accent;
    g.lineWidth = 2;
    g.strokeRect(left + 1, 1, brush - 2, base - 2);
    g.fillStyle = theme.muted;
    g.font = `400 11px ${theme.font}`;
    g.textAlign = "left";
    const ticks = ticksOf([start, stop], "time", width / 130);
    for (const at of ticks.at) {
      const words = axisTime(at, ticks.step);
      if (x(at) + 2 + g.measureText(words).width < width - 190) g.fillText(words, x(at) + 2, HEIGHT - 5);
    }
    g.textAlign = "right";
    g.fillText(`queue up to ${count(queue)}, worst gap ${seconds(Math.max(...lane.worst_gap))}`, width - 2, HEIGHT - 5);
  }

  ask(changes) {
    const { order, first_row } = this.lane;
    this.onWindow({ order, first_row, start_s: this.from, end_s: this.to, ...changes });
  }

  page(by) {
    const step = Math.max(1, this.lane.num_rows);
    this.ask({ first_row: Math.min(this.lane.total_rows - step, Math.max(0, this.lane.first_row + by * step)) });
  }

  moveTo(from) {
    const [start, stop] = this.lane.overview, length = this.to - this.from;
    const at = Math.min(stop - length, Math.max(start, from));
    this.ask({ start_s: at, end_s: at + length });
  }

  grab(event) {
    const box = this.canvas.getBoundingClientRect(), [start, stop] = this.lane.overview;
    const move = (e) => {
      const t = start + ((e.clientX - box.left) / box.width) * (stop - start);
      this.moveTo(t - (this.to - this.from) / 2);
    };
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.onpointermove = move;
    this.canvas.onpointerup = this.canvas.onpointercancel = () => { this.canvas.onpointermove = null; };
    move(event);
  }

  key(event) {
    const length = this.to - this.from;
    const by = { ArrowLeft: -length / 2, ArrowRight: length / 2, PageUp: -4 * length, PageDown: 4 * length }[event.key];
    if (by === undefined && event.key !== "Home" && event.key !== "End") return;
    event.preventDefault();
    this.moveTo(event.key === "Home" ? -Infinity : event.key === "End" ? Infinity : this.from + by);
  }
}
