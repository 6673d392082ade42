// @ts-check
// Paints one small lane: a thin row per request. Marks and colours are those of the timeline.

import { bar, eachTickGroup, hatch } from "../lib/canvas.js";
import { PREEMPTED, WAITING } from "../lib/marks.js";
import { middleOf, rowHeight } from "./layout.js";

/** @import { Context } from "../lib/canvas.js" */
/** @import { LaneMarks, Row, Wait } from "../lib/marks.js" */
/** @import { Theme } from "../lib/theme.js" */
/** @import { Range } from "../lib/view.js" */

/**
 * @typedef {object} Picture
 * @property {Context} g
 * @property {LaneMarks} marks
 * @property {number} width
 * @property {number} height
 * @property {Range} view seconds
 * @property {Theme} theme
 */
/** @typedef {Picture & { mark: number, x: (t: number) => number }} Painting */

/** @param {Picture} picture */
export function paint(picture) {
  const { marks, width, view } = picture;
  const { rows } = marks;
  const mark = Math.max(2.5, rowHeight(rows.length) - 4);
  const scale = width / (view[1] - view[0]);
  /** @type {Painting} */
  const q = { ...picture, mark, x: (t) => (t - view[0]) * scale };
  rows.forEach((row, k) => {
    paintRow(q, row, middleOf(k, rows.length));
  });
}

/**
 * @param {Painting} q
 * @param {Row} row
 * @param {number} y
 */
function paintRow(q, row, y) {
  const { g, theme, width, mark } = q;
  g.fillStyle = theme.line;
  g.globalAlpha = mark > 4 ? 1 : 0.5;
  g.fillRect(0, Math.round(y) - 0.5, width, 1);
  g.globalAlpha = 1;
  for (const gap of row.gaps) {
    g.fillStyle = theme.stall;
    g.globalAlpha = theme.dark ? 0.4 : 0.32;
    paintBar(q, gap, y, mark + 1, 0.5);
    g.globalAlpha = 1;
  }
  for (const wait of row.waits) paintWait(q, wait, y);
  g.fillStyle = theme.prefill;
  for (const chunk of row.chunks) paintBar(q, chunk, y, mark, 1.5);
  for (const transfer of row.transfers) {
    g.fillStyle = transfer.lost ? theme.stall : theme.cached;
    paintBar(q, transfer, y, mark, 1.5);
  }
  paintTicks(q, row.ticks, y);
  if (Number.isFinite(row.arrival)) {
    g.fillStyle = theme.ink;
    g.fillRect(q.x(row.arrival) - 0.6, y - mark / 2 - 1, 1.3, mark + 2);
  }
}

/**
 * @param {Painting} q
 * @param {{ x0: number, x1: number }} mark
 * @param {number} y
 * @param {number} height
 * @param {number} least
 */
function paintBar({ g, x, width }, { x0, x1 }, y, height, least) {
  const a = Math.max(-2, x(x0));
  const b = Math.min(width + 2, Math.max(x(x1), x(x0) + least));
  if (b > a) bar(g, a, b, y, height);
}

/**
 * @param {Painting} q
 * @param {Wait} wait
 * @param {number} y
 */
function paintWait({ g, theme, x, width, mark }, wait, y) {
  const a = Math.max(0, x(wait.x0));
  const b = Math.min(width, x(wait.x1));
  if (b - a < 1) return;
  const lost = wait.kind === PREEMPTED;
  const height = wait.kind === WAITING || lost ? mark : mark * 0.6;
  hatch(g, a, b, y, height, {
    fill: lost ? theme.preempted : theme.unused,
    fillAlpha: lost ? 0.35 : 1,
    stroke: lost ? theme.preempted : theme.waiting,
    strokeAlpha: 0.8,
    lineWidth: 0.9,
    spacing: 5,
  });
}

/**
 * One tick per token; ticks too close to be told apart become a bar, so that gaps stay visible.
 * @param {Painting} q
 * @param {Float64Array} ticks
 * @param {number} y
 */
function paintTicks({ g, theme, x, width, mark }, ticks, y) {
  g.fillStyle = theme.decode;
  g.beginPath();
  eachTickGroup(ticks, x, 0, width, (first, last, n, room) => {
    if (n > 1) {
      g.rect(first - 0.8, y - mark * 0.36, last - first + 1.6, mark * 0.72);
      return;
    }
    const wide = Math.min(2, Math.max(1.2, room * 0.4));
    g.rect(first - wide / 2, y - mark * 0.45, wide, mark * 0.9);
  });
  g.fill();
}
