// Taking it along: the picture as a file, the address of exactly this view.

const MARGIN = 20, LINE = 22;

// The query of this view: the server's, and where the head and the view stand.
export function queryOf(link, { step, view, lane }) {
  const query = new URLSearchParams(link);
  if (step !== null) query.set("step", step);
  const range = lane?.overview ? [Math.ceil(lane.t0_s * 1e6) / 1e6, Math.floor(lane.window_end_s * 1e6) / 1e6] : view.range;
  const axis = lane?.overview ? "time" : view.axis;
  if (range[1] > range[0]) query.set("view", `${axis},${short(range[0])},${short(range[1])}`);
  for (const name of ["embed", "embed_options"]) {
    for (const value of new URLSearchParams(location.search).getAll(name)) query.append(name, value);
  }
  return query.toString().replaceAll("%2C", ",");
}

const short = (x) => String(+x.toFixed(6));

// Put the view into the address without an entry in the history.
export function remember(query) {
  const address = `${location.pathname}?${query}${location.hash}`;
  if (address !== location.pathname + location.search + location.hash) history.replaceState(history.state, "", address);
}

// Copies the address; returns it when the browser does not allow that, to be shown instead.
export async function copy(query) {
  const address = `${location.origin}${location.pathname}?${query}`;
  try {
    await navigator.clipboard.writeText(address);
    return null;
  } catch {
    return address;
  }
}

// The canvases with the sentence above and the caption below, as a PNG that the browser saves.
export function save(canvases, sentence, caption, theme) {
  const ratio = canvases[0].width / parseFloat(canvases[0].style.width) || 1, width = canvases[0].width / ratio, height = canvases[0].height / ratio;
  const sheet = document.createElement("canvas"), g = sheet.getContext("2d");
  const font = (weight, size) => { g.font = `${weight} ${size}px ${theme.font}`; };
  font(400, 16);
  const above = wrap(g, sentence, width - 2 * MARGIN);
  font(400, 12);
  const below = wrap(g, caption, width - 2 * MARGIN);
  const top = MARGIN + above.length * LINE + 8;
  sheet.width = width * ratio;
  sheet.height = (top + height + below.length * 18 + MARGIN) * ratio;
  g.scale(ratio, ratio);
  g.fillStyle = theme.paper;
  g.fillRect(0, 0, width, sheet.height);
  g.fillStyle = theme.ink;
  font(400, 16);
  above.forEach((line, i) => g.fillText(line, MARGIN, MARGIN + 14 + i * LINE));
  for (const canvas of canvases) g.drawImage(canvas, 0, top, width, height);
  g.fillStyle = theme.muted;
  font(400, 12);
  below.forEach((line, i) => g.fillText(line, MARGIN, top + height + 14 + i * 18));
  sheet.toBlob((blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = "batchscope.png";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }, "image/png");
}

function wrap(g, text, width) {
  const lines = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line ? `${line} ${word}` : word;
    if (line && g.measureText(longer).width > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return line ? [...lines, line] : lines;
}
