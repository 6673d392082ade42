// @ts-check
// Round numbers for the ticks of an axis.

/** @import { Axis, Range } from "./view.js" */

/**
 * About `wanted` round numbers inside the view, and the distance between them.
 * @param {Range} view
 * @param {Axis} axis
 * @param {number} wanted
 */
export function ticksOf(view, axis, wanted) {
  const rough = (view[1] - view[0]) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = ([1, 2, 5].find((k) => k * power >= rough) ?? 10) * power;
  if (axis === "step") step = Math.max(1, Math.round(step));
  const at = [];
  const last = view[1] + 1e-9 * step;
  const first = Math.ceil(view[0] / step - 1e-9) + 0; // + 0 turns -0 into 0
  for (let k = first; k * step <= last; k++) at.push(k * step);
  return { at, step };
}
