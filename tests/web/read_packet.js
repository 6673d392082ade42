// @ts-check
// Prints the rows that the browser makes of a packet, as JSON: node read_packet.js < packet

import { readFileSync } from "node:fs";
import { addTransfers } from "../../web/lanes/kv_transfers.js";
import { build } from "../../web/lib/marks.js";
import { decode } from "../../web/lib/packet.js";

/** @import { WayLane } from "../../web/lanes/types.js" */

/** @type {WayLane[]} */
const lanes = decode(new Uint8Array(readFileSync(0)));
const rows = lanes.map((lane) => {
  if (!lane.num_rows) return []; // it was refused
  const marks = build(lane, "time");
  if (lane.transfer_row) addTransfers(marks);
  return marks.rows.map(({ label, status, rejection, ticks, chunks, waits, transfers }) => ({
    label,
    status,
    rejection,
    ticks: [...ticks],
    chunks: chunks.map(({ n }) => n),
    waits: waits.map(({ kind }) => kind),
    transfers: transfers.map(({ lost }) => (lost ? "lost" : "arrived")),
  }));
});
console.log(JSON.stringify(rows));
