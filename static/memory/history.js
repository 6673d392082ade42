// The state of memory at each step, unrolled from what changed.

export const FREE = 0, USED = 1, SHARED = 2, CACHED = 3;

export class History {
  // lane: of the packet, see ui/memory/packing.py.
  constructor(lane) {
    this.lane = lane;
    this.length = lane.start.length;
    const n = lane.num_blocks;
    this.kinds = new Uint8Array(this.length * n);
    this.owners = new Uint8Array(this.length * n);
    this.hashes = new Uint16Array(this.length * n);
    let i = 0;
    for (let s = 0; s < this.length; s++) {
      if (s) {
        this.kinds.copyWithin(s * n, (s - 1) * n, s * n);
        this.owners.copyWithin(s * n, (s - 1) * n, s * n);
        this.hashes.copyWithin(s * n, (s - 1) * n, s * n);
      }
      for (; i < lane.change_step.length && lane.change_step[i] === s; i++) {
        this.kinds[s * n + lane.change_block[i]] = lane.change_kind[i];
        this.owners[s * n + lane.change_block[i]] = lane.change_owner[i];
        this.hashes[s * n + lane.change_block[i]] = lane.change_hash[i];
      }
    }
  }

  // { kinds, owners, hashes } while a step runs; owners and hashes count from 1, 0 is nobody and none.
  at(step) {
    const n = this.lane.num_blocks, cut = (array) => array.subarray(step * n, (step + 1) * n);
    return { kinds: cut(this.kinds), owners: cut(this.owners), hashes: cut(this.hashes) };
  }

  // The request that holds most blocks in a step, -1 for none.
  ownerOf(step) {
    const held = new Map();
    for (const owner of this.at(step).owners) if (owner) held.set(owner, (held.get(owner) ?? 0) + 1);
    return [...held].reduce((a, b) => (b[1] > a[1] ? b : a), [0, 0])[0] - 1;
  }

  // A request's block table while a step runs.
  table(request, step) {
    const { table_step: steps, table_request: who, table_position: position, table_block: block } = this.lane;
    let table = [];
    for (let i = 0; i < steps.length && steps[i] <= step; i++) {
      if (who[i] !== request) continue;
      if (block[i] === 0) table = [];
      else table = [...table.slice(0, position[i]), block[i] - 1];
    }
    return table;
  }
}
