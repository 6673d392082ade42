// @ts-check
// The timeline: dials, sentence, picture, inspector. It holds what must survive new data: the moment
// of the play head, the view, the speed. What it draws comes from the server's packet.

import { spans } from "../lib/dom.js";
import { build } from "../lib/marks.js";
import { decode, fingerprint, openEnvelope, same } from "../lib/packet.js";
import { Player, speedFor } from "../lib/player.js";
import { applyTheme, PLAIN, reducedMotion } from "../lib/theme.js";
import { Transport } from "../lib/transport.js";
import { boundsOf, View } from "../lib/view.js";
import { buildElements } from "./elements.js";
import * as share from "./share.js";

/** @import { LaneMarks } from "../lib/marks.js" */
/** @import { Host } from "../lib/mount.js" */
/** @import { Theme } from "../lib/theme.js" */
/** @import { Axis } from "../lib/view.js" */
/** @import { Handlers } from "./elements.js" */
/** @import { Envelope, LinkedView, TimelineLane, Window } from "./types.js" */

const RESTING_MS = 400; // keys repeat: the server learns where the head stopped a little later

export class Timeline {
  constructor() {
    this.view = new View();
    this.player = new Player(
      () => this.showFrame(),
      () => this.showRest(true),
    );
    this.elements = buildElements(this.handlers());
    this.root = this.elements.root;
    this.transport = new Transport(
      (kind, value) => this.host?.setStateValue(kind, value),
      (waiting) => this.elements.busy.show(waiting),
    );
    /** @type {Host | null} */
    this.host = null;
    /** @type {Envelope | null} */
    this.envelope = null;
    /** @type {Uint8Array | null} */
    this.packet = null;
    /** @type {string | null} */
    this.workload = null;
    /** @type {LaneMarks<TimelineLane>[]} */
    this.lanes = [];
    /** @type {Theme} */
    this.theme = PLAIN;
    this.selected = 0; // the lane whose steps the inspector explains
    this.shownStep = -1;
    /** @type {number | undefined} the first step of the window on a large run */
    this.windowStep = undefined;
    this.opened = false; // whether the view of the page's address was shown
    this.resume = false; // play on when the next window is there
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.resting = undefined;
    this.resize = new ResizeObserver(() => this.repaint());
    this.resize.observe(this.elements.canvas.element);
  }

  /** @returns {Handlers} */
  handlers() {
    const { player, view } = this;
    return {
      toggle: () => this.toggle(),
      step: (by) => this.move(by),
      first: () => this.jump(0),
      last: () => this.jump(Number.POSITIVE_INFINITY),
      speed: (value) => {
        player.speed = value;
      },
      zoom: (factor, px) => this.zoom(factor, px),
      whole: () => {
        view.whole();
        this.repaint();
      },
      focus: () => this.showFocus(),
      axis: (axis) => this.setAxis(axis),
      table: (shown) => this.showTable(shown),
      scrub: (px) => this.scrub(px),
      release: () => {
        if (this.clock?.length) this.showRest(true);
      },
      pan: (px) => {
        view.pan(px / this.elements.canvas.scale);
        this.repaint();
      },
      select: (py) => this.select(this.elements.canvas.laneAt(py)),
      lane: (k) => this.select(k),
      save: () => this.save(),
      copy: async () => this.elements.controls.showCopied(await share.copy(this.query())),
      action: (id) => this.host?.setTriggerValue("action", { id }),
      dials: (value) => this.transport.put("dials", { ...value, epoch: this.envelope?.epoch }),
      window: (window) => this.ask(window),
    };
  }

  /**
   * Takes new data or a new theme.
   * @param {Host} host
   */
  update(host) {
    this.host = host;
    const { envelope, packet } = openEnvelope(host.data);
    this.take(envelope);
    this.theme = applyTheme(this.root);
    if (!same(packet, this.packet) || envelope.story !== this.workload) {
      this.takePacket(packet, envelope);
    }
    this.repaint();
    this.showRest(false);
  }

  /** @param {Envelope} envelope */
  take(envelope) {
    const { compare, question, problem, dials, sentence, controls, inspector, card } =
      this.elements;
    const fresh = envelope.epoch !== this.envelope?.epoch; // a preset was chosen: it wins over a drag
    if (fresh) this.transport.drop("dials");
    this.envelope = envelope;
    this.transport.answered(envelope.seq);
    dials.update(envelope, fresh || (!dials.held && this.transport.idle));
    sentence.replaceChildren(...spans(envelope.sentence));
    sentence.hidden = !envelope.sentence.length;
    compare.update(envelope.compare);
    question.update(envelope.question);
    problem.update(envelope.problem);
    card.classList.toggle("dimmed", Boolean(envelope.problem));
    inspector.source.update(envelope.source);
    controls.limit(envelope.shown);
  }

