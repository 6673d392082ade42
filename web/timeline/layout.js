// @ts-check
// Where the lanes stand: a budget strip over rows, labels left of the rows or above them.

export const NARROW = 560; // px; below it labels move above their row
const HEAD = 16; // room for the handle of the play head
const STRIP = 58;
const ROW = 21;
const NARROW_ROW = 34;
const AXIS = 30;
const GAP = 24;

/**
 * @typedef {object} LanePlace
 * @property {number} top
 * @property {number} stripTop
 * @property {number} stripBottom
 * @property {number} rowsTop
 * @property {number} rowHeight
 * @property {(k: number) => number} rowY the middle of the marks of a row
 * @property {number} bottom
 */
/** @typedef {ReturnType<typeof layout>} Place */

/**
 * The places of lanes in CSS pixels.
 * @param {{ rows: { length: number } }[]} lanes
 * @param {number} width
 * @param {number} labelWidth
 */
export function layout(lanes, width, labelWidth) {
  const narrow = width < NARROW;
  const left = narrow ? 10 : Math.min(190, Math.max(104, labelWidth + 26));
  const right = width - (narrow ? 10 : 14);
  let y = HEAD;
  const places = lanes.map(({ rows }, index) => {
    if (index > 0) y += GAP;
    const top = y;
    const stripTop = narrow ? y + 22 : y + 4;
    const stripBottom = stripTop + STRIP;
    const rowHeight = narrow ? NARROW_ROW : ROW;
    const rowsTop = stripBottom + (narrow ? 6 : 11);
    y = rowsTop + rows.length * rowHeight;
    /** @type {LanePlace} */
    const place = {
      top,
      stripTop,
      stripBottom,
      rowsTop,
      rowHeight,
      rowY: (k) => rowsTop + k * rowHeight + (narrow ? 24 : rowHeight / 2),
      bottom: y,
    };
    return place;
  });
  return { width, height: y + AXIS, left, right, narrow, lanes: places, axisY: y + 6, headY: 4 };
}

/**
 * The row under a point, or -1.
 * @param {{ rowsTop: number, rowHeight: number }} place
 * @param {number} numRows
 * @param {number} y
 */
export function rowAt(place, numRows, y) {
  const k = Math.floor((y - place.rowsTop) / place.rowHeight);
  return k >= 0 && k < numRows ? k : -1;
}
