// @ts-check
// What the server sends to the timeline: lanes in the packet, words and controls in the envelope.

/** @import { Part } from "../lib/dom.js" */
/** @import { Lane, Numbers } from "../lib/packet.js" */
/** @import { Axis, Range } from "../lib/view.js" */

/**
 * What a lane of the timeline has beside its rows; see ui/timeline/packet.py. A run too large to draw
 * whole has an `overview`: its span in seconds, and bins from `fill_mean` on.
 * @typedef {object} Header
 * @property {string} title
 * @property {string[]} notes
 * @property {number} budget
 * @property {number} cap
 * @property {Range} span_s
 * @property {number} total_steps
 * @property {number} first_row
 * @property {number} total_rows
 * @property {number} window_end_s
 * @property {string} order
 * @property {[string, string][]} orders
 * @property {number} kv_blocks
 * @property {Numbers} kv
 * @property {Numbers} fact_c
 * @property {string[]} terms
 * @property {string} terms_text
 * @property {number} terms_whole
 * @property {Numbers} [terms_share]
 * @property {Range} focus_s
 * @property {number} cue_s
 * @property {Range} [overview]
 * @property {number} fill_whole
 * @property {Numbers} fill_mean
 * @property {Numbers} fill_max
 * @property {Numbers} queue_mean
 * @property {Numbers} queue_max
 * @property {Numbers} worst_gap
 */
/** @typedef {Lane & Header} TimelineLane */

/** A button of the page. @typedef {{ id: string, label: string }} Button */
/** @typedef {{ name: string, file: string, line: number, text: string }} SourceFunction */
/** @typedef {{ functions: SourceFunction[], marks: Record<string, [number, number[]]> }} SourceCode */
/** @typedef {{ step: number | null, axis: Axis | null, start: number, end: number }} LinkedView */
/** Part of a large run. @typedef {{ order: string, first_row: number, start_s: number, end_s: number }} Window */

/**
 * What comes with a packet and may change without it; see ui/timeline/envelope.py.
 * @typedef {object} Envelope
 * @property {{ budget: number, cap: number }} dials
 * @property {number} epoch
 * @property {string} story name of the workload; a new one moves the view
 * @property {Part[]} sentence
 * @property {Part[][]} settings
 * @property {{ text: string, fixes: Button[] } | null} problem
 * @property {{ pinned: string | null, buttons: Button[] } | null} compare
 * @property {{ text: Part[], answers: Button[] } | null} question
 * @property {LinkedView | null} view
 * @property {string} link
 * @property {string} caption
 * @property {string[] | null} shown
 * @property {Record<string, string>} terms
 * @property {SourceCode | null} source
 * @property {number} seq
 * @property {{ budget: number | null, cap?: number | null }} refused
 */

export {};
