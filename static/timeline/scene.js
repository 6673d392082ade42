// A lane as marks: numbers in axis units (seconds, or steps), nothing about pixels or colours.

const v = new URL(import.meta.url).search;
const { Clock } = await import(`./clock.js${v}`);

export const WAITING = 0, PREEMPTED = 1, HELD = 2;
export const STATUS = ["expected", "waiting", "running", "preempted", "finished", "aborted", "rejected",
  "swapped", "prefilling", "loading", "loaded", "failed"];
const CHUNKS = new Set(["chunk", "chunk_completes", "chunk_clamped"]);

// axis: "time" or "step".
export function build(lane, axis) {
  const clock = new Clock(lane);
  const at = axis === "time" ? (t) => t : (t) => clock.position(t);
  const starts = new Float64Array(clock.length), ends = new Float64Array(clock.length);
  for (let i = 0; i < clock.length; i++) {
    starts[i] = axis === "time" ? clock.starts[i] : clock.first + i;
    ends[i] = axis === "time" ? clock.ends[i] : clock.first + i + 1;
  }
  const rows = Array.from({ length: lane.num_rows }, (_, k) => row(lane, k, at));
  addChunks(lane, rows, starts, ends);
  addTicks(lane, rows, clock, ends);
  for (let i = 0; i < lane.wait_row.length; i++) {
    const mark = { x0: at(lane.t0_s + lane.wait_start[i]), x1: at(lane.t0_s + lane.wait_stop[i]), kind: lane.wait_kind[i] };
    rows[lane.wait_row[i]].waits.push(mark);
  }
  for (const r of rows) finish(r, lane, clock, at);
  return { lane, clock, starts, ends, rows, budget: lane.budget };
}

function row(lane, k, at) {
  const time = (name) => lane.t0_s + lane[name][k];
  return {
    label: lane.labels[k], arrival: at(time("row_arrival")), arrivalS: time("row_arrival"),
    end: at(time("row_end")), endS: time("row_end"), firstTokenS: time("row_first_token"),
    status: STATUS[lane.row_status[k]], why: lane.row_why[k], prompt: lane.row_prompt[k],
    outputs: lane.row_outputs[k], cached: lane.row_hits[k], worst: lane.row_worst[k],
    before: time("row_before"), waits: [], chunks: [], hits: [], ticks: [], tickSteps: [], bands: [],
  };
}

function addChunks(lane, rows, starts, ends) {
  for (let i = 0; i < lane.fact_step.length; i++) {
    const who = lane.fact_who[i] - 1, { name } = lane.texts[lane.fact_kind[i]];
    if (who < 0 || who >= rows.length) continue;
    const step = lane.fact_step[i], n = lane.fact_a[i];
    if (name === "hit" || name === "resumed") rows[who].hits.push({ x: starts[step], n });
    if (CHUNKS.has(name)) rows[who].chunks.push({ x0: starts[step], x1: ends[step], n, step, emits: n === lane.fact_b[i] });
  }
}

// A token reaches the user at the end of the step that emits it.
function addTicks(lane, rows, clock, ends) {
  const steps = rows.map((r) => r.chunks.filter((chunk) => chunk.emits).map((chunk) => chunk.step));
  for (let i = 0; i < lane.run_row.length; i++) {
    const mine = steps[lane.run_row[i]];
    for (let s = lane.run_first[i]; s <= lane.run_last[i]; s++) mine.push(s);
  }
  rows.forEach((r, k) => {
    r.tickSteps = steps[k].sort((a, b) => a - b);
    r.ticks = Float64Array.from(r.tickSteps, (s) => ends[s]);
  });
}

function finish(r, lane, clock, at) {
  let last = r.before; // NaN when no token came before this window
  for (let i = 0; i < r.tickSteps.length; i++) {
    const t = clock.ends[r.tickSteps[i]], gap = t - last;
    if (gap > lane.itl_limit_s) {
      const x0 = at(last), x1 = r.ticks[i];
      const preempted = r.waits.some((w) => w.kind === PREEMPTED && w.x0 < x1 && w.x1 > x0);
      r.bands.push({ x0, x1, gap, preempted });
    }
    last = t;
  }
  const inWait = (x) => r.waits.some((w) => w.kind === PREEMPTED && w.x0 <= x && w.x1 >= x);
  for (let i = 1; i < r.chunks.length; i++) { // a prompt under way that got nothing in between
    const x0 = r.chunks[i - 1].x1, x1 = r.chunks[i].x0;
    if (x1 > x0 + 1e-9 && !r.chunks[i - 1].emits && !inWait((x0 + x1) / 2)) r.waits.push({ x0, x1, kind: HELD });
  }
}

// The marks on their way from one plan to the next: u runs from 0 (a) to 1 (b). Rows keep their place.
export function between(a, b, u) {
  const mix = (p, q) => p + (q - p) * u;
  const mixMarks = (p, q) => q.map((m, i) => (p[i] ? { ...m, x0: mix(p[i].x0, m.x0), x1: mix(p[i].x1, m.x1) } : m));
  const mixArray = (p, q) => Float64Array.from(q, (x, i) => (i < p.length ? mix(p[i], x) : x));
  return {
    ...b,
    starts: mixArray(a.starts, b.starts), ends: mixArray(a.ends, b.ends), budget: mix(a.budget, b.budget),
    rows: b.rows.map((r, k) => {
      const old = a.rows[k];
      if (!old || old.label !== r.label) return r;
      return {
        ...r, ticks: mixArray(old.ticks, r.ticks), chunks: mixMarks(old.chunks, r.chunks),
        waits: mixMarks(old.waits, r.waits), bands: mixMarks(old.bands, r.bands), end: mix(old.end, r.end),
      };
    }),
  };
}

export function size(scene) {
  return scene.rows.reduce((sum, r) => sum + r.ticks.length + r.chunks.length, scene.starts.length);
}

// The step whose column ends after `at`, by halving; the last one beyond the end.
export function stepUnder(scene, at) {
  let low = 0, high = scene.ends.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (scene.ends[middle] > at) high = middle; else low = middle + 1;
  }
  return low;
}
