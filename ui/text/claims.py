"""What is often said of LLM serving and what of it holds, each with the page that shows it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """A claim, what holds, and the url path of the page that shows it ("" while there is none)."""

    claim: str
    holds: str
    page: str = ""


CLAIMS = (
    Claim(
        "Without chunked prefill, decodes get no token while a prompt runs.",
        "That was the case in vLLM V0. In V1 they share one longer step: each still gets its "
        "token, late. A prompt that does not fit what is left of the budget waits, and holds up "
        "those behind it.",
        "token_budget",
    ),
    Claim(
        "With chunked prefill, decode is never paused and ITL is even.",
        "A step with a chunk is longer, and decodes can be preempted. The p99 of ITL can get "
        "worse while the maximum falls: on an RTX 4090 at a low arrival rate p99 rose from 13.9 "
        "to 83 ms while the maximum fell from 565 to 99 ms.",
        "token_budget",
    ),
    Claim(
        "Chunked prefill raises throughput 2.5 to 4 times.",
        "It raises the capacity under a latency limit. Offline throughput hardly moves.",
        "token_budget",
    ),
    Claim(
        "A larger budget always improves TTFT.",
        "For one prompt it does. In a burst, prompts computed together delay each other: n equal "
        "prompts served in turns all finish at n; one after the other they finish at (n + 1) / 2 "
        "on average.",
        "token_budget",
    ),
    Claim(
        "Recomputing beats swapping below 4,096 tokens.",
        "It depends on model, tensor parallelism and link. For a 70B model, 4,096 tokens are 1.34 "
        "GB of KV; over 8 GPUs each moves 0.17 GB over its own PCIe, 6 ms there and back, while "
        "computing them again takes about 145 ms on 8 H100 at half their peak.",
        "kv_memory",
    ),
    Claim(
        "100 Gb/s makes disaggregation pointless.",
        "1.34 GB take 107 ms, but the prefill of those tokens takes longer and the transfer can "
        "overlap it. In measured hand-overs of 197 to 263 ms only 29 ms were bytes.",
        "disaggregation",
    ),
    Claim(
        "Decode stays below 1 FLOP per byte.",
        "About 1 for a batch of one in FP16, and it grows about linearly with the batch where the "
        "weights are concerned. Attention over the KV cache stays near 1 times the GQA group.",
        "two_phases",
    ),
    Claim(
        "Disaggregation is always better.",
        "It is often slower than an aggregated engine with the same GPUs at moderate load.",
        "disaggregation",
    ),
    Claim(
        "A prefix hit is free.",
        "Only whole blocks hit, the last token is always computed, and blocks must still be "
        "allocated.",
        "kv_memory",
    ),
    Claim(
        "This is called cellular batching.",
        "That is BatchMaker (EuroSys'18), another idea. Orca's term is iteration-level scheduling.",
    ),
)
