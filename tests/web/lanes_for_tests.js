// @ts-check
// Small runs whose marks and words can be worked out by hand.

/** @import { TimelineLane } from "../../web/timeline/types.js" */
/** @import { WayLane } from "../../web/lanes/types.js" */
/** @import { Lane } from "../../web/lib/packet.js" */

export const NAMES = {
  row_status: ["waiting", "running", "finished", "rejected"],
  row_rejection: ["none", "too_long", "too_late"],
  wait_kind: ["preempted", "waiting"],
  transfer_outcome: ["lost", "arrived"],
};

const u8 = (/** @type {number[]} */ ...values) => Uint8Array.from(values);
const f4 = (/** @type {number[]} */ ...values) => Float64Array.from(values);

/**
 * Four steps of 1, 1, 2 and 1 s from second 10 on; the second idle before the last one is a gap.
 *
 *     step            5        6        7           8
 *     seconds      10-11    11-12    12-14       15-16
 *     document    8 of 12              4 of 4    decode
 *     chat        decode    decode               decode
 *
 * The third row was rejected. The names are in another order than the server's.
 * @returns {Lane}
 */
export function smallLane() {
  return {
    first_step: 5,
    t0_s: 10,
    start: f4(0, 1, 2, 5),
    duration: f4(1, 1, 2, 1),
    num_rows: 3,
    labels: ["document", "chat", "essay"],
    itl_limit_s: 1.5,
    prefill: u8(8, 0, 4, 0),
    decodes: u8(1, 1, 0, 2),
    running: u8(2, 2, 2, 2),
    waiting: u8(0, 1, 1, 0),
    row_arrival: f4(-1, -9, 1),
    row_first_token: f4(4, -7, Number.NaN),
    row_end: f4(6, 6, Number.NaN),
    row_worst: f4(2, 4, Number.NaN),
    row_prompt: u8(12, 3, 99),
    row_outputs: u8(2, 40, 0),
    row_status: u8(2, 2, 3),
    row_rejection: u8(0, 0, 1),
    row_hits: u8(0, 2, 0),
    row_before: f4(Number.NaN, -1, Number.NaN),
    wait_row: u8(0, 1),
    wait_kind: u8(1, 0),
    wait_start: f4(-1, 2),
    wait_stop: f4(0, 4),
    run_row: u8(0, 1, 1),
    run_first: u8(3, 0, 3),
    run_last: u8(3, 1, 3),
    fact_step: u8(0, 0, 1, 2, 2, 3),
    fact_kind: u8(0, 1, 2, 0, 3, 2),
    fact_request: u8(1, 2, 0, 1, 3, 0),
    fact_a: u8(8, 2, 15, 4, 1, 14),
    fact_b: u8(12, 0, 0, 4, 0, 0),
    names: NAMES,
    rejections: { none: "", too_long: "its prompt is too long", too_late: "it would be late" },
    texts: [
      {
        name: "chunk",
        chip: "{request}",
        tone: "prefill",
        sentence: "{a} of {b}, {c} left of {budget}",
      },
      { name: "hit", chip: "{request}", tone: "cached", sentence: "{a} tokens from the cache" },
      { name: "stop_queue", chip: "stopped by", tone: "muted", sentence: "**done**: {a} unused" },
      { name: "stop_plain", chip: "stopped by", tone: "muted", sentence: "**{reason}**" },
    ],
    reasons: ["queue empty", "budget"],
  };
}

/** @returns {TimelineLane} */
export function timelineLane() {
  return {
    ...smallLane(),
    title: "Now",
    notes: ["whole prompts"],
    budget: 16,
    cap: 0,
    span_s: [9, 16],
    total_steps: 1200,
    first_row: 0,
    total_rows: 3,
    window_end_s: 16,
    order: "arrival",
    orders: [["arrival", "arrival"]],
    kv_blocks: 50,
    kv: u8(4, 5, 6, 7),
    fact_c: u8(15, 0, 0, 16, 0, 0),
    terms: ["weights", "rest"],
    terms_text: "weights {0} ms, rest {1} ms",
    terms_whole: 100,
    terms_share: u8(25, 75, 50, 50, 10, 90, 0, 100),
    focus_s: [10, 14],
    cue_s: 10,
    fill_whole: 255,
    fill_mean: u8(),
    fill_max: u8(),
    queue_mean: u8(),
    queue_max: u8(),
    worst_gap: f4(),
  };
}

/**
 * The small run on two servers: the first has steps 5 and 6, the second 7 and 8.
 * @returns {WayLane}
 */
export function wayLane() {
  return {
    ...smallLane(),
    engine: "vllm_v1",
    title: "vLLM V1",
    note: "chunks",
    figures: [],
    problem: "",
    end_s: 16,
    servers: [
      [0, 1],
      [2, 3],
    ],
    transfer_row: u8(0, 1),
    transfer_outcome: u8(1, 0),
    transfer_start: f4(1, 1.5),
    transfer_stop: f4(2, 3),
  };
}
