// The timeline: dials, sentence, picture, inspector. Holds what must survive new data: the moment of the
// play head, the view, the speed. Everything it draws comes from the server's packet.

const v = new URL(import.meta.url).search;
const [{ el, say, spans }, { open, decode, same }, scenes, { Stage }, { View, boundsOf }, { Player }, { Controls },
  { Dials }, { Inspector }, { Overview }, { Link }, { tables }, theme, { count, moment }] = await Promise.all(
  ["dom", "packet", "scene", "stage", "view", "player", "controls", "dials", "inspector", "overview", "link", "table",
    "theme", "format"].map((name) => import(`./${name}.js${v}`)));

export class Timeline {
  constructor(parent, styleUrl) {
    this.view = new View();
    this.player = new Player(() => this.frame(), () => this.rest(true));
    this.link = new Link((kind, value) => this.component.setStateValue(kind, value), (busy) => this.busy(busy));
    this.scenes = [];
    this.step = -1;
    this.build(parent, styleUrl);
    this.resize = new ResizeObserver(() => this.repaint());
    this.resize.observe(this.stage.element);
    this.onPrint = () => this.restyle();
    for (const name of ["beforeprint", "afterprint"]) addEventListener(name, this.onPrint);
  }

  build(parent, styleUrl) {
    const player = this.player;
    const on = {
      toggle: () => this.toggle(), step: (by) => this.move(by), first: () => this.jump(0), last: () => this.jump(Infinity),
      speed: (value) => { player.speed = value; }, zoom: (factor, px = null) => this.zoom(factor, px),
      whole: () => { this.view.whole(); this.repaint(); }, story: () => this.showStory(), axis: (name) => this.setAxis(name),
      table: (shown) => this.showTable(shown), scrub: (px, released) => this.scrub(px, released),
      pan: (px) => { this.view.pan(px / this.stage.scale); this.repaint(); },
    };
    this.dials = new Dials((value) => this.turn(value));
    this.sentence = el("p", { class: "say" });
    this.controls = new Controls(on);
    this.overview = new Overview((value) => this.ask(value));
    this.stage = new Stage(on);
    this.table = el("div", { class: "table-box", hidden: true, tabindex: 0, role: "region", "aria-label": "The picture as tables" });
    this.inspector = new Inspector();
    this.problem = el("div", { class: "problem", role: "alert", hidden: true });
    this.card = el("div", { class: "card" }, this.controls.top, this.overview.element,
      el("div", { class: "picture" }, this.stage.element, this.problem), this.table, this.controls.bottom, this.inspector.element);
    this.root = el("div", { class: "bs", hidden: true }, this.dials.element, this.sentence, this.card);
    const style = el("link", { rel: "stylesheet", href: styleUrl });
    style.addEventListener("load", () => {
      parent.querySelector(".skeleton")?.remove();
      this.root.hidden = false;
      this.restyle();
    });
    parent.append(style, this.root);
  }

  // New data or a new theme.
  update(component) {
    this.component = component;
    const { envelope, packet } = open(component.data);
    const fresh = envelope.epoch !== this.epoch; // a preset or a setting was chosen: it wins over a drag
    if (fresh) this.link.drop("dials");
    this.epoch = envelope.epoch;
    this.link.answered(envelope.seq);
    this.dials.update(envelope, fresh || (!this.dials.held && this.link.idle));
    this.sentence.replaceChildren(...spans(envelope.sentence ?? []));
    this.sentence.hidden = !envelope.sentence?.length;
    this.showProblem(envelope.error);
    this.theme = theme.read(this.root);
    if (!same(packet, this.packet) || envelope.story !== this.story) this.take(packet, envelope.story);
    this.repaint();
    this.rest(false);
  }

