// Reads what the server sends: an envelope (JSON, changes with every answer) and a packet (see
// ui/timeline/packet.py), both in one piece of bytes.

const TYPES = {
  u1: Uint8Array, u2: Uint16Array, u4: Uint32Array,
  f4: Float32Array, f8: Float64Array,
};
const text = new TextDecoder();

// { envelope, packet: Uint8Array } of the component's data.
export function open(data) {
  const bytes = data instanceof Uint8Array ? data : new Uint8Array(data);
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const envelope = JSON.parse(text.decode(bytes.subarray(4, 4 + length)));
  return { envelope, packet: bytes.subarray(4 + length) };
}

// The lanes of a packet: header fields beside typed arrays; an empty packet has none.
export function decode(packet) {
  if (packet.length === 0) return { lanes: [] };
  const copy = packet.slice(); // own buffer: typed arrays want aligned offsets
  const length = new DataView(copy.buffer).getUint32(0, true);
  const header = JSON.parse(text.decode(copy.subarray(4, 4 + length)));
  const texts = header.texts.map(([name, chip, tone, sentence]) => ({ name, chip, tone, sentence }));
  const lanes = header.lanes.map((lane) => ({ ...lane, texts, reasons: header.reasons }));
  for (const [name, type, offset, size] of header.arrays) {
    const dot = name.indexOf(".");
    lanes[+name.slice(0, dot)][name.slice(dot + 1)] = new TYPES[type](copy.buffer, 4 + length + offset, size);
  }
  return { lanes };
}

// Whether two packets are the same bytes.
export function same(a, b) {
  if (!a || !b || a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

// A short name for a packet's bytes (FNV-1a): two browsers that show the same have the same.
export function fingerprint(packet) {
  let hash = 0x811c9dc5;
  for (let i = 0; i < packet.length; i++) hash = Math.imul(hash ^ packet[i], 0x01000193);
  return `${packet.length}-${(hash >>> 0).toString(16)}`;
}
