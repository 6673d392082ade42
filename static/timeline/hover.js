// What lies under the pointer, in words.

const v = new URL(import.meta.url).search;
const [{ count, seconds, moment }, { rowAt }, { PREEMPTED, HELD, stepUnder }] = await Promise.all([
  import(`./format.js${v}`), import(`./layout.js${v}`), import(`./scene.js${v}`),
]);

// at: a position in axis units, y: px. Returns { title, lines } or null.
export function describe(scenes, place, at, y) {
  const k = place.lanes.findIndex((lane) => y >= lane.top && y <= lane.bottom);
  if (k < 0 || !scenes[k].clock.length) return null;
  const scene = scenes[k], lane = place.lanes[k];
  const r = rowAt(lane, scene.rows.length, y);
  if (r >= 0) return describeRow(scene, scene.rows[r], at);
  return y <= lane.stripBottom ? describeStep(scene, at) : null;
}

function describeStep(scene, at) {
  const i = stepUnder(scene, at);
  if (at < scene.starts[i] || at > scene.ends[i]) return { title: "No step runs", lines: ["nobody is in the system"] };
  const { lane, clock } = scene, used = lane.prefill[i] + lane.decodes[i];
  const lines = [
    `${moment(clock.starts[i])}, lasts ${seconds(lane.duration[i])}`,
    `${count(lane.prefill[i])} prefill + ${count(lane.decodes[i])} decode = ${count(used)} of ${count(lane.budget)} tokens`,
    `${count(lane.running[i])} running, ${count(lane.waiting[i])} waiting`,
  ];
  if (lane.kv_blocks > 0) lines.push(`KV: ${count(lane.kv[i])} of ${count(lane.kv_blocks)} blocks`);
  return { title: `Step ${count(clock.first + i)}`, lines };
}

function describeRow(scene, row, at) {
  const lines = [`${count(row.prompt)} prompt tokens, ${count(row.outputs)} output tokens, ${row.status}`];
  const now = stateAt(scene, row, at);
  if (now) lines.unshift(now);
  if (Number.isFinite(row.firstTokenS)) lines.push(`TTFT ${seconds(row.firstTokenS - row.arrivalS)}, worst gap ${seconds(row.worst)}`);
  if (row.cached > 0) lines.push(`${count(row.cached)} prompt tokens from the prefix cache`);
  return { title: row.label, lines };
}

function stateAt(scene, row, at) {
  const within = (mark) => mark.x0 <= at && at < mark.x1;
  const chunk = row.chunks.find(within);
  if (chunk) return `${count(chunk.n)} prompt tokens in step ${count(scene.clock.first + chunk.step)}`;
  const wait = row.waits.find(within);
  if (wait) return wait.kind === PREEMPTED ? "preempted, waits to be computed again" : wait.kind === HELD ? "its prompt gets nothing" : "waiting";
  const next = row.ticks.findIndex((x) => x >= at);
  if (next < 0 || (next === 0 && !Number.isFinite(row.before))) return null;
  const ends = scene.clock.ends, previous = next > 0 ? ends[row.tickSteps[next - 1]] : row.before;
  const i = row.tickSteps[next];
  return `next token at ${moment(ends[i])}, ${seconds(ends[i] - previous)} after the one before`;
}
