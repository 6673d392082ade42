// @ts-check
// The picture as a file, and the address of exactly this view.

import { contextOf } from "../lib/canvas.js";

/** @import { Theme } from "../lib/theme.js" */
/** @import { Axis, Range } from "../lib/view.js" */

const MARGIN = 20;
const LINE = 22;

/**
 * The query of this view: the server's part, and where the head and the view stand.
 * @param {string} link
 * @param {object} place
 * @param {number | null} place.step
 * @param {{ axis: Axis, range: Range }} place.view
 * @param {{ overview?: Range, t0_s: number, window_end_s: number }} [place.lane]
 * @param {string} [search] the query of the page; its embed options are kept
 */
export function queryOf(link, { step, view, lane }, search = location.search) {
  const query = new URLSearchParams(link);
  if (step !== null) query.set("step", String(step));
  const [from, to] = lane?.overview
    ? [Math.ceil(lane.t0_s * 1e6) / 1e6, Math.floor(lane.window_end_s * 1e6) / 1e6]
    : view.range;
  const axis = lane?.overview ? "time" : view.axis;
  if (to > from) query.set("view", `${axis},${short(from)},${short(to)}`);
  const page = new URLSearchParams(search);
  for (const name of ["embed", "embed_options"]) {
    for (const value of page.getAll(name)) query.append(name, value);
  }
  return query.toString().replaceAll("%2C", ",");
}

const short = (/** @type {number} */ x) => String(+x.toFixed(6));

/**
 * Put the view into the address without an entry in the history.
 * @param {string} query
 */
export function remember(query) {
  const address = `${location.pathname}?${query}${location.hash}`;
  if (address === location.pathname + location.search + location.hash) return;
  history.replaceState(history.state, "", address);
}

/**
 * Copies the address; returns it when the browser does not allow that, to be shown instead.
 * @param {string} query
 */
export async function copy(query) {
  const address = `${location.origin}${location.pathname}?${query}`;
  try {
    await navigator.clipboard.writeText(address);
    return null;
  } catch {
    return address;
  }
}

/**
 * The canvases with the sentence above and the caption below, as a PNG that the browser saves.
 * @param {HTMLCanvasElement[]} canvases
 * @param {string} sentence
 * @param {string} caption
 * @param {Theme} theme
 */
export function save(canvases, sentence, caption, theme) {
  const ratio = canvases[0].width / Number.parseFloat(canvases[0].style.width) || 1;
  const width = canvases[0].width / ratio;
  const height = canvases[0].height / ratio;
  const sheet = document.createElement("canvas");
  const g = contextOf(sheet);
  const font = (/** @type {number} */ size) => {
    g.font = `400 ${size}px ${theme.font}`;
  };
  const measure = (/** @type {string} */ text) => g.measureText(text).width;
  font(16);
  const above = wrap(sentence, width - 2 * MARGIN, measure);
  font(12);
  const below = wrap(caption, width - 2 * MARGIN, measure);
  const top = MARGIN + above.length * LINE + 8;
  sheet.width = width * ratio;
  sheet.height = (top + height + below.length * 18 + MARGIN) * ratio;
  g.scale(ratio, ratio);
  g.fillStyle = theme.paper;
  g.fillRect(0, 0, width, sheet.height);
  g.fillStyle = theme.ink;
  font(16);
  above.forEach((line, i) => {
    g.fillText(line, MARGIN, MARGIN + 14 + i * LINE);
  });
  for (const canvas of canvases) g.drawImage(canvas, 0, top, width, height);
  g.fillStyle = theme.muted;
  font(12);
  below.forEach((line, i) => {
    g.fillText(line, MARGIN, top + height + 14 + i * 18);
  });
  sheet.toBlob((blob) => {
    if (blob) download(blob, "batchscope.png");
  }, "image/png");
}

/**
 * @param {Blob} blob
 * @param {string} name
 */
function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/**
 * A text in lines that are at most `width` wide.
 * @param {string} text
 * @param {number} width
 * @param {(text: string) => number} measure
 */
export function wrap(text, width, measure) {
  const lines = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line ? `${line} ${word}` : word;
    if (line && measure(longer) > width) {
      lines.push(line);
      line = word;
    } else line = longer;
  }
  return line ? [...lines, line] : lines;
}
