// @ts-check
// Paints lanes onto a canvas: titles, rows, labels, axis. The budget strip has its own file.

import { ticksOf } from "../lib/axis.js";
import { bar, eachTickGroup, hatch } from "../lib/canvas.js";
import { axisTime, count, seconds } from "../lib/format.js";
import { PREEMPTED, WAITING } from "../lib/marks.js";
import { paintBudgetStrip } from "./budget_strip.js";

/** @import { Context } from "../lib/canvas.js" */
/** @import { Chunk, Gap, Hit, LaneMarks, Row, Wait } from "../lib/marks.js" */
/** @import { Theme } from "../lib/theme.js" */
/** @import { Axis, Range } from "../lib/view.js" */
/** @import { TimelineLane } from "./types.js" */
/** @import { LanePlace, Place } from "./layout.js" */

const MARK = 14; // height of a chunk

/**
 * @typedef {object} Picture
 * @property {Context} g
 * @property {LaneMarks<TimelineLane>[]} lanes
 * @property {Place} place
 * @property {Range} view in units of the axis
 * @property {Axis} axis
 * @property {Theme} theme
 */
/**
 * A picture with its scale.
 * @typedef {Picture & {
 *   x: (at: number) => number,
 *   scale: number,
 *   font: (weight: number, size: number) => void,
 * }} Painting
 */

/** @param {Picture} picture */
export function paint(picture) {
  const { g, lanes, place, view, theme } = picture;
  const { left, right, width, height } = place;
  const scale = (right - left) / (view[1] - view[0]);
  /** @type {Painting} */
  const q = {
    ...picture,
    scale,
    x: (at) => left + (at - view[0]) * scale,
    font: (weight, size) => {
      g.font = `${weight} ${size}px ${theme.font}`;
    },
  };
  g.clearRect(0, 0, width, height);
  paintAxis(q);
  lanes.forEach((marks, k) => {
    const lane = place.lanes[k];
    paintTitle(q, marks, lane);
    g.save();
    g.beginPath();
    g.rect(left, 0, right - left, height);
    g.clip();
    paintBudgetStrip(q, marks, lane);
    marks.rows.forEach((row, r) => {
      paintRow(q, row, lane.rowY(r));
    });
    g.restore();
    paintLabels(q, marks, lane);
  });
}

/**
 * @param {Painting} q
 * @param {LaneMarks<TimelineLane>} marks
 * @param {LanePlace} lane
 */
function paintTitle(q, marks, lane) {
  const { g, theme, place, font } = q;
  const { title, notes } = marks.lane;
  const budget = count(Math.round(marks.budget));
  g.textBaseline = "alphabetic";
  g.textAlign = "left";
  g.fillStyle = theme.ink;
  font(600, 13);
  const x = place.narrow ? place.left : 14;
  const y = place.narrow ? lane.top + 14 : lane.stripTop + 10;
  g.fillText(title, x, y);
  const after = x + g.measureText(title).width + 10;
  g.fillStyle = theme.muted;
  font(400, 12);
  if (place.narrow) {
    g.fillText(notes.join(" · "), after, y);
    g.textAlign = "right";
    g.fillText(budget, place.right, y);
    return;
  }
  notes.slice(0, 2).forEach((note, i) => {
    g.fillText(note, x, y + 17 + 15 * i, place.left - x - 8);
  });
  g.textAlign = "right";
  g.fillText(budget, place.left - 8, lane.stripTop + 10);
  g.fillText("0", place.left - 8, lane.stripBottom);
}

/**
 * @param {Painting} q
 * @param {LaneMarks<TimelineLane>} marks
 * @param {LanePlace} lane
 */
function paintLabels(q, marks, lane) {
  const { g, theme, place, font } = q;
  font(400, 12);
  g.fillStyle = theme.ink;
  g.textBaseline = "middle";
  g.textAlign = place.narrow ? "left" : "right";
  marks.rows.forEach((row, r) => {
    const y = lane.rowY(r);
    const room = place.narrow ? place.right - place.left : place.left - 16;
    const text = shorten(g, row.label, room);
    if (place.narrow) g.fillText(text, place.left, y - 15);
    else g.fillText(text, place.left - 8, y + 0.5);
  });
}

