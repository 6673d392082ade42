// Two canvases on top of each other: the picture, painted when something changes, and the play head,
// drawn every frame. Also the tooltip and the glide from one plan to the next.

const v = new URL(import.meta.url).search;
const [{ el }, { layout }, { paint }, { listen }, { describe }, { between, size }] = await Promise.all(
  ["dom", "layout", "paint", "gestures", "hover", "scene"].map((name) => import(`./${name}.js${v}`)));

const GLIDE = 120; // ms
const MOST_MARKS = 12000; // above it marks jump: gliding would cost frames

export class Stage {
  constructor(on) {
    this.base = el("canvas", { "aria-hidden": "true" });
    this.over = el("canvas", { "aria-hidden": "true", class: "over" });
    this.tip = el("div", { class: "tip", hidden: true, role: "presentation" });
    this.element = el("div", {
      class: "stage", role: "slider", tabindex: 0, "aria-label": "Play head", "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0,
    }, this.base, this.over, this.tip);
    this.scenes = [];
    this.current = null; // what is on screen: a scene may be half way to the next
    listen(this.element, { ...on, hover: (x, y) => this.hover(x, y), leave: () => { this.tip.hidden = true; } });
  }

  take(scenes, lanes, before, onGlide) {
    this.scenes = scenes;
    const scratch = this.base.getContext("2d");
    scratch.font = `400 12px ${this.theme?.font ?? "sans-serif"}`;
    this.labelWidth = Math.max(60, ...lanes.flatMap((lane) => lane.labels.slice(0, lane.num_rows)).map((text) => scratch.measureText(text).width));
    cancelAnimationFrame(this.gliding);
    const marks = scenes.reduce((sum, scene) => sum + size(scene), 0);
    if (!before || before.length !== scenes.length || marks > MOST_MARKS) {
      this.current = scenes;
      return;
    }
    const began = performance.now();
    const glide = () => {
      const u = Math.min(1, (performance.now() - began) / GLIDE), ease = 1 - (1 - u) ** 3;
      this.current = u < 1 ? scenes.map((scene, k) => between(before[k], scene, ease)) : scenes;
      this.paint(this.view, this.theme);
      onGlide?.();
      if (u < 1) this.gliding = requestAnimationFrame(glide);
    };
    this.current = before;
    this.gliding = requestAnimationFrame(glide);
  }

  paint(view, theme) {
    this.view = view;
    this.theme = theme;
    const width = this.element.clientWidth;
    if (!width || !this.current) return; // not laid out yet
    this.place = layout(this.current, width, this.labelWidth);
    this.scale = (this.place.right - this.place.left) / (view.range[1] - view.range[0]);
    const zoom = this.element.getBoundingClientRect().width / this.element.offsetWidth || 1;
    const g = fit(this.base, this.place, zoom), over = fit(this.over, this.place, zoom);
    this.element.style.height = `${this.place.height}px`;
    over.clearRect(0, 0, width, this.place.height);
    paint({ g, scenes: this.current, place: this.place, view: view.range, axis: view.axis, theme });
  }

  // at: the head's place on each lane's axis (they differ when the axis counts steps); steps: its step.
  drawHead(at, steps, playing) {
    if (!this.place || !this.scenes.length) return;
    const g = this.over.getContext("2d"), { place, theme, view } = this;
    g.clearRect(0, 0, place.width, place.height);
    const x = (p) => place.left + (p - view.range[0]) * this.scale;
    const inside = (p) => p >= place.left - 1 && p <= place.right + 1;
    const shared = at.every((p) => p === at[0]);
    this.scenes.forEach((scene, k) => {
      if (!scene.clock.length) return;
      const lane = place.lanes[k], a = Math.max(place.left, x(scene.starts[steps[k]])), b = Math.min(place.right, x(scene.ends[steps[k]]));
      if (!playing && b > a) {
        g.fillStyle = theme.accent;
        g.globalAlpha = 0.07;
        g.fillRect(a, lane.stripTop - 4, Math.max(2, b - a), lane.bottom - lane.stripTop + 6);
        g.globalAlpha = 1;
      }
      const px = x(at[k]);
      if (!inside(px)) return;
      g.fillStyle = theme.ink;
      const top = shared ? place.headY + 4 : lane.stripTop - 6, bottom = shared ? place.axisY : lane.bottom;
      if (!shared || k === 0) {
        g.fillRect(px - 0.8, top, 1.6, bottom - top);
        handle(g, px, top - 4);
      }
    });
  }

  describe(i, lane, time, moment, count) {
    const step = lane.first_step + i;
    this.element.setAttribute("aria-valuemax", Math.max(0, lane.total_steps - 1));
    this.element.setAttribute("aria-valuenow", step);
    this.element.setAttribute("aria-valuetext", `step ${count(step)} of ${count(lane.total_steps)}, ${moment(time)}`);
  }

  // The number of the lane at a height.
  laneAt(py) {
    const k = this.place?.lanes.findIndex((lane) => py <= lane.bottom + 12) ?? 0;
    return k < 0 ? this.place.lanes.length - 1 : k;
  }

  axisAt(px) {
    return this.view.range[0] + (px - this.place.left) / this.scale;
  }

  hover(px, py) {
    const found = this.place && px >= this.place.left && px <= this.place.right
      ? describe(this.scenes, this.place, this.axisAt(px), py) : null;
    this.tip.hidden = !found;
    if (!found) return;
    this.tip.replaceChildren(el("b", { text: found.title }), ...found.lines.map((text) => el("div", { text })));
    const width = this.tip.offsetWidth, height = this.tip.offsetHeight;
    const left = px + 14 + width > this.place.width ? px - 14 - width : px + 14;
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${Math.max(4, Math.min(this.place.height - height - 4, py + 14))}px`;
  }

  close() {
    cancelAnimationFrame(this.gliding);
  }
}

// Sizes a canvas for its place and the screen's pixels; returns a context in CSS pixels.
function fit(canvas, { width, height }, zoom) {
  const ratio = (window.devicePixelRatio || 1) * zoom, w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  return g;
}

function handle(g, x, top) {
  g.beginPath();
  g.moveTo(x - 6, top);
  g.lineTo(x + 6, top);
  g.lineTo(x, top + 9);
  g.fill();
}
