// @ts-check
// How high a lane is, and where its rows stand in it.

const PAD = 5;
const TALL_ROWS = 8; // so many rows get the full height
const ROW = 11;
const HEIGHT = 110; // of a lane with more rows
const LOWEST_ROW = 4;

/** @param {number} numRows */
export const rowHeight = (numRows) =>
  numRows <= TALL_ROWS ? ROW : Math.max(LOWEST_ROW, HEIGHT / numRows);

/** @param {number} numRows */
export const heightOf = (numRows) => Math.round(2 * PAD + numRows * rowHeight(numRows));

/**
 * The middle of row k, in px from the top of its lane.
 * @param {number} k
 * @param {number} numRows
 */
export const middleOf = (k, numRows) => PAD + (k + 0.5) * rowHeight(numRows);
