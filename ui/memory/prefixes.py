"""Prefix caching from a replay: the hash chain of each request and the radix tree they form."""

import html
from collections.abc import Mapping
from dataclasses import dataclass, field

from ui.memory.replay import Replay
from ui.units import count


@dataclass
class Node:
    """A run of blocks that the same requests share; its children begin where they part."""

    hashes: list[int]
    requests: list[int]
    children: list["Node"] = field(default_factory=list)


def tree(chains: Mapping[int, tuple[int, ...]]) -> list[Node]:
    """The radix tree of hash chains: equal hashes mean equal content and equal all before it."""

    def build(members: list[int], depth: int) -> list[Node]:
        groups: dict[int, list[int]] = {}
        for r in members:
            if len(chains[r]) > depth:
                groups.setdefault(chains[r][depth], []).append(r)
        nodes = []
        for first, group in groups.items():
            hashes, end = [first], depth + 1
            while all(len(chains[r]) > end for r in group):
                following = {chains[r][end] for r in group}
                if len(following) > 1:
                    break
                hashes.append(following.pop())
                end += 1
            nodes.append(Node(hashes, group, build(group, end)))
        return nodes

    return build(sorted(chains), 0)


def short(value: int) -> str:
    """The last four hex digits of a hash."""
    return f"{value & 0xFFFF:04x}"


STYLE = """<style>
.bs-chain { display: flex; flex-wrap: wrap; gap: 4px; margin: 2px 0 12px; padding: 0; }
.bs-chain span { font-family: monospace; font-size: .8rem; padding: 1px 6px; border-radius: 4px;
  border: 1px solid currentColor; }
.bs-chain .hit { background: #e69f00; border-color: #e69f00; color: #16181d; font-weight: 600; }
.bs-tree ul { list-style: none; margin: 0; padding-left: 22px; border-left: 1px solid #98a2b3; }
.bs-tree > ul { padding-left: 0; border: 0; }
.bs-tree li { margin: 6px 0; padding-left: 8px; }
.bs-tree code { font-size: .8rem; background: none; color: inherit; padding: 0; }
</style>"""


def chain_html(replay: Replay) -> str:
    """The chain of each request, its hits marked."""
    size = int(replay.resolved.policy[0].block_size)
    rows = []
    for r, chain in sorted(replay.chains.items()):
        hits = int(replay.trace.requests[r].hit_tokens) // size
        blocks = "".join(
            f'<span class="{"hit" if k < hits else ""}">{short(h)}</span>'
            for k, h in enumerate(chain)
        )
        name = html.escape(replay.workload.label(r))
        found = f"{hits} blocks found" if hits else "nothing found"
        rows.append(f'<div><b>{name}</b>, {found}<div class="bs-chain">{blocks}</div></div>')
    return STYLE + "".join(rows)


def tree_html(replay: Replay) -> str:
    """The same chains as a tree."""

    def item(node: Node) -> str:
        names = ", ".join(html.escape(replay.workload.label(r)) for r in node.requests)
        blocks = f"{len(node.hashes)} block{'s' if len(node.hashes) > 1 else ''}"
        ends = short(node.hashes[0])
        if len(node.hashes) > 1:
            ends += f" … {short(node.hashes[-1])}"
        below = f"<ul>{''.join(map(item, node.children))}</ul>" if node.children else ""
        return f"<li><b>{blocks}</b> <code>{ends}</code> {names}{below}</li>"

    return f'{STYLE}<div class="bs-tree"><ul>{"".join(map(item, tree(replay.chains)))}</ul></div>'


def sentence(replay: Replay) -> str:
    """What the cache saved, and what it never gives."""
    requests = replay.trace.requests
    size = int(replay.resolved.policy[0].block_size)
    hits, prompts = int(requests.hit_tokens.sum()), int(requests.prompt_len.sum())
    return (
        f":orange[**{count(hits)} of {count(prompts)} prompt tokens**] were found in the cache: "
        f"whole blocks of {size} only, and never the last token of a prompt, which must be "
        f"computed to know the next one. Blocks that nobody holds stay until somebody needs the "
        f"room; the one unused for longest goes first: {count(len(replay.evictions))} evictions "
        "here."
    )
