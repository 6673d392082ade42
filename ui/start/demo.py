"""The runs behind the start page: four long chats, and a document that arrives when it is sent."""

from dataclasses import dataclass

import numpy as np

from sim.results.run import Result, simulate
from sim.scenario.load import Scenario, parse_scenario
from ui.chat_windows import Show, Way
from ui.scenarios import presets
from ui.scenarios.settings import itl_limit_s
from ui.text.comparison import gpu_name
from ui.text.run_summary import longest_prompt
from ui.text.units import count, seconds

DOCUMENT_TOKENS = 8000
CHAT_TOKENS = 900  # of each chat's answer: about 17 s of typing


@dataclass(frozen=True)
class Dial:
    """A way to run prompts, by the budget of a step."""

    name: str
    budget: int


WAYS = (Dial("Whole prompts", 8192), Dial("Chunks of 512", 512))


def scenario(budget: int, sent_s: float | None) -> Scenario:
    """The default preset with longer chats; the document comes at `sent_s`, or never."""
    data = presets.scenario_of(presets.TOKEN_BUDGET[0].id).model_dump(mode="json")
    chat, document = data["workload"]["classes"]
    chat["arrivals"]["times_s"] = [0.0, 0.0, 0.0, 0.0]
    chat["output"] = {"kind": "fixed", "tokens": CHAT_TOKENS}
    document["prompt"] = {"kind": "fixed", "tokens": DOCUMENT_TOKENS}
    if sent_s is not None:
        document["arrivals"]["times_s"] = [sent_s]
    data["workload"]["classes"] = [chat] if sent_s is None else [chat, document]
    data["replicas"][0]["policy"]["max_num_batched_tokens"] = budget
    return parse_scenario(data)


def token_times(result: Result) -> list[list[float]]:
    """When each token of each request reached its reader, in s, request by request."""
    recording = result.recording
    step = np.repeat(np.arange(len(recording.steps)), recording.steps.num_items)
    emits = recording.items.num_tokens == recording.items.num_needed
    end = (recording.steps.start_s + recording.steps.duration_s)[step[emits]]
    request = recording.items.request[emits]
    return [
        np.round(np.sort(end[request == r]), 4).tolist() for r in range(len(recording.requests))
    ]


def show(sent_s: float | None) -> Show:
    """Everything that the windows play."""
    ways, replica = [], scenario(WAYS[0].budget, None).replicas[0]
    limit_s, worst = 0.0, []
    for way in WAYS:
        result = simulate(scenario(way.budget, sent_s))
        limit_s = itl_limit_s(result.scenario)
        first = result.recording.requests.num_prompt_tokens < DOCUMENT_TOKENS
        times = [times for times, chat in zip(token_times(result), first, strict=True) if chat]
        longest = longest_prompt(result) if sent_s is not None else None
        done = None
        if longest is not None and sent_s is not None:
            done = sent_s + longest.ttft_s
        ways.append(Way(way.name, times, done))
        worst.append((float(result.summary["itl_s"]["max"]), (done or 0.0) - (sent_s or 0.0)))
    server = f"{replica.model} on one {gpu_name(replica.gpu or '')}, vLLM V1's scheduler, simulated"
    told = figures(worst, limit_s) if sent_s is not None else []
    return Show(tuple(ways), sent_s, DOCUMENT_TOKENS, limit_s, server, told)


def figures(worst: list[tuple[float, float]], limit_s: float) -> list[tuple[str, str]]:
    """What the document did to the chats, both ways: (longest gap, TTFT of the document), s."""
    (whole, first), (chunked, late) = worst
    tone = "decode" if chunked <= limit_s else "stall"
    return [
        (
            f"Whole, its {count(DOCUMENT_TOKENS)} tokens take one step: all chats freeze ",
            "",
        ),
        (f"for {seconds(whole)}", "stall"),
        (". In chunks of 512 no chat waits ", ""),
        (f"more than {seconds(chunked)}", tone),
        (", and the document's first token comes ", ""),
        (f"after {seconds(late)} instead of {seconds(first)}", "prefill"),
        (".", ""),
    ]
