// KV on its way between servers: bars in the rows, and lines from one pool's lane to the other's.

const v = new URL(import.meta.url).search;
const { middleOf } = await import(`./paint.js${v}`);

const LOST = 1;

// Gives every row of a scene its transfers: from and until in seconds, and whether they were lost.
export function addMoves(scene, lane) {
  for (const row of scene.rows) row.moves = [];
  for (let i = 0; i < lane.move_row.length; i++) {
    const row = scene.rows[lane.move_row[i]];
    row.moves.push({ x0: lane.t0_s + lane.move_start[i], x1: lane.t0_s + lane.move_stop[i], lost: lane.move_kind[i] === LOST });
  }
}

export const moving = (scene, t) => scene.rows.reduce((n, row) => n + row.moves.filter((m) => m.x0 <= t && m.x1 > t).length, 0);

// From the row of the sender, when its KV begins to leave, to the row of the receiver, when it is all there.
// parts: of Lanes, with their canvases; x: seconds to px.
export function paintLinks({ canvas, parts, scenes, lanes, width, height, x, theme }) {
  const ratio = devicePixelRatio || 1, g = canvas.getContext("2d");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  lanes.forEach((lane, k) => {
    const to = lane.linked_to;
    if (to === undefined || !scenes[k] || !scenes[to]) return;
    const from = parts[k].canvas.offsetTop, until = parts[to].canvas.offsetTop;
    scenes[k].rows.forEach((row, r) => {
      for (const move of row.moves) {
        const x0 = x(move.x0), x1 = x(move.x1);
        if (x1 < 0 || x0 > width) continue;
        g.strokeStyle = move.lost ? theme.stall : theme.cached;
        g.globalAlpha = 0.75;
        g.lineWidth = 1.25;
        g.beginPath();
        g.moveTo(x0, from + middleOf(r, scenes[k].rows.length));
        g.lineTo(x1, until + middleOf(r, scenes[to].rows.length));
        g.stroke();
      }
    });
  });
}
