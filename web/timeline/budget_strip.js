// @ts-check
// The budget strip: one column per step, as wide as the step lasts, as high as the token budget.

/** @import { LaneMarks } from "../lib/marks.js" */
/** @import { TimelineLane } from "./types.js" */
/** @import { LanePlace } from "./layout.js" */
/** @import { Painting } from "./paint.js" */

const LEAST_PX = 3; // decodes are never thinner

/** Steps that share a pixel. @typedef {{ at: number | null, weight: number, decodes: number, prefill: number, most: number }} Bin */

/**
 * @param {Painting} q
 * @param {LaneMarks<TimelineLane>} marks
 * @param {LanePlace} place
 */
export function paintBudgetStrip(q, marks, place) {
  const { g, theme, x } = q;
  const { starts, ends } = marks;
  const { prefill, decodes } = marks.lane;
  const height = place.stripBottom - place.stripTop;
  const bottom = place.stripBottom;
  const tall = (/** @type {number} */ tokens) => Math.min(height, (tokens / marks.budget) * height);
  let bin = newBin();
  for (let i = 0; i < starts.length; i++) {
    if (ends[i] < q.view[0] || starts[i] > q.view[1]) continue;
    const a = x(starts[i]);
    const b = x(ends[i]);
    if (b - a >= 1) {
      flush();
      column(a, b - a - (b - a > 3 ? 0.8 : 0), tall(decodes[i]), tall(prefill[i]), 0);
      continue;
    }
    if (Math.floor(a) !== bin.at) flush();
    bin.at = Math.floor(a);
    add(bin, Math.max(b - a, 1e-6), decodes[i], prefill[i]);
  }
  flush();
  paintBudgetLine(q, place);

  // Steps narrower than a pixel: their mean, weighted by time, solid; their maximum as a pale cap.
  function flush() {
    if (bin.at !== null) {
      const [low, high] = [bin.decodes / bin.weight, bin.prefill / bin.weight];
      column(bin.at, 1, tall(low), tall(high), tall(bin.most));
    }
    bin = newBin();
  }

  /**
   * @param {number} left
   * @param {number} width
   * @param {number} decode
   * @param {number} chunks
   * @param {number} most
   */
  function column(left, width, decode, chunks, most) {
    const low = decode > 0 ? Math.max(Math.min(LEAST_PX, height), decode) : 0;
    const high = Math.min(height - low, chunks);
    g.fillStyle = theme.unused;
    g.fillRect(left, bottom - height, width, height);
    if (most > low + high) {
      g.fillStyle = theme.prefill;
      g.globalAlpha = 0.35;
      g.fillRect(left, bottom - most, width, most - low - high);
      g.globalAlpha = 1;
    }
    g.fillStyle = theme.decode;
    g.fillRect(left, bottom - low, width, low);
    g.fillStyle = theme.prefill;
    g.fillRect(left, bottom - low - high, width, high);
  }
}

/**
 * @param {Painting} q
 * @param {LanePlace} lane
 */
function paintBudgetLine({ g, theme, place }, lane) {
  g.strokeStyle = theme.muted;
  g.lineWidth = 1;
  g.setLineDash([3, 3]);
  g.beginPath();
  g.moveTo(place.left, lane.stripTop - 0.5);
  g.lineTo(place.right, lane.stripTop - 0.5);
  g.stroke();
  g.setLineDash([]);
}

/** @returns {Bin} */
export const newBin = () => ({ at: null, weight: 0, decodes: 0, prefill: 0, most: 0 });

/**
 * @param {Bin} bin
 * @param {number} weight
 * @param {number} decodes
 * @param {number} prefill
 */
export function add(bin, weight, decodes, prefill) {
  bin.weight += weight;
  bin.decodes += decodes * weight;
  bin.prefill += prefill * weight;
  bin.most = Math.max(bin.most, decodes + prefill);
}