  /**
   * @param {Uint8Array} packet
   * @param {Envelope} envelope
   */
  takePacket(packet, envelope) {
    const { canvas, controls, overview, tables, inspector, dials } = this.elements;
    const { axis } = this.view;
    const before = canvas.current;
    const fresh = envelope.story !== this.workload;
    this.packet = packet.slice();
    this.workload = envelope.story;
    /** @type {TimelineLane[]} */
    const lanes = decode(packet);
    this.lanes = lanes.map((lane) => build(lane, axis));
    this.root.dataset.packet = fingerprint(packet);
    this.selected = Math.min(this.selected, Math.max(0, lanes.length - 1));
    inspector.offer(lanes, this.selected);
    const first = lanes[0]?.first_step;
    const moved = Boolean(lanes[0]?.overview) && this.windowStep !== first;
    this.windowStep = first;
    this.view.limit(boundsOf(this.lanes, axis));
    this.player.limit(...boundsOf(this.lanes, "time"));
    if (fresh) this.openWorkload(envelope);
    else if (moved) this.view.whole();
    else this.view.show(...this.view.range);
    const jump = fresh || moved || dials.held || reducedMotion(); // a drag has its own motion
    canvas.take(this.lanes, jump ? [] : before, () => this.drawHead());
    controls.showLegend(this.lanes, envelope.terms);
    overview.update(lanes[0], this.theme);
    this.shownStep = -1;
    if (tables.shown) tables.show(this.lanes, this.view);
    if (this.resume) {
      this.resume = false;
      this.toggle();
    }
  }

  /**
   * Shows a new workload where it is interesting, or where the page's address says.
   * @param {Envelope} envelope
   */
  openWorkload(envelope) {
    const lane = this.lanes[0]?.lane;
    if (!lane) return;
    const { player, view, clock } = this;
    player.pause();
    player.seek(clock?.length ? clock.inside(clock.stepAt(lane.cue_s + 1e-6)) : 0);
    this.showFocus();
    player.speed = speedFor(view.axis === "time" ? view.length : lane.focus_s[1] - lane.focus_s[0]);
    this.elements.controls.showSpeed(player.speed);
    if (envelope.view && !this.opened) this.openView(envelope.view);
    this.opened = true;
  }

  /** @param {LinkedView} view */
  openView({ step, axis, start, end }) {
    if (axis) {
      this.setAxis(axis);
      this.view.show(start, end);
    }
    const { clock } = this;
    if (step === null || !clock) return;
    const i = step - clock.first;
    if (i >= 0 && i < clock.length) this.player.seek(clock.inside(i));
  }

  /** @param {number} k */
  select(k) {
    if (k === this.selected || !this.lanes[k]) return;
    this.selected = k;
    this.elements.inspector.offer(
      this.lanes.map(({ lane }) => lane),
      k,
    );
    this.showRest(false);
  }

  query() {
    const clock = this.clock?.length ? this.lanes[0].clock : null;
    const step = clock ? clock.first + clock.stepAt(this.player.time) : null;
    const place = { step, view: this.view, lane: this.lanes[0]?.lane };
    return share.queryOf(this.envelope?.link ?? "", place);
  }

  save() {
    const { canvas, sentence } = this.elements;
    const caption = this.envelope?.caption ?? "";
    share.save([canvas.base, canvas.over], sentence.textContent ?? "", caption, this.theme);
  }

  /** Shows what happens around the longest prompt. */
  showFocus() {
    const lane = this.lanes[0]?.lane;
    if (!lane) return;
    const { view } = this;
    const [from, to] = lane.focus_s;
    if (lane.overview) {
      if (from < view.bounds[0] || from > view.bounds[1]) {
        this.ask({ order: lane.order, first_row: 0, start_s: from, end_s: lane.span_s[1] });
      }
      view.whole();
    } else if (view.axis === "time") view.show(from, to);
    else if (this.clock) view.show(this.clock.position(from), this.clock.position(to));
    this.repaint();
  }

  /** @param {Axis} axis */
  setAxis(axis) {
    const { view, lanes } = this;
    if (axis === view.axis || !lanes.length) return;
    const { clock } = lanes[0];
    const convert = (/** @type {number} */ at) =>
      axis === "step" ? clock.position(at) : clock.moment(at);
    const [from, to] = view.range;
    view.axis = axis;
    this.lanes = lanes.map(({ lane }) => build(lane, axis));
    view.limit(boundsOf(this.lanes, axis));
    view.show(convert(from), convert(to));
    this.elements.canvas.take(this.lanes, [], () => {});
    this.repaint();
    this.showRest(false);
  }

  /**
   * Asks for another window on a large run.
   * @param {Window} window
   */
  ask(window) {
    this.transport.put("window", { ...window, story: this.workload });
  }

  toggle() {
    this.player.toggle();
    this.elements.controls.showPlaying(this.player.playing);
    this.showFrame();
  }