/**
 * @param {Context} g
 * @param {string} text
 * @param {number} width
 */
function shorten(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && g.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}

/**
 * @param {Painting} q
 * @param {Row} row
 * @param {number} y
 */
function paintRow(q, row, y) {
  const { g, theme, place, x } = q;
  g.fillStyle = theme.line;
  g.fillRect(place.left, Math.round(y) - 0.5, place.right - place.left, 1);
  for (const gap of row.gaps) paintGap(q, gap, y);
  for (const wait of row.waits) paintWait(q, wait, y);
  for (const gap of row.gaps) nameGap(q, gap, y);
  for (const chunk of row.chunks) paintChunk(q, chunk, y);
  for (const hit of row.hits) paintHit(q, hit, y);
  paintTicks(q, row.ticks, y);
  if (Number.isFinite(row.arrival)) {
    g.fillStyle = theme.ink;
    g.fillRect(x(row.arrival) - 0.75, y - 8, 1.5, 16);
  }
  paintRejection(q, row, y);
  paintEnd(q, row, y);
}

/**
 * The visible part of a mark in pixels, at least `least` wide; null where it is out of sight.
 * @param {Painting} q
 * @param {{ x0: number, x1: number }} mark
 * @param {number} [least]
 * @returns {[number, number] | null}
 */
function visible({ place, x }, { x0, x1 }, least = 0) {
  const a = Math.max(place.left - 2, x(x0));
  const b = Math.min(place.right + 2, Math.max(x(x1), x(x0) + least));
  return b > a ? [a, b] : null;
}

/**
 * @param {Painting} q
 * @param {Wait} wait
 * @param {number} y
 */
function paintWait(q, wait, y) {
  const { g, theme } = q;
  const span = visible(q, wait);
  if (!span || span[1] - span[0] < 1) return;
  const lost = wait.kind === PREEMPTED;
  const height = wait.kind === WAITING ? 12 : lost ? MARK : 8;
  hatch(g, ...span, y, height, {
    fill: lost ? theme.preempted : theme.unused,
    fillAlpha: lost ? 0.28 : 1,
    stroke: lost ? theme.preempted : theme.waiting,
    strokeAlpha: lost ? 0.9 : 0.75,
    lineWidth: 1,
    spacing: 6,
    phase: ((q.x(wait.x0) % 6) + 6) % 6, // the hatch moves with the mark
  });
}

/**
 * @param {Painting} q
 * @param {Gap} gap
 * @param {number} y
 */
function paintGap(q, gap, y) {
  const { g, theme } = q;
  const span = visible(q, gap, 2);
  if (!span) return;
  g.fillStyle = theme.stall;
  g.globalAlpha = theme.dark ? 0.26 : 0.22;
  g.fillRect(span[0], y - MARK / 2, span[1] - span[0], MARK);
  g.globalAlpha = 1;
}

/**
 * @param {Painting} q
 * @param {Gap} gap
 * @param {number} y
 */
function nameGap(q, gap, y) {
  const span = visible(q, gap, 2);
  const length = seconds(gap.gap);
  if (!span) return;
  if (gap.preempted) tag(q, [`preempted, ${length}`, length], ...span, y, q.theme.ink);
  else tag(q, [length], ...span, y, q.theme.stallText);
}

/**
 * @param {Painting} q
 * @param {Chunk} chunk
 * @param {number} y
 */
function paintChunk(q, chunk, y) {
  const { g, theme } = q;
  const span = visible(q, chunk, 1.5);
  if (!span) return;
  g.fillStyle = theme.prefill;
  bar(g, ...span, y, MARK, { inset: 0.4, radius: 2.5 });
  tag(q, [count(chunk.n)], ...span, y, theme.onMark);
}

