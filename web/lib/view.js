// @ts-check
// The stretch of the axis in view: zoom around a point, pan, keep inside the bounds.

/** @import { LaneMarks } from "./marks.js" */

/** @typedef {"time" | "step"} Axis */
/** @typedef {[number, number]} Range */

export const NARROWEST = { time: 1e-3, step: 2 }; // a millisecond, two steps

export class View {
  /** @param {Record<Axis, number>} narrowest the shortest stretch in view, per axis */
  constructor(narrowest = NARROWEST) {
    this.narrowest = narrowest;
    /** @type {Axis} */
    this.axis = "time";
    /** @type {Range} */
    this.bounds = [0, 1];
    /** @type {Range} */
    this.range = [0, 1];
  }

  get length() {
    return this.range[1] - this.range[0];
  }

  /** @param {Range} bounds */
  limit(bounds) {
    this.bounds = bounds[1] > bounds[0] ? bounds : [bounds[0], bounds[0] + 1];
  }

  /**
   * Show [from, to], moved and cut so that it stays inside the bounds.
   * @param {number} from
   * @param {number} to
   */
  show(from, to) {
    const [low, high] = this.bounds;
    const length = Math.min(high - low, Math.max(this.narrowest[this.axis], to - from));
    const start = Math.min(high - length, Math.max(low, from));
    this.range = [start, start + length];
  }

  whole() {
    this.range = [...this.bounds];
  }

  /**
   * @param {number} factor above 1: show more
   * @param {number} at the point that keeps its place
   */
  zoom(factor, at) {
    const share = (at - this.range[0]) / this.length;
    const length = Math.max(this.narrowest[this.axis], this.length * factor);
    this.show(at - share * length, at + (1 - share) * length);
  }

  /** @param {number} by */
  pan(by) {
    this.show(this.range[0] + by, this.range[1] + by);
  }

  /**
   * Turn a page when `at` has left the view; true when it did.
   * @param {number} at
   */
  follow(at) {
    const [from, to] = this.range;
    if (at >= from && at <= to) return false;
    this.show(at - 0.1 * this.length, at + 0.9 * this.length);
    return true;
  }

  /**
   * `at`, or the end of the view that is nearest to it.
   * @param {number} at
   */
  clamp(at) {
    return Math.min(this.range[1], Math.max(this.range[0], at));
  }
}

/**
 * Where all lanes together begin and end, in units of the axis.
 * @param {LaneMarks[]} lanes
 * @param {Axis} axis
 * @returns {Range}
 */
export function boundsOf(lanes, axis) {
  let low = Number.POSITIVE_INFINITY;
  let high = Number.NEGATIVE_INFINITY;
  for (const { lane, clock, starts, ends } of lanes) {
    const span = /** @type {Range} */ (lane.span_s);
    if (!clock.length) {
      if (axis === "time") [low, high] = [Math.min(low, span[0]), Math.max(high, span[1])]; // arrivals
      continue;
    }
    low = Math.min(low, starts[0], axis === "time" && !lane.overview ? span[0] : starts[0]);
    high = Math.max(high, ends[clock.length - 1]);
  }
  if (!(high > low)) return [0, 1];
  const margin = axis === "time" && !lanes[0].lane.overview ? 0.008 * (high - low) : 0;
  return [low - margin, high + margin];
}
