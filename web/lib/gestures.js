// @ts-check
// Pointer, wheel and keys on a picture with a play head: scrub, pan, pinch, zoom.

import { placeIn } from "./canvas.js";

const ZOOM_STEP = 1.6;

/**
 * What the gestures do. Heights and places are pixels of the picture; `px` is null where a key has
 * none. A picture without `pan` leaves the wheel to the page.
 * @typedef {object} Handlers
 * @property {(px: number) => void} scrub
 * @property {() => void} release the reader let go of the head
 * @property {(factor: number, px: number | null) => void} zoom
 * @property {() => void} toggle
 * @property {(by: number) => void} step
 * @property {() => void} first
 * @property {() => void} last
 * @property {() => void} whole
 * @property {(px: number) => void} [pan]
 * @property {(py: number) => void} [select]
 * @property {(px: number, py: number) => void} [hover]
 * @property {() => void} [leave]
 */

/**
 * @param {HTMLElement} element
 * @param {Handlers} on
 */
export function listen(element, on) {
  listenToPointers(element, on);
  if (on.pan) listenToWheel(element, on, on.pan);
  element.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (actOn(event, element.clientWidth, on)) event.preventDefault();
  });
}

/**
 * Does what a key asks for; false for a key without a meaning here.
 * @param {{ key: string, shiftKey: boolean }} event
 * @param {number} width of the picture
 * @param {Handlers} on
 */
export function actOn({ key, shiftKey }, width, on) {
  const sideways = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (sideways && shiftKey && on.pan) on.pan((sideways * width) / 6);
  else if (sideways) on.step(sideways);
  else {
    const steps = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[key];
    const zoom = { "+": 1 / ZOOM_STEP, "=": 1 / ZOOM_STEP, "-": ZOOM_STEP }[key];
    const act = { " ": on.toggle, Home: on.first, End: on.last, 0: on.whole }[key];
    if (steps) on.step(steps);
    else if (zoom) on.zoom(zoom, null);
    else if (act) act();
    else return false;
  }
  return true;
}

/**
 * @param {HTMLElement} element
 * @param {Handlers} on
 */
function listenToPointers(element, on) {
  /** @type {Map<number, number>} */
  const pointers = new Map();
  let spread = 0;
  const place = (/** @type {PointerEvent} */ event) =>
    placeIn(element, event.clientX, event.clientY);

  element.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    pointers.set(event.pointerId, event.clientX);
    element.setPointerCapture(event.pointerId);
    if (pointers.size === 1 && !(event.shiftKey && on.pan)) {
      on.select?.(place(event)[1]);
      on.scrub(place(event)[0]);
    }
    spread = distance(pointers);
  });
  element.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (before === undefined) {
      on.hover?.(...place(event));
      return;
    }
    pointers.set(event.pointerId, event.clientX);
    if (pointers.size > 1) {
      const now = distance(pointers);
      if (spread > 8 && now > 8) on.zoom(spread / now, placeIn(element, middle(pointers), 0)[0]);
      spread = now;
    } else if (event.shiftKey && on.pan) {
      on.pan(before - event.clientX);
    } else {
      on.scrub(place(event)[0]);
      on.hover?.(...place(event));
    }
  });
  const release = (/** @type {PointerEvent} */ event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (pointers.size === 0) on.release();
    spread = distance(pointers);
  };
  element.addEventListener("pointerup", release);
  element.addEventListener("pointercancel", release);
  element.addEventListener("pointerleave", () => on.leave?.());
}

/**
 * A pinch on a trackpad arrives as a wheel with ctrl; a plain wheel keeps scrolling the page.
 * @param {HTMLElement} element
 * @param {Handlers} on
 * @param {(px: number) => void} pan
 */
function listenToWheel(element, on, pan) {
  const turn = (/** @type {WheelEvent} */ event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const factor = Math.exp(event.deltaY * (event.deltaMode ? 0.05 : 0.004));
      on.zoom(factor, placeIn(element, event.clientX, event.clientY)[0]);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan(event.deltaX || event.deltaY);
    }
  };
  element.addEventListener("wheel", turn, { passive: false });
}

/** @param {Map<number, number>} pointers */
function distance(pointers) {
  const [a, b] = [...pointers.values()];
  return b === undefined ? 0 : Math.abs(a - b);
}

/** @param {Map<number, number>} pointers */
function middle(pointers) {
  const [a, b] = [...pointers.values()];
  return (a + b) / 2;
}
