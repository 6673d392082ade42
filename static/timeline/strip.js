// The budget strip: one column a step, as wide as the step lasts, as high as the budget.

const HAIR = 3; // px; decodes are never thinner

export function paintStrip(q, scene, lane) {
  const { g, theme, place, x } = q;
  const { starts, ends } = scene, { prefill, decodes } = scene.lane;
  const height = lane.stripBottom - lane.stripTop, bottom = lane.stripBottom;
  const tall = (tokens) => Math.min(height, (tokens / scene.budget) * height);
  const bin = newBin();
  for (let i = 0; i < starts.length; i++) {
    if (ends[i] < q.view[0] || starts[i] > q.view[1]) continue;
    const a = x(starts[i]), b = x(ends[i]);
    if (b - a >= 1) {
      flush(bin);
      const gap = b - a > 3 ? 0.8 : 0;
      column(a, b - a - gap, tall(decodes[i]), tall(prefill[i]), 0);
      continue;
    }
    if (Math.floor(a) !== bin.at) flush(bin);
    bin.at = Math.floor(a);
    add(bin, Math.max(b - a, 1e-6), decodes[i], prefill[i]);
  }
  flush(bin);
  budgetLine();

  // Steps narrower than a pixel: their mean, weighted by time, solid; their maximum as a pale cap.
  function flush(bin) {
    if (bin.weight > 0) {
      const dec = tall(bin.decodes / bin.weight), pre = tall(bin.prefill / bin.weight);
      column(bin.at, 1, dec, pre, tall(bin.most));
    }
    Object.assign(bin, newBin());
  }

  function column(left, width, dec, pre, most) {
    const low = dec > 0 ? Math.max(Math.min(HAIR, height), dec) : 0;
    const high = Math.min(height - low, pre);
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

  function budgetLine() {
    g.strokeStyle = theme.muted;
    g.lineWidth = 1;
    g.setLineDash([3, 3]);
    g.beginPath();
    g.moveTo(place.left, lane.stripTop - 0.5);
    g.lineTo(place.right, lane.stripTop - 0.5);
    g.stroke();
    g.setLineDash([]);
  }
}

function newBin() {
  return { at: null, weight: 0, decodes: 0, prefill: 0, most: 0 };
}

function add(bin, weight, decodes, prefill) {
  bin.weight += weight;
  bin.decodes += decodes * weight;
  bin.prefill += prefill * weight;
  bin.most = Math.max(bin.most, decodes + prefill);
}
