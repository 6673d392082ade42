// The timeline: dials, sentence, picture, inspector. Holds what must survive new data: the moment of the
// play head, the view, the speed. Everything it draws comes from the server's packet.

const v = new URL(import.meta.url).search;
const [{ spans }, { open, decode, same, fingerprint }, scenes, { View, boundsOf }, { Player }, { Link }, theme,
  { count, moment }, { queryOf, remember }, { assemble }] = await Promise.all(["dom", "packet", "scene", "view", "player", "link",
  "theme", "format", "share", "parts"].map((name) => import(`./${name}.js${v}`)));

export class Timeline {
  constructor(parent, styleUrl) {
    this.view = new View();
    this.player = new Player(() => this.frame(), () => this.rest(true));
    this.link = new Link((kind, value) => this.component.setStateValue(kind, value), (waiting) => this.busy.show(waiting));
    this.scenes = [];
    this.step = -1;
    this.look = 0; // the lane whose steps are told
    assemble(this, parent, styleUrl);
    this.resize = new ResizeObserver(() => this.repaint());
    this.resize.observe(this.stage.element);
    this.onPrint = () => this.restyle();
    for (const name of ["beforeprint", "afterprint"]) addEventListener(name, this.onPrint);
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
    this.envelope = envelope;
    this.compare.update(envelope.compare);
    this.question.update(envelope.question);
    this.problem.update(envelope.problem);
    this.card.classList.toggle("dimmed", Boolean(envelope.problem));
    this.inspector.source.update(envelope.source);
    this.controls.limit(envelope.shown);
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
    this.root.dataset.packet = fingerprint(packet);
    this.look = Math.min(this.look, Math.max(0, this.lanes.length - 1));
    this.inspector.offer(this.lanes, this.look);
    const moved = this.windowOf !== this.lanes[0]?.first_step && this.lanes[0]?.overview;
    this.windowOf = this.lanes[0]?.first_step;
    this.view.limit(boundsOf(this.scenes, axis));
    const times = boundsOf(this.scenes, "time");
    this.player.limit(times[0], times[1]);
    if (newStory) this.openStory();
    else if (moved) this.view.whole();
    else this.view.show(...this.view.range);
    const still = newStory || moved || this.dials.held || theme.reducedMotion(); // a drag has its own motion
    this.stage.take(this.scenes, this.lanes, still ? null : before, () => this.drawHead());
    this.controls.showLegend(this.lanes, this.envelope.terms);
    this.overview.update(this.lanes[0], this.theme);
    this.step = -1;
    if (this.table.shown) this.table.show(this.scenes, this.view);
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
    if (this.envelope.view && !this.opened) this.openView(this.envelope.view);
    this.opened = true;
  }

  // Where a link wants the picture to open.
  openView({ step, axis, start, end }) {
    if (axis) {
      this.setAxis(axis);
      this.view.show(start, end);
    }
    const i = step === null ? -1 : step - this.clock.first;
    if (i >= 0 && i < this.clock.length) this.player.seek(this.clock.inside(i));
  }

  lookAt(k) {
    if (k === this.look || !this.lanes?.[k]) return;
    this.look = k;
    this.inspector.offer(this.lanes, k);
    this.rest(false);
  }

  query() {
    const step = this.clock?.length ? this.scenes[0].clock.first + this.scenes[0].clock.stepAt(this.player.time) : null;
    return queryOf(this.envelope.link, { step, view: this.view, lane: this.lanes?.[0] });
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

  // Of the lane that is looked at.
  get clock() {
    return this.scenes[this.look]?.clock;
  }

  get lane() {
    return this.lanes?.[this.look];
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
    if (this.clock?.length) this.stage.describe(this.clock.stepAt(this.player.time), this.lane, this.player.time, moment, count);
    if (tell && !this.player.playing) this.remember();
  }

  // The server learns where the head rests, a little later: keys repeat.
  remember() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      remember(this.query());
      this.link.put("play", { time_s: this.player.time });
    }, 400);
  }

  showStep(aloud) {
    if (!this.clock?.length) {
      this.inspector.show(null);
      return;
    }
    const i = this.clock.stepAt(this.player.time);
    this.controls.showPlace(this.clock.first + i, this.lane.total_steps, this.player.time);
    if (i === this.step) return;
    this.step = i;
    this.inspector.show(this.lane, i, aloud);
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
    if (this.table.shown) this.table.show(this.scenes, this.view);
  }

  restyle() {
    this.theme = theme.read(this.root);
    this.repaint();
  }

  showTable(shown) {
    this.stage.element.hidden = shown;
    this.controls.showTable(shown);
    if (shown) this.table.show(this.scenes, this.view);
    else this.table.hide();
    if (!shown) this.repaint();
  }

  close() {
    this.player.close();
    this.stage.close();
    this.link.close();
    this.resize.disconnect();
    this.busy.close();
    this.inspector.source.close();
    clearTimeout(this.resting);
    for (const name of ["beforeprint", "afterprint"]) removeEventListener(name, this.onPrint);
  }
}
