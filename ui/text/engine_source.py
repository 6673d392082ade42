"""The policy's source as it runs, and which of its lines decided: read from the code itself.

A step ends with a reason that the policy recorded, `reasons.BUDGET` and so on. The lines that
decided are those of the innermost `if` around the statement that records it. They are found in the
syntax tree of the running functions, so the text and the marks follow the code by themselves.
"""

import ast
import importlib
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Mark:
    """Which statement decided: it records this reason of sim.core.reasons. Of several, the one in a
    function that admits waiting requests (or does not), beside a recorded refusal (or without)."""

    reason: str
    admits: bool | None = None
    refuses: bool | None = None


MARKS: Mapping[str, Mark] = {  # by kind of fact
    "stop_budget": Mark("BUDGET", admits=True, refuses=True),
    "stop_budget_cut": Mark("BUDGET", admits=False, refuses=False),
    "stop_budget_cut_new": Mark("BUDGET", admits=True, refuses=False),
    "stop_budget_plain": Mark("BUDGET", admits=False, refuses=True),
    "stop_chunk_cap": Mark("CHUNK_CAP", admits=False),
    "stop_chunk_cap_new": Mark("CHUNK_CAP", admits=True),
    "stop_kv_blocks": Mark("REFUSED_KV_BLOCKS", admits=True),
    "stop_full_prompt": Mark("REFUSED_FULL_PROMPT"),
    "stop_max_num_seqs": Mark("MAX_NUM_SEQS"),
    "stop_max_batch_size": Mark("MAX_BATCH_SIZE"),
    "stop_whole_prompt": Mark("WHOLE_PROMPT"),
    "stop_preempted": Mark("PREEMPTED"),
    "stop_preempted_plain": Mark("PREEMPTED"),
}
ADMITTING = {"admit", "start_running"}  # the operations that start a request
QUEUE = "num_waiting"  # the counter that the admitting loop tests


@dataclass(frozen=True)
class Function:
    """A function of a policy: where it stands, its text, its first line in the file."""

    name: str
    file: str
    first_line: int
    text: str

    @property
    def calls(self) -> set[str]:
        """Names of the functions that it calls, without their modules."""
        called = [node.func for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return {ast.unparse(function).rpartition(".")[2] for function in called}

    @property
    def tree(self) -> ast.FunctionDef:
        node = ast.parse(self.text).body[0]
        assert isinstance(node, ast.FunctionDef)
        return node


@cache
def functions(engine: str) -> tuple[Function, ...]:
    """The functions of an engine's policy, in the order of its file; empty where there is none."""
    try:
        module = importlib.import_module(f"sim.engines.{engine}")
    except ModuleNotFoundError:
        return ()
    return tuple(sorted(_functions_of(module), key=lambda one: one.first_line))


def _functions_of(module: ModuleType) -> Iterator[Function]:
    for name, value in vars(module).items():
        plain = getattr(value, "py_func", value)  # a compiled function keeps the one it came from
        if not inspect.isfunction(plain) or plain.__module__ != module.__name__:
            continue
        lines, first = inspect.getsourcelines(plain)
        text = textwrap.dedent("".join(lines)).rstrip("\n")
        yield Function(name, f"{module.__name__.replace('.', '/')}.py", first, text)


@cache
def deciding(engine: str) -> dict[str, tuple[int, tuple[int, ...]]]:
    """For each kind of stop the function and its lines, counted from 0, that decide it."""
    known = functions(engine)
    found = {}
    for kind, mark in MARKS.items():
        at = _find(known, mark)
        if at is not None:
            found[kind] = at
    at = _loop(known)
    if at is not None:
        found["stop_queue_empty"] = at
    return found


def _find(known: tuple[Function, ...], mark: Mark) -> tuple[int, tuple[int, ...]] | None:
    """The first of the statements with the mark's reason that fit the rest of the mark best."""
    fits: list[tuple[bool, bool, int, tuple[int, ...]]] = []
    for k, function in enumerate(known):
        place = _admits(function, known) != mark.admits and mark.admits is not None
        for parents, statement in _statements(function.tree):
            if _writes(statement, mark.reason):
                refusal = _refuses(parents, statement) != mark.refuses and mark.refuses is not None
                fits.append((refusal, place, k, _block(parents, statement)))
    return min(fits, key=lambda fit: fit[:2])[2:] if fits else None


def _admits(function: Function, known: tuple[Function, ...]) -> bool:
    """Does it admit waiting requests, or do only functions that admit them call it?"""
    callers = [one for one in known if function.name in one.calls and one is not function]
    by_callers = bool(callers) and all(one.calls & ADMITTING for one in callers)
    return by_callers or bool(function.calls & ADMITTING)


def _refuses(parents: tuple[ast.stmt, ...], statement: ast.stmt) -> bool:
    """Is a refusal recorded beside it, in the same block?"""
    inside = parents[-1] if parents else None
    beside = [statement]
    if isinstance(inside, ast.If):
        beside = inside.body if statement in inside.body else inside.orelse
    return any(
        isinstance(node, ast.Attribute) and node.attr == "record_refusal"
        for one in beside
        for node in ast.walk(one)
    )


def _writes(statement: ast.stmt, reason: str) -> bool:
    """Does a simple statement name the reason?"""
    if isinstance(statement, ast.If | ast.While | ast.For):
        return False
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == reason
        and isinstance(node.value, ast.Name)
        and node.value.id == "reasons"
        for node in ast.walk(statement)
    )


def _statements(
    node: ast.AST, parents: tuple[ast.stmt, ...] = ()
) -> Iterator[tuple[tuple[ast.stmt, ...], ast.stmt]]:
    """Every statement below a node with the statements that it stands in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield parents, child
            yield from _statements(child, (*parents, child))


def _block(parents: tuple[ast.stmt, ...], statement: ast.stmt) -> tuple[int, ...]:
    """The lines of a statement, of the plain ones right before it, and of the `if` around them."""
    last = (statement.end_lineno or statement.lineno) - 1
    inside = parents[-1] if parents else None
    if not isinstance(inside, ast.If):
        return tuple(range(statement.lineno - 1, last + 1))
    body = inside.body if statement in inside.body else inside.orelse
    first = statement.lineno - 1
    for before in reversed(body[: body.index(statement)]):
        if isinstance(before, ast.If | ast.While | ast.For):
            break
        first = before.lineno - 1
    condition = () if statement in inside.orelse else (inside.lineno - 1,)
    return (*condition, *range(first, last + 1))


def _loop(known: tuple[Function, ...]) -> tuple[int, tuple[int, ...]] | None:
    """The loop that tests whether a request waits."""
    for k, function in enumerate(known):
        for _, statement in _statements(function.tree):
            if isinstance(statement, ast.While) and QUEUE in ast.unparse(statement.test):
                return k, (statement.lineno - 1,)
    return None


@cache
def for_page(engine: str) -> dict[str, Any] | None:
    """What the inspector needs: the functions that decide something, and the marks by kind."""
    known, marks = functions(engine), deciding(engine)
    if not marks:
        return None
    used = sorted({k for k, _ in marks.values()})
    return {
        "functions": [
            {"name": f.name, "file": f.file, "line": f.first_line, "text": f.text}
            for f in (known[k] for k in used)
        ],
        "marks": {kind: [used.index(k), list(lines)] for kind, (k, lines) in marks.items()},
    }
