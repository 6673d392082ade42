// Paints scenes onto the base canvas: rows, labels, axis. The strip has its own file.

const v = new URL(import.meta.url).search;
const [{ count, seconds, axisTime }, { paintStrip }, { WAITING, PREEMPTED }] = await Promise.all([
  import(`./format.js${v}`), import(`./strip.js${v}`), import(`./scene.js${v}`),
]);

const MARK = 14; // height of a chunk, a band
const REJECTED = ["", "prompt reaches max_model_len", "prompt exceeds the KV pool"];

// p: { g, scenes, place (layout), view: [from, to] in axis units, axis, theme }
export function paint(p) {
  const { g, scenes, place, view, theme } = p;
  const { left, right, width, height } = place;
  const scale = (right - left) / (view[1] - view[0]);
  const x = (at) => left + (at - view[0]) * scale;
  const q = { ...p, x, scale, font: (weight, size) => { g.font = `${weight} ${size}px ${theme.font}`; } };
  g.clearRect(0, 0, width, height);
  paintAxis(q);
  scenes.forEach((scene, k) => {
    const lane = place.lanes[k];
    paintTitle(q, scene, lane);
    g.save();
    g.beginPath();
    g.rect(left, 0, right - left, height);
    g.clip();
    paintStrip(q, scene, lane);
    scene.rows.forEach((row, r) => paintRow(q, scene, row, lane.rowY(r)));
    g.restore();
    paintLabels(q, scene, lane);
  });
}

function paintTitle(q, scene, lane) {
  const { g, theme, place, font } = q;
  const { title, notes } = scene.lane, budget = count(Math.round(scene.budget));
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
  notes.slice(0, 2).forEach((note, i) => g.fillText(note, x, y + 17 + 15 * i, place.left - x - 8));
  g.textAlign = "right";
  g.fillText(budget, place.left - 8, lane.stripTop + 10);
  g.fillText("0", place.left - 8, lane.stripBottom);
}

function paintLabels(q, scene, lane) {
  const { g, theme, place, font } = q;
  font(400, 12);
  g.fillStyle = theme.ink;
  g.textBaseline = "middle";
  g.textAlign = place.narrow ? "left" : "right";
  scene.rows.forEach((row, r) => {
    const y = lane.rowY(r);
    if (place.narrow) g.fillText(shorten(g, row.label, place.right - place.left), place.left, y - 15);
    else g.fillText(shorten(g, row.label, place.left - 16), place.left - 8, y + 0.5);
  });
}

function shorten(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && g.measureText(`${text.slice(0, length)}…`).width > width) length--;
  return `${text.slice(0, length)}…`;
}

function paintRow(q, scene, row, y) {
  const { g, theme, place, x } = q;
  g.fillStyle = theme.line;
  g.fillRect(place.left, Math.round(y) - 0.5, place.right - place.left, 1);
  for (const band of row.bands) paintBand(q, band, y);
  for (const wait of row.waits) paintWait(q, wait, y);
  for (const band of row.bands) nameBand(q, band, y);
  for (const chunk of row.chunks) paintChunk(q, chunk, y);
  for (const hit of row.hits) paintHit(q, hit, y);
  paintTicks(q, row.ticks, y);
  if (Number.isFinite(row.arrival)) {
    g.fillStyle = theme.ink;
    g.fillRect(x(row.arrival) - 0.75, y - 8, 1.5, 16);
  }
  paintEnd(q, row, y);
}

function visible(q, x0, x1, least = 0) {
  const a = Math.max(q.place.left - 2, q.x(x0)), b = Math.min(q.place.right + 2, Math.max(q.x(x1), q.x(x0) + least));
  return b > a ? [a, b] : null;
}

function paintWait(q, wait, y) {
  const { g, theme } = q;
  const span = visible(q, wait.x0, wait.x1);
  if (!span || span[1] - span[0] < 1) return;
  const [a, b] = span;
  const lost = wait.kind === PREEMPTED, h = wait.kind === WAITING ? 12 : lost ? MARK : 8;
  g.save();
  g.beginPath();
  g.rect(a, y - h / 2, b - a, h);
  g.clip();
  g.fillStyle = lost ? theme.preempted : theme.unused;
  g.globalAlpha = lost ? 0.28 : 1;
  g.fillRect(a, y - h / 2, b - a, h);
  g.globalAlpha = lost ? 0.9 : 0.75;
  g.strokeStyle = lost ? theme.preempted : theme.waiting;
  g.lineWidth = 1;
  g.beginPath();
  const phase = ((q.x(wait.x0) % 6) + 6) % 6; // the hatch moves with the mark
  for (let at = a - h - (a % 6) + phase - 6; at < b + h; at += 6) {
    g.moveTo(at, y + h / 2);
    g.lineTo(at + h, y - h / 2);
  }
  g.stroke();
  g.restore();
}

