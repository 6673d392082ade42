// @ts-check
// The play head: a moment on the run's clock, and how it moves.

export const SPEEDS = [1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 16, 64];
/** @type {Record<number, string>} */
const FRACTIONS = { 0.5: "½", 0.25: "¼", 0.125: "⅛" };
const LONGEST_FRAME_S = 0.25; // after a pause of the browser the head moves on from where it was
const WATCHING_S = 8;

/** @param {number} speed */
export function speedName(speed) {
  return `${FRACTIONS[speed] ?? (speed < 1 ? `1/${1 / speed}` : speed)}×`;
}

/**
 * The speed at which `seconds` of the run take about eight seconds to watch.
 * @param {number} seconds
 */
export function speedFor(seconds) {
  const distance = (/** @type {number} */ speed) =>
    Math.abs(Math.log((speed * WATCHING_S) / seconds));
  return SPEEDS.reduce((a, b) => (distance(b) < distance(a) ? b : a));
}

export class Player {
  /**
   * @param {() => void} onFrame the head moved
   * @param {() => void} onPause the head stopped
   */
  constructor(onFrame, onPause) {
    this.onFrame = onFrame;
    this.onPause = onPause;
    this.time = 0;
    this.from = 0;
    this.to = 0;
    this.speed = 0.25; // of the run's clock to the reader's
    this.loop = false; // start again at the end instead of stopping there
    this.playing = false;
    this.last = 0;
    this.request = 0;
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  limit(from, to) {
    this.from = from;
    this.to = to;
    this.seek(this.time);
  }

  /** @param {number} time */
  seek(time) {
    this.time = Math.min(this.to, Math.max(this.from, time));
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  play() {
    if (this.time >= this.to - 1e-9) this.time = this.from;
    this.playing = true;
    this.last = performance.now();
    cancelAnimationFrame(this.request);
    this.request = requestAnimationFrame(() => this.tick());
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    cancelAnimationFrame(this.request);
    this.onPause();
  }

  tick() {
    if (!this.playing) return;
    const now = performance.now();
    this.advance(Math.min(LONGEST_FRAME_S, (now - this.last) / 1e3));
    this.last = now;
    this.onFrame();
    if (this.playing) this.request = requestAnimationFrame(() => this.tick());
    else this.onPause();
  }

  /**
   * Move the head by `seconds` of the reader's clock.
   * @param {number} seconds
   */
  advance(seconds) {
    this.time += seconds * this.speed;
    if (this.time < this.to) return;
    this.time = this.loop ? this.from : this.to;
    this.playing = this.loop;
  }

  close() {
    this.playing = false;
    cancelAnimationFrame(this.request);
  }
}
