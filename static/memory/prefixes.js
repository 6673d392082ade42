// Hash chains and radix tree of the prefix cache at one step, both from the blocks of that step.

const { el } = await import(`../timeline/dom.js${new URL(import.meta.url).search}`);

// Each request that holds blocks: [{ request, chain: [hash], found }], hashes from 1, `found` of them
// were in the cache when it was let in.
export function chains(history, step) {
  const { lane } = history, { hashes } = history.at(step), all = [];
  for (let r = 0; r < lane.labels.length; r++) {
    const table = history.table(r, step);
    if (!table.length) continue;
    const end = table.findIndex((block) => !hashes[block]);
    const found = lane.found.filter(([at, who]) => who === r && at <= step).at(-1)?.[2] ?? 0;
    all.push({ request: r, chain: table.slice(0, end < 0 ? table.length : end).map((block) => hashes[block]), found });
  }
  return all;
}

// The tree of all hashes that are in memory: nodes { hashes, requests, children }, a node a run of
// blocks that the same requests hold.
export function tree(history, step) {
  const { lane } = history, present = new Set(history.at(step).hashes), below = new Map(), holders = new Map();
  present.delete(0);
  for (const hash of [...present].sort((a, b) => a - b)) {
    const parent = present.has(lane.parents[hash - 1]) ? lane.parents[hash - 1] : 0;
    below.set(parent, [...(below.get(parent) ?? []), hash]);
  }
  for (const { request, chain } of chains(history, step)) for (const hash of chain) holders.set(hash, [...(holders.get(hash) ?? []), request]);
  const who = (hash) => holders.get(hash) ?? [];
  const node = (first) => {
    const hashes = [first];
    let next = below.get(first) ?? [];
    while (next.length === 1 && String(who(next[0])) === String(who(first))) {
      hashes.push(next[0]);
      next = below.get(next[0]) ?? [];
    }
    return { hashes, requests: who(first), children: next.map(node) };
  };
  return (below.get(0) ?? []).map(node);
}

export class Prefixes {
  constructor() {
    this.chains = el("div", { class: "chains" });
    this.tree = el("div", { class: "tree" });
    this.root = el("div", { class: "prefixes", hidden: true },
      el("div", {}, el("h3", { text: "Hash chains" }), this.chains), el("div", {}, el("h3", { text: "Radix tree" }), this.tree));
  }

  show(history, step) {
    const { lane } = history, all = chains(history, step), name = (hash) => lane.hashes[hash - 1];
    this.chains.replaceChildren(...all.map(({ request, chain, found }) => el("div", { class: "chain" },
      el("p", {}, el("b", { text: lane.labels[request] }), `, ${found ? `${found} blocks found` : "nothing found"}`),
      el("ol", {}, ...chain.map((hash, k) => el("li", { class: k < found ? "hit" : "", text: name(hash) }))))));
    if (!all.length) this.chains.append(el("p", { text: "Nobody holds a block in this step." }));
    const nodes = tree(history, step), item = ({ hashes, requests, children }) => {
      const ends = hashes.length > 1 ? `${name(hashes[0])} … ${name(hashes.at(-1))}` : name(hashes[0]);
      const words = requests.length ? requests.map((r) => lane.labels[r]).join(", ") : "nobody, kept";
      return el("li", { class: requests.length ? "" : "kept" }, el("span", {}, el("b", { text: `${hashes.length} block${hashes.length > 1 ? "s" : ""}` }),
        " ", el("code", { text: ends }), ` ${words}`), ...(children.length ? [el("ul", {}, ...children.map(item))] : []));
    };
    this.tree.replaceChildren(nodes.length ? el("ul", {}, ...nodes.map(item)) : el("p", { text: "No whole block is in memory yet." }));
  }
}
