// Numbers as a reader wants them: thousands separated, units always.

const integers = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export const count = (n) => integers.format(n);

// Seconds with a unit and about three digits: 0.43 ms, 14.6 ms, 169 ms, 1.02 s, 12.3 s.
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

// The reader's limit for a gap, without a needless ".0".
export const limitOf = (lane) => seconds(lane.itl_limit_s).replace(/\.0+ /, " ");

// A moment on the run's clock, precise enough for neighbouring steps.
export function moment(s) {
  if (s < 1) return `${(s * 1e3).toFixed(s < 0.0995 ? 1 : 0)} ms`;
  return s < 100 ? `${s.toFixed(3)} s` : `${integers.format(Math.floor(s))}.${Math.floor((s % 1) * 10)} s`;
}

// The label of a tick `at` on an axis whose ticks are `step` apart, both in seconds.
export function axisTime(at, step) {
  if (step < 0.1 && at < 1) return `${(at * 1e3).toFixed(step < 0.001 ? 1 : 0)} ms`;
  if (step < 1 && at < 1) return `${Math.round(at * 1e3)} ms`;
  const digits = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  return `${at.toFixed(digits)} s`;
}

// "**bold** and plain" as [text, isBold] pairs, with {who} {a} {b} {c} filled in.
export function fill(template, words) {
  const text = template.replace(/\{(\w+)\}/g, (whole, name) => words[name] ?? whole);
  return text.split("**").map((part, index) => [part, index % 2 === 1]);
}
