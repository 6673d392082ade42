// One small lane onto its canvas: a thin row a request. Marks and meanings are those of the timeline.

const v = new URL(import.meta.url).search;
const { WAITING, PREEMPTED } = await import(`../timeline/scene.js${v}`);

const PAD = 5;

// How high a lane of so many rows is, in px.
export function heightOf(numRows) {
  return Math.round(2 * PAD + numRows * pitchOf(numRows));
}

// Where a row's middle lies in its lane, in px.
export function middleOf(k, numRows) {
  return PAD + (k + 0.5) * pitchOf(numRows);
}

export function pitchOf(numRows) {
  return numRows <= 8 ? 11 : Math.max(4, 110 / numRows);
}

// q: { g, scene, width, height, view: [from, to] seconds, theme }
export function paint(q) {
  const { g, scene, width, height, view, theme } = q;
  const pitch = pitchOf(scene.rows.length), mark = Math.max(2.5, pitch - 4);
  const p = { ...q, mark, x: (t) => ((t - view[0]) / (view[1] - view[0])) * width };
  g.clearRect(0, 0, width, height);
  scene.rows.forEach((row, k) => paintRow(p, row, middleOf(k, scene.rows.length)));
}

function paintRow(p, row, y) {
  const { g, theme, width, mark } = p;
  g.fillStyle = theme.line;
  g.globalAlpha = mark > 4 ? 1 : 0.5;
  g.fillRect(0, Math.round(y) - 0.5, width, 1);
  g.globalAlpha = 1;
  for (const band of row.bands) {
    g.fillStyle = theme.stall;
    g.globalAlpha = theme.dark ? 0.4 : 0.32;
    bar(p, band.x0, band.x1, y, mark + 1);
    g.globalAlpha = 1;
  }
  for (const wait of row.waits) hatch(p, wait, y);
  g.fillStyle = theme.prefill;
  for (const chunk of row.chunks) bar(p, chunk.x0, chunk.x1, y, mark, 1.5);
  for (const move of row.moves) {
    g.fillStyle = move.lost ? theme.stall : theme.cached;
    bar(p, move.x0, move.x1, y, mark, 1.5);
  }
  ticks(p, row.ticks, y);
  if (Number.isFinite(row.arrival)) {
    g.fillStyle = theme.ink;
    g.fillRect(p.x(row.arrival) - 0.6, y - mark / 2 - 1, 1.3, mark + 2);
  }
}

function bar({ g, x, width }, x0, x1, y, height, least = 0.5) {
  const a = Math.max(-2, x(x0)), b = Math.min(width + 2, Math.max(x(x1), x(x0) + least));
  if (b <= a) return;
  const inset = b - a > 4 ? 0.5 : 0;
  g.beginPath();
  g.roundRect(a + inset, y - height / 2, b - a - 2 * inset, height, Math.min(2, (b - a) / 2));
  g.fill();
}

function hatch(p, wait, y) {
  const { g, theme, x, width } = p;
  const a = Math.max(0, x(wait.x0)), b = Math.min(width, x(wait.x1));
  if (b - a < 1) return;
  const lost = wait.kind === PREEMPTED, h = wait.kind === WAITING || lost ? p.mark : p.mark * 0.6;
  g.save();
  g.beginPath();
  g.rect(a, y - h / 2, b - a, h);
  g.clip();
  g.fillStyle = lost ? theme.preempted : theme.unused;
  g.globalAlpha = lost ? 0.35 : 1;
  g.fillRect(a, y - h / 2, b - a, h);
  g.globalAlpha = 0.8;
  g.strokeStyle = lost ? theme.preempted : theme.waiting;
  g.lineWidth = 0.9;
  g.beginPath();
  for (let at = Math.floor((a - h) / 5) * 5; at < b + h; at += 5) {
    g.moveTo(at, y + h / 2);
    g.lineTo(at + h, y - h / 2);
  }
  g.stroke();
  g.restore();
}

// One tick a token; ticks closer than 2.5 px run together, so that gaps stay visible.
function ticks({ g, theme, x, width, mark }, times, y) {
  g.fillStyle = theme.decode;
  g.beginPath();
  for (let i = 0; i < times.length; i++) {
    const at = x(times[i]);
    if (at < -4) continue;
    if (at > width + 4) break;
    let j = i, last = at;
    while (j + 1 < times.length && x(times[j + 1]) - last <= 2.5) last = x(times[++j]);
    if (j > i + 1) {
      g.rect(at - 0.8, y - mark * 0.36, last - at + 1.6, mark * 0.72);
      i = j;
    } else {
      const space = i + 1 < times.length ? x(times[i + 1]) - at : 6, w = Math.min(2, Math.max(1.2, space * 0.4));
      g.rect(at - w / 2, y - mark * 0.45, w, mark * 0.9);
    }
  }
  g.fill();
}
