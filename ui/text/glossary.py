"""One-line definitions, in one place: tooltips of every page and the glossary of the reference."""

import html
import re

TERMS = {
    "TTFT": "Time to first token: from a request's arrival to its first output token, "
    "waiting included.",
    "ITL": "Inter-token latency: the gap between two consecutive output tokens of one request.",
    "TPOT": "Time per output token: the mean gap of one request, from its first token to its last.",
    "E2E": "End to end: from a request's arrival to its last token.",
    "prefill": "Computing the tokens of a prompt, all of them before the first output token.",
    "decode": "Computing one output token of a running request; each step gives it one more.",
    "step": "One pass of the model: the scheduler picks tokens, the GPU computes them all at once.",
    "token budget": "The most tokens that one step may compute, prefill and decode together "
    "(max_num_batched_tokens).",
    "chunked prefill": "Splitting a prompt over several steps, so that decodes of others keep "
    "their place in each of them.",
    "chunk": "The part of a prompt that one step computes.",
    "cap": "The most prompt tokens that one request may take in one step "
    "(long_prefill_token_threshold).",
    "KV cache": "Keys and values of every token computed so far: what attention reads, and what "
    "fills the GPU's memory.",
    "KV block": "The unit in which KV memory is allocated: 16 tokens by default.",
    "preemption": "Taking a running request's KV blocks away; it is computed again later.",
    "prefix caching": "Reusing KV blocks of an earlier prompt that starts with the same tokens.",
    "max_num_seqs": "The most requests that may run at once.",
    "max_model_len": "The most tokens, prompt and output together, that one request may have.",
    "queue": "Requests that have arrived and have no token scheduled yet.",
    "goodput": "Requests per second that finish and meet every limit that was set.",
    "disaggregation": "Prefill on some servers, decode on others; the KV cache travels between "
    "them.",
    "head-of-line blocking": "A short request waits because a long one is being served.",
    "SLO": "Service-level objective: the limits on TTFT and ITL that a service promises.",
    "roofline": "A step cannot be faster than its arithmetic at the GPU's peak, nor than its bytes "
    "at the memory's bandwidth; the larger of both rules.",
}  # fmt: skip
_MARK = re.compile(r"\[\[([^\]|]+)(?:\|([^\]]+))?\]\]")

STYLE = """<style>
.bs-term { position: relative; border-bottom: 1px dotted currentColor; cursor: help; }
.bs-term:focus-visible { outline: 2px solid currentColor; outline-offset: 2px; border-radius: 2px; }
.bs-term > span { display: none; position: absolute; z-index: 20; left: 0; top: calc(100% + 6px);
  width: max-content; max-width: min(320px, 70vw); padding: 6px 10px; border-radius: 8px;
  background: #16181d; color: #ffffff; font: 400 13px/1.45 sans-serif; text-align: left;
  pointer-events: none; }
.bs-term:hover > span, .bs-term:focus > span { display: block; }
.bs-text { margin: 0; line-height: 1.5; max-width: 56rem; opacity: .78; }
.bs-text:has(:focus), .bs-text:hover { opacity: 1; }
.bs-words { display: grid; grid-template-columns: fit-content(14rem) minmax(0, 1fr); margin: 0;
  line-height: 1.5; max-width: 60rem; }
.bs-words > div { display: contents; }
.bs-words dt { font-weight: 600; padding: 6px 24px 6px 0; }
.bs-words dd { margin: 0; padding: 6px 0; }
@media (max-width: 640px) { .bs-words { display: block; } .bs-words dt { padding-bottom: 0; } }
</style>"""


def marked(text: str, css_class: str = "bs-text") -> str:
    """HTML of a sentence in which [[term]] or [[words|term]] shows its definition on hover, focus
    and tap. Everything else is text."""

    def term(match: re.Match[str]) -> str:
        words, name = match.group(1), match.group(2) or match.group(1)
        tip = html.escape(TERMS[name])
        return f'<span class="bs-term" tabindex="0">{words}<span role="tooltip">{tip}</span></span>'

    return f'<p class="{css_class}">{_MARK.sub(term, html.escape(text))}</p>'


def as_list() -> str:
    """All words with their meanings, as HTML."""
    rows = (
        f"<div><dt>{html.escape(word)}</dt><dd>{html.escape(meaning)}</dd></div>"
        for word, meaning in TERMS.items()
    )
    return f'<dl class="bs-words">{"".join(rows)}</dl>'