  take(packet, story) {
    const axis = this.view.axis, before = this.stage.current, newStory = story !== this.story;
    this.packet = packet.slice();
    this.story = story;
    this.lanes = decode(packet).lanes;
    this.scenes = this.lanes.map((lane) => scenes.build(lane, axis));
    const moved = this.windowOf !== this.lanes[0]?.first_step && this.lanes[0]?.overview;
    this.windowOf = this.lanes[0]?.first_step;
    this.view.limit(boundsOf(this.scenes, axis));
    const times = boundsOf(this.scenes, "time");
    this.player.limit(times[0], times[1]);
    if (newStory) this.openStory();
    else if (moved) this.view.whole();
    else this.view.show(...this.view.range);
    const still = newStory || moved || theme.reducedMotion();
    this.stage.take(this.scenes, this.lanes, still ? null : before, () => this.drawHead());
    this.controls.showLegend(this.lanes);
    this.overview.update(this.lanes[0], this.theme);
    this.step = -1;
    if (!this.table.hidden) this.showTable(true);
    if (this.resume) {
      this.resume = false;
      this.toggle();
    }
  }

  openStory() {
    const lane = this.lanes[0];
    if (!lane) return;
    this.player.pause();
    this.player.seek(this.clock.length ? this.clock.inside(this.clock.stepAt(lane.cue_s + 1e-6)) : 0);
    this.showStory();
    const [from, to] = this.view.range;
    this.player.suit(this.view.axis === "time" ? to - from : lane.focus_s[1] - lane.focus_s[0]);
    this.controls.showSpeed(this.player.speed);
  }

  showStory() {
    const focus = this.lanes[0]?.focus_s;
    if (!focus) return;
    const lane = this.lanes[0];
    if (lane.overview && (focus[0] < this.view.bounds[0] || focus[0] > this.view.bounds[1])) {
      this.ask({ order: lane.order, first_row: 0, start_s: focus[0], end_s: lane.span_s[1] });
    }
    if (lane.overview) this.view.whole();
    else this.view.show(...focus.map((t) => (this.view.axis === "time" ? t : this.clock.position(t))));
    this.repaint();
  }

  setAxis(axis) {
    if (axis === this.view.axis || !this.scenes.length) return;
    const clock = this.scenes[0].clock;
    const turn = axis === "step" ? (t) => clock.position(t) : (p) => clock.moment(p);
    const range = this.view.range.map(turn);
    this.view.axis = axis;
    this.scenes = this.lanes.map((lane) => scenes.build(lane, axis));
    this.view.limit(boundsOf(this.scenes, axis));
    this.view.show(...range);
    this.stage.take(this.scenes, this.lanes, null);
    this.repaint();
    this.rest(false);
  }

  // Dials: newest value only, one message on its way.
  turn(value) {
    this.link.put("dials", { ...value, epoch: this.epoch });
  }

  // Another window on a large run.
  ask(value) {
    this.link.put("window", { ...value, story: this.story });
  }

  toggle() {
    this.player.toggle();
    this.controls.showPlaying(this.player.playing);
    this.frame();
  }

  get clock() {
    return this.scenes[0]?.clock;
  }

  // One step forward or back; the head stands inside a step, so its column is the one meant.
  move(by) {
    if (!this.clock?.length) return;
    const i = Math.min(this.clock.length - 1, Math.max(0, this.clock.stepAt(this.player.time) + by));
    this.jump(i);
  }

  jump(i) {
    if (!this.clock?.length) return;
    this.player.pause();
    this.player.seek(this.clock.inside(Math.min(this.clock.length - 1, i)));
    if (this.view.follow(this.at())) this.repaint();
    this.rest(true);
  }

  at(scene = this.scenes[0]) {
    return this.view.axis === "time" ? this.player.time : scene.clock.position(this.player.time);
  }

  scrub(px, released) {
    if (!this.clock?.length) return;
    if (released) {
      this.rest(true);
      return;
    }
    this.player.pause();
    const at = this.stage.axisAt(px);
    this.player.seek(this.view.axis === "time" ? at : this.clock.moment(at));
    this.frame();
  }

