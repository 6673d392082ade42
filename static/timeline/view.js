// The stretch of the axis in view: zoom around a point, pan, keep inside the bounds.

const LEAST = { time: 1e-3, step: 2 }; // the narrowest view: a millisecond, two steps

export class View {
  constructor() {
    this.axis = "time";
    this.bounds = [0, 1];
    this.range = [0, 1];
  }

  limit(bounds) {
    this.bounds = bounds[1] > bounds[0] ? bounds : [bounds[0], bounds[0] + 1];
  }

  // Show [from, to], moved and cut so that it stays inside the bounds.
  show(from, to) {
    const [low, high] = this.bounds, whole = high - low;
    const length = Math.min(whole, Math.max(LEAST[this.axis], to - from));
    const start = Math.min(high - length, Math.max(low, from));
    this.range = [start, start + length];
  }

  whole() {
    this.range = [...this.bounds];
  }

  zoom(factor, at) {
    const [from, to] = this.range;
    const share = (at - from) / (to - from), length = Math.max(LEAST[this.axis], (to - from) * factor);
    this.show(at - share * length, at + (1 - share) * length);
  }

  pan(by) {
    this.show(this.range[0] + by, this.range[1] + by);
  }

  // Turn a page when `at` has left the view; true when it did.
  follow(at) {
    const [from, to] = this.range;
    if (at >= from && at <= to) return false;
    const length = to - from;
    this.show(at - 0.1 * length, at + 0.9 * length);
    return true;
  }
}

// Where all lanes together begin and end, in units of the axis.
export function boundsOf(scenes, axis) {
  let low = Infinity, high = -Infinity;
  for (const { lane, clock, starts, ends } of scenes) {
    if (!clock.length) { // nothing ran: the arrivals alone
      if (axis === "time") [low, high] = [Math.min(low, lane.span_s[0]), Math.max(high, lane.span_s[1])];
      continue;
    }
    const before = axis === "time" && !lane.overview ? Math.min(lane.span_s[0], starts[0]) : starts[0];
    low = Math.min(low, before);
    high = Math.max(high, ends[clock.length - 1]);
  }
  if (!(high > low)) return [0, 1];
  const margin = axis === "time" && !scenes[0].lane.overview ? 0.008 * (high - low) : 0;
  return [low - margin, high + margin];
}
