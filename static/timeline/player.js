// The play head: a moment on the run's clock, and how it moves.

export const SPEEDS = [1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 16, 64];
const FRACTIONS = { 0.5: "½", 0.25: "¼", 0.125: "⅛" };

export function speedName(speed) {
  return `${FRACTIONS[speed] ?? (speed < 1 ? `1/${1 / speed}` : speed)}×`;
}

export class Player {
  // onFrame(): the head moved; onPause(): it came to rest.
  constructor(onFrame, onPause) {
    this.onFrame = onFrame;
    this.onPause = onPause;
    this.time = 0;
    this.from = 0;
    this.to = 0;
    this.speed = 0.25;
    this.playing = false;
  }

  // A speed at which `seconds` of the run take about eight seconds to watch.
  suit(seconds) {
    const wanted = seconds / 8;
    this.speed = SPEEDS.reduce((a, b) => (Math.abs(Math.log(b / wanted)) < Math.abs(Math.log(a / wanted)) ? b : a));
  }

  limit(from, to) {
    this.from = from;
    this.to = to;
    this.time = Math.min(to, Math.max(from, this.time));
  }

  seek(time) {
    this.time = Math.min(this.to, Math.max(this.from, time));
  }

  toggle() {
    if (this.playing) this.pause(); else this.play();
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
    this.time += Math.min(0.25, (now - this.last) / 1e3) * this.speed;
    this.last = now;
    if (this.time >= this.to) {
      this.time = this.to;
      this.playing = false;
    }
    this.onFrame();
    if (this.playing) this.request = requestAnimationFrame(() => this.tick());
    else this.onPause();
  }

  close() {
    this.playing = false;
    cancelAnimationFrame(this.request);
  }
}
