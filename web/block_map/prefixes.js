// @ts-check
// The prefix cache in words: hash chains beside the radix tree.

import { el } from "../lib/dom.js";
import { countOf } from "../lib/format.js";
import { chainsAt, treeAt } from "./prefix_tree.js";

/** @import { History } from "./history.js" */
/** @import { Chain, Node } from "./prefix_tree.js" */

export class Prefixes {
  constructor() {
    this.chains = el("div", { class: "chains" });
    this.tree = el("div", { class: "tree" });
    this.root = el(
      "div",
      { class: "prefixes", hidden: true },
      el("div", {}, el("h3", { text: "Hash chains" }), this.chains),
      el("div", {}, el("h3", { text: "Radix tree" }), this.tree),
    );
  }

  get shown() {
    return !this.root.hidden;
  }

  set shown(shown) {
    this.root.hidden = !shown;
  }

  /**
   * @param {History} history
   * @param {number} step
   */
  show(history, step) {
    const { hashes, labels } = history.lane;
    const name = (/** @type {number} */ hash) => hashes[hash - 1];
    const chains = chainsAt(history, step).map((chain) => chainElement(chain, labels, name));
    const noChain = el("p", { text: "No request holds a block in this step." });
    this.chains.replaceChildren(...(chains.length ? chains : [noChain]));
    const nodes = treeAt(history, step).map((node) => nodeElement(node, labels, name));
    const noNode = el("p", { text: "No whole block is in memory yet." });
    this.tree.replaceChildren(nodes.length ? el("ul", {}, ...nodes) : noNode);
  }
}

/**
 * @param {Chain} chain
 * @param {string[]} labels
 * @param {(hash: number) => string} name
 */
function chainElement({ request, hashes, found }, labels, name) {
  const words = found ? `, ${found} blocks found` : ", nothing found";
  const items = hashes.map((hash, k) =>
    el("li", { class: k < found ? "hit" : "", text: name(hash) }),
  );
  const title = el("p", {}, el("b", { text: labels[request] }), words);
  return el("div", { class: "chain" }, title, el("ol", {}, ...items));
}

/**
 * @param {Node} node
 * @param {string[]} labels
 * @param {(hash: number) => string} name
 * @returns {HTMLElement}
 */
function nodeElement({ hashes, requests, children }, labels, name) {
  const first = name(hashes[0]);
  const last = name(hashes[hashes.length - 1]);
  const code = el("code", { text: hashes.length > 1 ? `${first} … ${last}` : first });
  const blocks = el("b", { text: countOf(hashes.length, "block") });
  const holders = requests.map((request) => labels[request]).join(", ");
  const words = el("span", {}, blocks, " ", code, ` ${holders || "no request, cached"}`);
  const below = children.map((child) => nodeElement(child, labels, name));
  const list = below.length ? el("ul", {}, ...below) : null;
  return el("li", { class: requests.length ? "" : "kept" }, words, list);
}
