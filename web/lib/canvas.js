// @ts-check
// Canvases: their size in pixels of the screen, and the shapes that pictures share.

import { firstIndex } from "./search.js";

/** @typedef {CanvasRenderingContext2D} Context */

const JOINED_PX = 2.5; // ticks closer than this are drawn as one bar
const OUTSIDE_PX = 4; // ticks this far outside of the picture are still drawn

/**
 * @param {HTMLCanvasElement} canvas
 * @returns {Context}
 */
export function contextOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser has no 2d canvas");
  return context;
}

/**
 * Sizes a canvas for the pixels of the screen and clears it; returns a context in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 * @param {number} [zoom] how much larger the page is drawn than it is laid out
 */
export function fit(canvas, width, height, zoom = 1) {
  const ratio = (window.devicePixelRatio || 1) * zoom;
  const w = Math.round(width * ratio);
  const h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const g = contextOf(canvas);
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

/**
 * How much larger an element is drawn than it is laid out (?scale=1.5 in the address).
 * @param {HTMLElement} element
 */
export const zoomOf = (element) => element.getBoundingClientRect().width / element.offsetWidth || 1;

/**
 * The place of a pointer inside an element, in its own pixels.
 * @param {HTMLElement} element
 * @param {number} clientX
 * @param {number} clientY
 * @returns {[number, number]}
 */
export function placeIn(element, clientX, clientY) {
  const box = element.getBoundingClientRect();
  const zoom = zoomOf(element);
  return [(clientX - box.left) / zoom, (clientY - box.top) / zoom];
}

/**
 * A bar with round ends from a to b, its middle at height y.
 * @param {Context} g
 * @param {number} a
 * @param {number} b
 * @param {number} y
 * @param {number} height
 * @param {{ inset?: number, radius?: number }} [shape]
 */
export function bar(g, a, b, y, height, { inset = 0.5, radius = 2 } = {}) {
  const by = b - a > 4 ? inset : 0;
  g.beginPath();
  g.roundRect(a + by, y - height / 2, b - a - 2 * by, height, Math.min(radius, (b - a) / 2));
  g.fill();
}

/**
 * @typedef {object} Hatch
 * @property {string} fill
 * @property {number} fillAlpha
 * @property {string} stroke
 * @property {number} strokeAlpha
 * @property {number} lineWidth
 * @property {number} spacing px between two lines
 * @property {number} [phase] where the lines begin, px
 */

/**
 * A hatched bar from a to b, its middle at height y.
 * @param {Context} g
 * @param {number} a
 * @param {number} b
 * @param {number} y
 * @param {number} height
 * @param {Hatch} style
 */
export function hatch(g, a, b, y, height, style) {
  g.save();
  g.beginPath();
  g.rect(a, y - height / 2, b - a, height);
  g.clip();
  g.fillStyle = style.fill;
  g.globalAlpha = style.fillAlpha;
  g.fillRect(a, y - height / 2, b - a, height);
  g.globalAlpha = style.strokeAlpha;
  g.strokeStyle = style.stroke;
  g.lineWidth = style.lineWidth;
  g.beginPath();
  const phase = style.phase ?? 0;
  const first = Math.floor((a - height - phase) / style.spacing) * style.spacing + phase;
  for (let at = first; at < b + height; at += style.spacing) {
    g.moveTo(at, y + height / 2);
    g.lineTo(at + height, y - height / 2);
  }
  g.stroke();
  g.restore();
}

/**
 * Calls `draw` for every visible tick, or group of three and more ticks that are too close to be told
 * apart: where it begins and ends, how many ticks it has, and the room up to the next tick.
 * @param {ArrayLike<number>} times sorted
 * @param {(time: number) => number} x time to px
 * @param {number} left
 * @param {number} right
 * @param {(first: number, last: number, n: number, room: number) => void} draw
 */
export function eachTickGroup(times, x, left, right, draw) {
  let i = firstIndex(0, times.length, (k) => x(times[k]) >= left - OUTSIDE_PX);
  while (i < times.length) {
    const at = x(times[i]);
    if (at > right + OUTSIDE_PX) return;
    let j = i;
    let last = at;
    while (j + 1 < times.length) {
      const next = x(times[j + 1]);
      if (next - last > JOINED_PX || next > right + OUTSIDE_PX) break;
      last = next;
      j++;
    }
    if (j <= i + 1) {
      j = i;
      last = at;
    }
    const room = j + 1 < times.length ? x(times[j + 1]) - last : Number.POSITIVE_INFINITY;
    draw(at, last, j - i + 1, room);
    i = j + 1;
  }
}
