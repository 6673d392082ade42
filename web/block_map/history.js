// @ts-check
// The state of KV memory at each step, unrolled from what changed.

/** @import { Numbers, StepTimes, Tables } from "../lib/packet.js" */

/**
 * A run whose blocks are drawn; see ui/memory/packing.py. Owners, hashes and blocks of a table count
 * from 1; 0 stands for none.
 * @typedef {object} Header
 * @property {number} num_blocks
 * @property {number} block_size
 * @property {string} rules
 * @property {string[]} labels
 * @property {[chip: string, tone: string, text: string][][]} lines what each step did, in words
 * @property {number[][]} lost the requests that lost all blocks in each step
 * @property {number} first the step to open at
 * @property {string[]} hashes
 * @property {number[]} parents
 * @property {[step: number, request: number, blocks: number][]} found
 * @property {boolean} open whether hash chains and radix tree are shown at first
 * @property {Numbers} prefill
 * @property {Numbers} decodes
 * @property {Numbers} waiting
 * @property {Numbers} change_step
 * @property {Numbers} change_block
 * @property {Numbers} change_state
 * @property {Numbers} change_owner
 * @property {Numbers} change_hash
 * @property {Numbers} table_step
 * @property {Numbers} table_request
 * @property {Numbers} table_position
 * @property {Numbers} table_block 0: the request gave all blocks back
 */
/** @typedef {StepTimes & Tables & Header} MemoryLane */

export class History {
  /** @param {MemoryLane} lane */
  constructor(lane) {
    this.lane = lane;
    this.length = lane.start.length;
    this.states = lane.names.change_state; // name of each state of a block
    const n = lane.num_blocks;
    const size = this.length * n;
    this.codes = new Uint8Array(size).fill(this.states.indexOf("free"));
    this.owners = new Uint8Array(size);
    this.hashes = new Uint16Array(size);
    let i = 0;
    for (let s = 0; s < this.length; s++) {
      for (const all of [this.codes, this.owners, this.hashes]) {
        if (s) all.copyWithin(s * n, (s - 1) * n, s * n);
      }
      for (; i < lane.change_step.length && lane.change_step[i] === s; i++) {
        const at = s * n + lane.change_block[i];
        this.codes[at] = lane.change_state[i];
        this.owners[at] = lane.change_owner[i];
        this.hashes[at] = lane.change_hash[i];
      }
    }
  }

  /**
   * The blocks while a step runs: their states as codes, owners and hashes from 1.
   * @param {number} step
   */
  at(step) {
    const n = this.lane.num_blocks;
    const [from, to] = [step * n, (step + 1) * n];
    return {
      codes: this.codes.subarray(from, to),
      owners: this.owners.subarray(from, to),
      hashes: this.hashes.subarray(from, to),
    };
  }

  /**
   * How many blocks are in each state while a step runs.
   * @param {number} step
   */
  countsAt(step) {
    const counts = { free: 0, used: 0, shared: 0, cached: 0 };
    for (const code of this.at(step).codes) {
      counts[/** @type {keyof typeof counts} */ (this.states[code])]++;
    }
    return counts;
  }

  /**
   * The request that holds most blocks in a step, -1 for none.
   * @param {number} step
   */
  ownerOf(step) {
    /** @type {Map<number, number>} */
    const held = new Map();
    for (const owner of this.at(step).owners) {
      if (owner) held.set(owner, (held.get(owner) ?? 0) + 1);
    }
    return [...held].reduce((a, b) => (b[1] > a[1] ? b : a), [0, 0])[0] - 1;
  }

  /**
   * The block table of a request while a step runs.
   * @param {number} request
   * @param {number} step
   */
  table(request, step) {
    const { lane } = this;
    /** @type {number[]} */
    let table = [];
    for (let i = 0; i < lane.table_step.length && lane.table_step[i] <= step; i++) {
      if (lane.table_request[i] !== request) continue;
      if (lane.table_block[i] === 0) table = [];
      else table = [...table.slice(0, lane.table_position[i]), lane.table_block[i] - 1];
    }
    return table;
  }
}
