// @ts-check
// Numbers for readers: thousands separated, always with a unit.

const integers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** @param {number} n */
export const count = (n) => integers.format(n);

/**
 * A count with its noun: "1 block", "3 blocks".
 * @param {number} n
 * @param {string} noun
 */
export const countOf = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

/**
 * Seconds with a unit and about three digits: 0.43 ms, 14.6 ms, 169 ms, 1.02 s, 12.3 s.
 * @param {number} s
 */
export function seconds(s) {
  const ms = s * 1e3;
  if (ms === 0) return "0 ms";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 99.95) return `${ms.toFixed(1)} ms`;
  if (ms < 999.5) return `${ms.toFixed(0)} ms`;
  if (s < 9.995) return `${s.toFixed(2)} s`;
  if (s < 99.95) return `${s.toFixed(1)} s`;
  return `${count(s)} s`;
}

/**
 * The limit for the gap between two tokens, without a needless ".0".
 * @param {{ itl_limit_s: number }} lane
 */
export const limitOf = (lane) => seconds(lane.itl_limit_s).replace(/\.0+ /, " ");

/**
 * A moment on the run's clock, precise enough to tell neighbouring steps apart.
 * @param {number} s
 */
export function moment(s) {
  if (s < 1) return `${(s * 1e3).toFixed(s < 0.0995 ? 1 : 0)} ms`;
  if (s < 100) return `${s.toFixed(3)} s`;
  return `${count(Math.floor(s))}.${Math.floor((s % 1) * 10)} s`;
}

/**
 * The label of the tick `at` on an axis whose ticks are `step` apart, both in seconds.
 * @param {number} at
 * @param {number} step
 */
export function axisTime(at, step) {
  if (step < 0.1 && at < 1) return `${(at * 1e3).toFixed(step < 0.001 ? 1 : 0)} ms`;
  if (step < 1 && at < 1) return `${Math.round(at * 1e3)} ms`;
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  return `${at.toFixed(digits)} s`;
}

/**
 * "**bold** and plain" as [text, isBold] pairs, with {placeholders} replaced by `words`.
 * @param {string} template
 * @param {Record<string, string>} words
 * @returns {[string, boolean][]}
 */
export function fill(template, words) {
  const text = template.replace(/\{(\w+)\}/g, (whole, name) => words[name] ?? whole);
  return text.split("**").map((part, index) => [part, index % 2 === 1]);
}
