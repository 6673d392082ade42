// @ts-check
// KV on its way between servers: bars in the rows, and lines from one pool's lane to the other's.

import { fit } from "../lib/canvas.js";
import { nameOf } from "../lib/packet.js";
import { middleOf } from "./layout.js";

/** @import { LaneMarks } from "../lib/marks.js" */
/** @import { Theme } from "../lib/theme.js" */
/** @import { WayLane } from "./types.js" */

/** @typedef {LaneMarks<WayLane>} Marks */

/**
 * Gives every row of a lane its transfers, in seconds.
 * @param {Marks} marks
 */
export function addTransfers({ lane, rows }) {
  for (let i = 0; i < lane.transfer_row.length; i++) {
    rows[lane.transfer_row[i]].transfers.push({
      x0: lane.t0_s + lane.transfer_start[i],
      x1: lane.t0_s + lane.transfer_stop[i],
      lost: nameOf(lane, "transfer_outcome", lane.transfer_outcome[i]) === "lost",
    });
  }
}

/**
 * How many transfers are under way at a moment.
 * @param {Marks} marks
 * @param {number} t
 */
export function numTransfersAt({ rows }, t) {
  const transfers = rows.flatMap((row) => row.transfers);
  return transfers.filter(({ x0, x1 }) => x0 <= t && x1 > t).length;
}

/**
 * Lines from the row of the sender, when its KV begins to leave, to the row of the receiver, when all
 * of it is there.
 * @param {object} picture
 * @param {HTMLCanvasElement} picture.canvas
 * @param {(Marks | null)[]} picture.marks null for a lane that was refused
 * @param {number[]} picture.tops of the lanes, px
 * @param {number} picture.width
 * @param {number} picture.height
 * @param {(t: number) => number} picture.x seconds to px
 * @param {Theme} picture.theme
 */
export function paintLinks({ canvas, marks, tops, width, height, x, theme }) {
  const g = fit(canvas, width, height);
  marks.forEach((from, k) => {
    const target = from?.lane.linked_to;
    const to = target === undefined ? null : marks[target];
    if (!from || target === undefined || !to) return;
    from.rows.forEach((row, r) => {
      for (const transfer of row.transfers) {
        const x0 = x(transfer.x0);
        const x1 = x(transfer.x1);
        if (x1 < 0 || x0 > width) continue;
        g.strokeStyle = transfer.lost ? theme.stall : theme.cached;
        g.globalAlpha = 0.75;
        g.lineWidth = 1.25;
        g.beginPath();
        g.moveTo(x0, tops[k] + middleOf(r, from.rows.length));
        g.lineTo(x1, tops[target] + middleOf(r, to.rows.length));
        g.stroke();
      }
    });
  });
  g.globalAlpha = 1;
}
