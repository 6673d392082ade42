// @ts-check
// Hash chains and radix tree of the prefix cache at one step, both from the blocks of that step.

/** @import { History } from "./history.js" */

/** The hashes of a request's blocks, and how many of them were in the cache when it was admitted. @typedef {{ request: number, hashes: number[], found: number }} Chain */
/** A run of blocks that the same requests hold. @typedef {{ hashes: number[], requests: number[], children: Node[] }} Node */

/**
 * The chain of each request that holds blocks.
 * @param {History} history
 * @param {number} step
 * @returns {Chain[]}
 */
export function chainsAt(history, step) {
  const { lane } = history;
  const { hashes } = history.at(step);
  const chains = [];
  for (let request = 0; request < lane.labels.length; request++) {
    const table = history.table(request, step);
    if (!table.length) continue;
    const end = table.findIndex((block) => !hashes[block]);
    const whole = table.slice(0, end < 0 ? table.length : end);
    const mine = lane.found.filter(([at, other]) => other === request && at <= step);
    const found = mine.at(-1)?.[2] ?? 0;
    chains.push({ request, hashes: whole.map((block) => hashes[block]), found });
  }
  return chains;
}

/**
 * The tree of all hashes that are in memory.
 * @param {History} history
 * @param {number} step
 * @returns {Node[]}
 */
export function treeAt(history, step) {
  const { parents } = history.lane;
  const present = new Set(history.at(step).hashes);
  present.delete(0);
  /** @type {Map<number, number[]>} */
  const children = new Map();
  for (const hash of [...present].sort((a, b) => a - b)) {
    const parent = present.has(parents[hash - 1]) ? parents[hash - 1] : 0;
    children.set(parent, [...(children.get(parent) ?? []), hash]);
  }
  /** @type {Map<number, number[]>} */
  const holders = new Map();
  for (const { request, hashes } of chainsAt(history, step)) {
    for (const hash of hashes) holders.set(hash, [...(holders.get(hash) ?? []), request]);
  }
  const holdersOf = (/** @type {number} */ hash) => holders.get(hash) ?? [];
  const childrenOf = (/** @type {number} */ hash) => children.get(hash) ?? [];
  /**
   * @param {number} first
   * @returns {Node}
   */
  const nodeOf = (first) => {
    const hashes = [first];
    let next = childrenOf(first);
    while (next.length === 1 && String(holdersOf(next[0])) === String(holdersOf(first))) {
      hashes.push(next[0]);
      next = childrenOf(next[0]);
    }
    return { hashes, requests: holdersOf(first), children: next.map(nodeOf) };
  };
  return childrenOf(0).map(nodeOf);
}