/**
 * Tokens from the prefix cache took no time, so they are an upright bar where the work begins.
 * @param {Painting} q
 * @param {Hit} hit
 * @param {number} y
 */
function paintHit(q, hit, y) {
  const at = q.x(hit.x);
  if (!hit.n || at < q.place.left || at > q.place.right) return;
  q.g.fillStyle = q.theme.cached;
  q.g.fillRect(at, y - MARK / 2, 3.5, MARK);
}

/**
 * The first of some texts that fits, in the middle of a mark; nothing where none does.
 * @param {Painting} q
 * @param {string[]} candidates
 * @param {number} a
 * @param {number} b
 * @param {number} y
 * @param {string} color
 */
function tag({ g, font }, candidates, a, b, y, color) {
  if (b - a < 12) return;
  font(600, 11);
  const words = candidates.find((text) => g.measureText(text).width <= b - a - 6);
  if (!words) return;
  g.fillStyle = color;
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.fillText(words, (a + b) / 2, y + 0.5);
}

/**
 * One tick per token; ticks too close to be told apart become a bar, so that gaps stay visible.
 * @param {Painting} q
 * @param {Float64Array} ticks
 * @param {number} y
 */
function paintTicks({ g, theme, place, x }, ticks, y) {
  g.fillStyle = theme.decode;
  g.beginPath();
  eachTickGroup(ticks, x, place.left, place.right, (first, last, n, room) => {
    if (n > 1) {
      g.rect(first - 1, y - 4, last - first + 2, 8);
      return;
    }
    const width = Math.min(3.6, Math.max(1.4, room * 0.45));
    g.roundRect(first - width * 0.6, y - 6, width, 12, width / 2);
  });
  g.fill();
}

/**
 * @param {Painting} q
 * @param {Row} row
 * @param {number} y
 */
function paintRejection({ g, theme, x, font }, row, y) {
  if (!row.rejection || !Number.isFinite(row.arrival)) return;
  font(400, 11);
  g.fillStyle = theme.stallText;
  g.textAlign = "left";
  g.textBaseline = "middle";
  g.fillText(`rejected: ${row.rejection}`, x(row.arrival) + 6, y + 0.5);
}

/**
 * A ring where a request finished, a cross where it was aborted.
 * @param {Painting} q
 * @param {Row} row
 * @param {number} y
 */
function paintEnd({ g, theme, x }, row, y) {
  if (!Number.isFinite(row.end)) return;
  const at = x(row.end) + 6;
  g.lineWidth = 1.5;
  g.beginPath();
  if (row.status === "finished") {
    g.strokeStyle = theme.decode;
    g.arc(at, y, 2.6, 0, 2 * Math.PI);
    g.fillStyle = theme.paper;
    g.fill();
  } else if (row.status === "aborted") {
    g.strokeStyle = theme.stallText;
    g.moveTo(at - 3, y - 3);
    g.lineTo(at + 3, y + 3);
    g.moveTo(at + 3, y - 3);
    g.lineTo(at - 3, y + 3);
  }
  g.stroke();
}

/** @param {Painting} q */
function paintAxis({ g, theme, place, view, axis, x, font }) {
  const { at, step } = ticksOf(view, axis, (place.right - place.left) / (place.narrow ? 80 : 110));
  font(400, 12);
  g.textAlign = "center";
  g.textBaseline = "alphabetic";
  for (const tick of at) {
    const left = Math.round(x(tick));
    g.fillStyle = theme.line;
    g.globalAlpha = 0.6;
    g.fillRect(left, 10, 1, place.axisY - 10);
    g.globalAlpha = 1;
    const words = axis === "time" ? axisTime(tick, step) : count(tick);
    const half = g.measureText(words).width / 2;
    const least = place.narrow ? 2 : place.left - 20;
    if (left + half > place.width - 2 || left - half < least) continue;
    g.fillStyle = theme.muted;
    g.fillText(words, left, place.axisY + 15);
  }
}