  zoom(factor, px) {
    this.view.zoom(factor, px === null ? Math.min(this.view.range[1], Math.max(this.view.range[0], this.at())) : this.stage.axisAt(px));
    this.repaint();
  }

  // The head moved: cursor, number of the step, inspector. Nothing is said aloud.
  frame() {
    const first = this.lanes?.[0];
    if (this.player.playing && first?.overview && this.player.time >= this.player.to - 1e-9) this.nextWindow(first);
    if (this.player.playing && this.view.follow(this.at())) this.repaint();
    else this.drawHead();
    this.showStep(false);
  }

  nextWindow(lane) {
    const end = this.player.to, start = lane.t0_s;
    if (end >= lane.span_s[1] - 1e-6) return;
    this.player.pause();
    this.resume = true;
    this.ask({ order: lane.order, first_row: lane.first_row, start_s: end, end_s: end + (end - start) });
  }

  // The head stands still: say so, and let the server know the moment.
  rest(tell) {
    this.controls.showPlaying(this.player.playing);
    this.drawHead();
    this.step = -1;
    this.showStep(tell && !this.player.playing);
    if (this.clock?.length) this.stage.describe(this.clock.stepAt(this.player.time), this.lanes[0], this.player.time, moment, count);
    if (tell && !this.player.playing) this.remember();
  }

  // The server learns where the head rests, a little later: keys repeat.
  remember() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.link.put("play", { time_s: this.player.time }), 400);
  }

  showStep(aloud) {
    if (!this.clock?.length) {
      this.inspector.show(null);
      return;
    }
    const i = this.clock.stepAt(this.player.time);
    this.controls.showPlace(this.clock.first + i, this.lanes[0].total_steps, this.player.time);
    if (i === this.step) return;
    this.step = i;
    this.inspector.show(this.lanes[0], i, aloud);
    this.inspector.settle(this.player.playing);
  }

  drawHead() {
    this.stage.drawHead(this.scenes.map((scene) => this.at(scene)), this.scenes.map((scene) => scene.clock.stepAt(this.player.time)), this.player.playing);
  }

  repaint() {
    this.stage.paint(this.view, this.theme);
    this.drawHead();
    this.controls.showAxis(this.view.axis);
    if (this.lanes?.[0]?.overview) this.overview.paint(this.theme);
    if (!this.table.hidden) this.showTable(true);
  }

  restyle() {
    this.theme = theme.read(this.root);
    this.repaint();
  }

  showTable(shown, from = null) {
    this.table.hidden = !shown;
    this.stage.element.hidden = shown;
    this.controls.showTable(shown);
    if (!shown) {
      this.repaint();
      return;
    }
    this.table.replaceChildren(...this.scenes.map((scene) => {
      const inView = (x) => scenes.stepUnder(scene, x);
      const [first, last] = [inView(this.view.range[0]), inView(this.view.range[1]) + 1];
      return tables(scene, from ?? first, last, (next) => this.showTable(true, next));
    }));
  }

  showProblem(error) {
    this.problem.hidden = !error;
    this.card.classList.toggle("dimmed", Boolean(error));
    if (!error) return;
    const cures = (error.cures ?? []).map(({ id, label }) =>
      el("button", { type: "button", class: "cure", text: label, onclick: () => this.component.setTriggerValue("action", { id }) }));
    this.problem.replaceChildren(el("p", { text: error.text }), el("div", { class: "cures" }, ...cures));
  }

  busy(waiting) {
    clearTimeout(this.slow);
    this.card.removeAttribute("aria-busy");
    if (waiting) this.slow = setTimeout(() => this.card.setAttribute("aria-busy", "true"), 300);
  }

  close() {
    this.player.close();
    this.stage.close();
    this.link.close();
    this.resize.disconnect();
    clearTimeout(this.slow);
    clearTimeout(this.resting);
    for (const name of ["beforeprint", "afterprint"]) removeEventListener(name, this.onPrint);
  }
}