  /** The lane that the inspector explains. */
  get lane() {
    return this.lanes[this.selected]?.lane;
  }

  get clock() {
    return this.lanes[this.selected]?.clock;
  }

  /**
   * Moves by steps; the head stands inside a step, so its column is the one meant.
   * @param {number} by
   */
  move(by) {
    if (this.clock) this.jump(Math.max(0, this.clock.stepAt(this.player.time) + by));
  }

  /** @param {number} i */
  jump(i) {
    const { clock } = this;
    if (!clock?.length) return;
    this.player.pause();
    this.player.seek(clock.inside(Math.min(clock.length - 1, i)));
    if (this.view.follow(this.headIn(this.lanes[0]))) this.repaint();
    this.showRest(true);
  }

  /**
   * The place of the head on a lane's axis.
   * @param {LaneMarks<TimelineLane>} marks
   */
  headIn({ clock }) {
    return this.view.axis === "time" ? this.player.time : clock.position(this.player.time);
  }

  /** @param {number} px */
  scrub(px) {
    const { clock } = this;
    if (!clock?.length) return;
    this.player.pause();
    const at = this.elements.canvas.axisAt(px);
    this.player.seek(this.view.axis === "time" ? at : clock.moment(at));
    this.showFrame();
  }

  /**
   * @param {number} factor
   * @param {number | null} px where; null: at the head
   */
  zoom(factor, px) {
    const { view } = this;
    const head = this.lanes.length ? this.headIn(this.lanes[0]) : 0;
    view.zoom(factor, px === null ? view.clamp(head) : this.elements.canvas.axisAt(px));
    this.repaint();
  }

  /** The head moved: cursor, number of the step, inspector. Screen readers stay quiet. */
  showFrame() {
    const { player } = this;
    const lane = this.lanes[0]?.lane;
    if (player.playing && lane) {
      if (lane.overview && player.time >= player.to - 1e-9) this.nextWindow(lane);
      if (player.playing && this.view.follow(this.headIn(this.lanes[0]))) this.repaint();
      else this.drawHead();
    } else this.drawHead();
    this.showStep(false);
  }

  /** @param {TimelineLane} lane */
  nextWindow(lane) {
    const end = this.player.to;
    if (end >= lane.span_s[1] - 1e-6) return;
    this.player.pause();
    this.resume = true;
    const { order, first_row, t0_s } = lane;
    this.ask({ order, first_row, start_s: end, end_s: end + (end - t0_s) });
  }

  /**
   * The head stopped.
   * @param {boolean} announce whether screen readers and the server learn of it
   */
  showRest(announce) {
    const { player, clock, lane } = this;
    this.elements.controls.showPlaying(player.playing);
    this.drawHead();
    this.shownStep = -1;
    this.showStep(announce && !player.playing);
    if (clock?.length) {
      this.elements.canvas.describe(clock.stepAt(player.time), lane, player.time);
    }
    if (announce && !player.playing) this.remember();
  }

  remember() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      share.remember(this.query());
      this.transport.put("play", { time_s: this.player.time });
    }, RESTING_MS);
  }

  /** @param {boolean} aloud */
  showStep(aloud) {
    const { clock, lane, player } = this;
    const { controls, inspector } = this.elements;
    if (!clock?.length) {
      inspector.showNothing();
      return;
    }
    const i = clock.stepAt(player.time);
    controls.showPlace(clock.first + i, lane.total_steps, player.time);
    if (i === this.shownStep) return;
    this.shownStep = i;
    inspector.show(lane, i, aloud);
    inspector.settle(player.playing);
  }

  drawHead() {
    const { time, playing } = this.player;
    const steps = this.lanes.map(({ clock }) => clock.stepAt(time));
    const at = this.lanes.map((marks) => this.headIn(marks));
    this.elements.canvas.drawHead(at, steps, playing);
  }

  repaint() {
    const { canvas, controls, overview, tables } = this.elements;
    canvas.paint(this.view, this.theme);
    this.drawHead();
    controls.showAxis(this.view.axis);
    if (overview.shown) overview.paint(this.theme);
    if (tables.shown) tables.show(this.lanes, this.view);
  }

  restyle() {
    this.theme = applyTheme(this.root);
    this.repaint();
  }

  /** @param {boolean} shown */
  showTable(shown) {
    const { canvas, controls, tables } = this.elements;
    canvas.element.hidden = shown;
    controls.showTable(shown);
    if (shown) tables.show(this.lanes, this.view);
    else tables.hide();
    if (!shown) this.repaint();
  }

  close() {
    this.player.close();
    this.elements.canvas.close();
    this.transport.close();
    this.resize.disconnect();
    this.elements.busy.close();
    this.elements.inspector.source.close();
    clearTimeout(this.resting);
  }
}