function paintBand(q, band, y) {
  const { g, theme } = q;
  const span = visible(q, band.x0, band.x1, 2);
  if (!span) return;
  g.fillStyle = theme.stall;
  g.globalAlpha = theme.dark ? 0.26 : 0.22;
  g.fillRect(span[0], y - MARK / 2, span[1] - span[0], MARK);
  g.globalAlpha = 1;
}

function nameBand(q, band, y) {
  const span = visible(q, band.x0, band.x1, 2), length = seconds(band.gap);
  if (!span) return;
  if (band.preempted) tag(q, [`preempted, ${length}`, length], ...span, y, q.theme.ink);
  else tag(q, [length], ...span, y, q.theme.stallText);
}

function paintChunk(q, chunk, y) {
  const { g, theme } = q;
  const span = visible(q, chunk.x0, chunk.x1, 1.5);
  if (!span) return;
  const [a, b] = span, inset = b - a > 4 ? 0.4 : 0;
  g.fillStyle = theme.prefill;
  g.beginPath();
  g.roundRect(a + inset, y - MARK / 2, b - a - 2 * inset, MARK, Math.min(2.5, (b - a) / 2));
  g.fill();
  tag(q, [count(chunk.n)], a, b, y, theme.onMark);
}

// What the prefix cache gave: it took no time, so it is an upright bar where the work begins.
function paintHit(q, hit, y) {
  const at = q.x(hit.x);
  if (!hit.n || at < q.place.left || at > q.place.right) return;
  q.g.fillStyle = q.theme.cached;
  q.g.fillRect(at, y - MARK / 2, 3.5, MARK);
}

// The first of some words that fits, in the middle of a mark; nothing where none does.
function tag(q, candidates, a, b, y, color) {
  const { g, font } = q;
  if (b - a < 12) return;
  font(600, 11);
  const words = candidates.find((text) => g.measureText(text).width <= b - a - 6);
  if (!words) return;
  g.fillStyle = color;
  g.textAlign = "center";
  g.textBaseline = "middle";
  g.fillText(words, (a + b) / 2, y + 0.5);
}

// One tick a token; ticks closer than 2.5 px run together into a bar, so that gaps stay visible.
function paintTicks(q, ticks, y) {
  const { g, theme, place, x } = q;
  g.fillStyle = theme.decode;
  let i = firstAtLeast(ticks, q.view[0] - 4 / q.scale);
  g.beginPath();
  while (i < ticks.length) {
    const at = x(ticks[i]);
    if (at > place.right + 4) break;
    let j = i, last = at;
    while (j + 1 < ticks.length) {
      const next = x(ticks[j + 1]);
      if (next - last > 2.5 || next > place.right + 4) break;
      last = next;
      j++;
    }
    if (j > i + 1) {
      g.rect(at - 1, y - 4, last - at + 2, 8);
    } else {
      const space = i + 1 < ticks.length ? x(ticks[i + 1]) - at : 8;
      const w = Math.min(3.6, Math.max(1.4, space * 0.45));
      g.roundRect(at - w * 0.6, y - 6, w, 12, w / 2);
      j = i;
    }
    i = j + 1;
  }
  g.fill();
}

function firstAtLeast(sorted, value) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

function paintEnd(q, row, y) {
  const { g, theme, x, font } = q;
  if (row.status === "rejected" && Number.isFinite(row.arrival)) {
    font(400, 11);
    g.fillStyle = theme.stallText;
    g.textAlign = "left";
    g.textBaseline = "middle";
    g.fillText(`rejected: ${REJECTED[row.why] ?? ""}`, x(row.arrival) + 6, y + 0.5);
  }
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
    g.moveTo(at - 3, y - 3); g.lineTo(at + 3, y + 3);
    g.moveTo(at + 3, y - 3); g.lineTo(at - 3, y + 3);
  }
  g.stroke();
}

function paintAxis(q) {
  const { g, theme, place, view, axis, x, font } = q;
  const steps = ticksOf(view, axis, (place.right - place.left) / (place.narrow ? 80 : 110));
  font(400, 12);
  g.textAlign = "center";
  g.textBaseline = "alphabetic";
  for (const at of steps.at) {
    const left = Math.round(x(at));
    g.fillStyle = theme.line;
    g.globalAlpha = 0.6;
    g.fillRect(left, 10, 1, place.axisY - 10);
    g.globalAlpha = 1;
    const words = axis === "time" ? axisTime(at, steps.step) : count(at);
    const half = g.measureText(words).width / 2;
    if (left + half > place.width - 2 || left - half < (place.narrow ? 2 : place.left - 20)) continue;
    g.fillStyle = theme.muted;
    g.fillText(words, left, place.axisY + 15);
  }
}

// Round numbers inside the view, about `wanted` of them.
export function ticksOf(view, axis, wanted) {
  const rough = (view[1] - view[0]) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].find((k) => k * power >= rough) * power;
  if (axis === "step") step = Math.max(1, Math.round(step));
  const at = [];
  for (let k = Math.ceil(view[0] / step - 1e-9); k * step <= view[1] + 1e-9 * step; k++) at.push(k * step);
  return { at, step };
}
