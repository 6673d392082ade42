// @ts-check
// What the server sends to the lanes; see ui/lanes/packing.py.

/** @import { Part } from "../lib/dom.js" */
/** @import { Lane, Numbers } from "../lib/packet.js" */

/**
 * One way to batch. A lane that was refused has a `problem` and no rows.
 * @typedef {object} Header
 * @property {string} engine
 * @property {string} title
 * @property {string} note
 * @property {Part[][]} figures
 * @property {string} problem
 * @property {number} end_s
 * @property {[first: number, last: number][]} servers the steps of each server
 * @property {number} [linked_to] the lane to which this one hands its KV over
 * @property {string} [arrives] what arriving means here, where it is not the request's own arrival
 * @property {Numbers} transfer_row
 * @property {Numbers} transfer_outcome
 * @property {Numbers} transfer_start
 * @property {Numbers} transfer_stop
 */
/** @typedef {Lane & Header} WayLane */

export {};
