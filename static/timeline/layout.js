// Where things stand: lanes from top to bottom, a strip over rows, labels left of them or above.

export const NARROW = 560; // px; below it labels move above their row
const HEAD = 16; // room for the play head's handle
const STRIP = 58, ROW = 21, NARROW_ROW = 34, AXIS = 30, GAP = 24;

// scenes: of scene.js. Returns { width, height, left, right, narrow, lanes: [...], axisY }, all in CSS px.
export function layout(scenes, width, labelWidth) {
  const narrow = width < NARROW;
  const left = narrow ? 10 : Math.min(190, Math.max(104, labelWidth + 26));
  const right = width - (narrow ? 10 : 14);
  let y = HEAD;
  const lanes = scenes.map((scene, index) => {
    if (index > 0) y += GAP;
    const top = y;
    const stripTop = narrow ? y + 22 : y + 4;
    const stripBottom = stripTop + STRIP;
    const rowHeight = narrow ? NARROW_ROW : ROW;
    const rowsTop = stripBottom + (narrow ? 6 : 11);
    y = rowsTop + scene.rows.length * rowHeight;
    const rowY = (k) => rowsTop + k * rowHeight + (narrow ? 24 : rowHeight / 2); // the middle of its marks
    return { top, stripTop, stripBottom, rowsTop, rowHeight, rowY, bottom: y };
  });
  return { width, height: y + AXIS, left, right, narrow, lanes, axisY: y + 6, headY: 4 };
}

// The row under a point, or -1.
export function rowAt(lane, numRows, y) {
  const k = Math.floor((y - lane.rowsTop) / lane.rowHeight);
  return k >= 0 && k < numRows ? k : -1;
}
