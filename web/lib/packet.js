// @ts-check
// Reads what the server sends: an envelope (JSON that changes with every answer) and a packet
// (packed arrays, see ui/timeline/packet.py), both in one byte string.

/** @typedef {Uint8Array | Uint16Array | Uint32Array | Float32Array | Float64Array} Numbers */

/**
 * Steps of a run: times in seconds from `t0_s`.
 * @typedef {object} StepTimes
 * @property {number} first_step number of the first step
 * @property {number} t0_s
 * @property {Numbers} start
 * @property {Numbers} duration
 */

/**
 * What every packet says beside its lanes. `names` holds, for each array of codes, the name of each
 * code; `rejections` holds the words for each reason of a rejection.
 * @typedef {object} Tables
 * @property {Record<string, string[]>} names
 * @property {Record<string, string>} rejections
 * @property {Sentence[]} texts
 * @property {string[]} reasons
 */

/** @typedef {{ name: string, chip: string, tone: string, sentence: string }} Sentence */

/**
 * A run as rows of requests. Rows come from `row_*`, facts from `fact_*` (prefill chunks are facts),
 * stretches of decodes from `run_*`, waiting from `wait_*`.
 * @typedef {object} RowArrays
 * @property {number} num_rows
 * @property {string[]} labels
 * @property {number} itl_limit_s
 * @property {Numbers} prefill
 * @property {Numbers} decodes
 * @property {Numbers} running
 * @property {Numbers} waiting
 * @property {Numbers} row_arrival
 * @property {Numbers} row_first_token
 * @property {Numbers} row_end
 * @property {Numbers} row_worst
 * @property {Numbers} row_prompt
 * @property {Numbers} row_outputs
 * @property {Numbers} row_status
 * @property {Numbers} row_rejection
 * @property {Numbers} row_hits
 * @property {Numbers} row_before
 * @property {Numbers} wait_row
 * @property {Numbers} wait_kind
 * @property {Numbers} wait_start
 * @property {Numbers} wait_stop
 * @property {Numbers} run_row
 * @property {Numbers} run_first
 * @property {Numbers} run_last
 * @property {Numbers} fact_step
 * @property {Numbers} fact_kind
 * @property {Numbers} fact_request 1 for the first label, 0 for no request
 * @property {Numbers} fact_a
 * @property {Numbers} fact_b
 */

/** @typedef {StepTimes & Tables & RowArrays} Lane */

const TYPES = {
  u1: Uint8Array,
  u2: Uint16Array,
  u4: Uint32Array,
  f4: Float32Array,
  f8: Float64Array,
};
const text = new TextDecoder();

/**
 * The bytes of a component's data.
 * @param {Uint8Array | ArrayBuffer} data
 */
export const bytesOf = (data) => (data instanceof Uint8Array ? data : new Uint8Array(data));

/**
 * The JSON at the beginning of `bytes`, after its length, and where it ends.
 * @param {Uint8Array} bytes
 * @returns {[any, number]}
 */
function readJson(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  return [JSON.parse(text.decode(bytes.subarray(4, 4 + length))), 4 + length];
}

/**
 * Splits a component's data into its envelope and its packet.
 * @param {Uint8Array | ArrayBuffer} data
 */
export function openEnvelope(data) {
  const bytes = bytesOf(data);
  const [envelope, end] = readJson(bytes);
  return { envelope, packet: bytes.subarray(end) };
}

/**
 * The lanes of a packet: header fields beside typed arrays. An empty packet has none.
 * @template [L=any]
 * @param {Uint8Array} packet
 * @returns {L[]}
 */
export function decode(packet) {
  if (packet.length === 0) return [];
  const copy = packet.slice(); // a buffer of its own: typed arrays need aligned offsets
  const [header, end] = readJson(copy);
  /** @type {Tables} */
  const tables = {
    names: header.names ?? {},
    rejections: header.rejections ?? {},
    texts: header.texts.map((/** @type {string[]} */ [name, chip, tone, sentence]) => ({
      name,
      chip,
      tone,
      sentence,
    })),
    reasons: header.reasons,
  };
  const lanes = header.lanes.map((/** @type {object} */ lane) => ({ ...lane, ...tables }));
  for (const [name, type, offset, size] of header.arrays) {
    const dot = name.indexOf(".");
    const Type = TYPES[/** @type {keyof typeof TYPES} */ (type)];
    lanes[+name.slice(0, dot)][name.slice(dot + 1)] = new Type(copy.buffer, end + offset, size);
  }
  return lanes;
}

/**
 * The name of a code of an array, as the packet's own table has it.
 * @param {Tables} lane
 * @param {string} array
 * @param {number} code
 */
export function nameOf(lane, array, code) {
  const name = lane.names[array]?.[code];
  if (name === undefined) throw new Error(`the packet has no name for code ${code} of ${array}`);
  return name;
}

/**
 * Whether two packets are the same bytes.
 * @param {Uint8Array | null} a
 * @param {Uint8Array | null} b
 */
export function same(a, b) {
  if (!a || !b || a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/**
 * A short name for a packet's bytes (FNV-1a): two browsers that show the same run have the same.
 * @param {Uint8Array} packet
 */
export function fingerprint(packet) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < packet.length; i++) hash = Math.imul(hash ^ packet[i], 0x01000193);
  return `${packet.length}-${(hash >>> 0).toString(16)}`;
}
