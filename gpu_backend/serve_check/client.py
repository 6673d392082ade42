"""Measure a server: send a workload to an OpenAI-compatible streaming endpoint and time it.

Open loop: every request is sent at its arrival time, independent of the answers. The clock is
this client's, in seconds from the start. Definitions, per request:

    TTFT   from sending to the first bytes with generated text, reasoning included
    E2E    from sending to the last bytes with generated text
    TPOT   (E2E - TTFT) / (output tokens - 1), as in vLLM's benchmark and AIPerf; GuideLLM's
    includes the TTFT
    ITL    gaps between chunks, for requests whose every chunk carried one token
    inter-chunk latency    the same gaps for any number of tokens per chunk

Output tokens are taken from the server's usage; without it a request has no TPOT and no ITL. Role,
null and usage chunks carry no token. Redirects are not followed.
"""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import numpy as np

from gpu_backend.prompts.synthetic import prompt_ids, prompt_text
from gpu_backend.serve_check.endpoint_policy import Endpoint, EndpointError
from gpu_backend.serve_check.request_timing import Outcome
from gpu_backend.serve_check.sse import DONE, EventReader, StreamError, error_text, read_chunk
from sim.workload.workload import Workload

__all__ = ["Caps", "Client", "check_workload", "measure"]

CONNECT_S = 5.0
POLL_S = 0.0625
MAX_ERROR_BODY = 65_536


@dataclass(frozen=True)
class Caps:
    """Limits of a measurement, independent of the server."""

    total_s: float = 600.0
    request_s: float = 300.0
    idle_s: float = 60.0  # without a byte
    response_bytes: int = 8 << 20
    concurrency: int = 64  # concurrent requests; more wait, and the run reports it
    requests: int = 2_000
    tokens: int = 5_000_000  # prompts and outputs of all


@dataclass
class Client:
    """How requests are sent. Tests pass their own clock and transport."""

    endpoint: Endpoint
    model: str | None = None  # None: the first one that the server lists
    ignore_eos: bool = True
    caps: Caps = Caps()
    clock: Callable[[], float] = time.perf_counter
    transport: httpx.AsyncBaseTransport | None = None

    def http(self) -> httpx.AsyncClient:
        """Without proxies, .netrc or redirects: only the endpoint is contacted."""
        headers = {"Accept-Encoding": "identity", "User-Agent": "batchscope"}
        if self.endpoint.key:
            headers["Authorization"] = f"Bearer {self.endpoint.key}"
        return httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(self.caps.idle_s, connect=CONNECT_S, pool=None),
            limits=httpx.Limits(max_keepalive_connections=8),
            follow_redirects=False,
            trust_env=False,
            transport=self.transport,
        )

    def body(self, workload: Workload, i: int, model: str) -> dict[str, Any]:
        """The request body for row i of a workload."""
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": int(workload.output_len[i]),
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if self.ignore_eos:
            body["ignore_eos"] = True
        if self.endpoint.api == "chat":
            content = prompt_text(workload, i)
            return body | {"messages": [{"role": "user", "content": content}]}
        return body | {"prompt": prompt_ids(workload, i)}


def check_workload(workload: Workload, caps: Caps) -> None:
    """Refuse a workload that cannot be sent open loop or exceeds the caps."""
    if not np.isfinite(workload.arrival_s).all():
        raise EndpointError("a closed loop has no arrival times; an open-loop class is needed")
    if len(workload) > caps.requests:
        raise EndpointError(f"{len(workload):,} requests; at most {caps.requests:,} are sent")
    tokens = workload.total_prompt_tokens + workload.total_output_tokens
    if tokens > caps.tokens:
        raise EndpointError(f"{tokens:,} tokens in all; at most {caps.tokens:,} are asked for")
    last_s = float(workload.arrival_s.max(initial=0.0))
    if last_s > caps.total_s:
        raise EndpointError(f"the last request arrives at {last_s:g} s; at most {caps.total_s:g} s")


# --- one run --------------------------------------------------------------------------------------


async def measure(
    client: Client,
    workload: Workload,
    *,
    progress: Callable[[int, int], None] = lambda done, total: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[str, list[Outcome]]:
    """(the model measured, one outcome per request). EndpointError where no request can be sent;
    errors of a single request are in its outcome."""
    check_workload(workload, client.caps)
    async with client.http() as http:
        model = client.model or await first_model(client, http)
        outcomes = [Outcome(i, float(s)) for i, s in enumerate(workload.arrival_s)]
        start = client.clock()
        places = asyncio.Semaphore(client.caps.concurrency)
        tasks = [
            asyncio.create_task(send(client, http, workload, outcome, model, start, places))
            for outcome in outcomes
        ]
        try:
            why = await watch(client, tasks, start, progress, cancelled)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome, result in zip(outcomes, results, strict=True):
            if isinstance(result, asyncio.CancelledError):
                outcome.end("cancelled", why)
            elif result is not None:
                raise result
    return model, outcomes


async def watch(
    client: Client,
    tasks: list[asyncio.Task[None]],
    start: float,
    progress: Callable[[int, int], None],
    cancelled: Callable[[], bool],
) -> str | None:
    """Return when all requests ended, the run is cancelled, or the time is up; the latter two
    cancel the remaining requests."""
    told = -1
    while True:
        done = sum(task.done() for task in tasks)
        if done != told:
            progress(done, len(tasks))
            told = done
        if done == len(tasks) or cancelled():
            return None
        if client.clock() - start > client.caps.total_s:
            return f"the run ended after {client.caps.total_s:g} s"
        await asyncio.wait(
            [task for task in tasks if not task.done()],
            timeout=POLL_S,
            return_when=asyncio.FIRST_COMPLETED,
        )


async def send(
    client: Client,
    http: httpx.AsyncClient,
    workload: Workload,
    outcome: Outcome,
    model: str,
    start: float,
    places: asyncio.Semaphore,
) -> None:
    """One request, from its arrival to its end."""
    content = json.dumps(client.body(workload, outcome.index, model)).encode()
    patience = float(workload.abort_after_s[outcome.index])
    try:
        await asyncio.sleep(max(0.0, outcome.arrival_s - (client.clock() - start)))
        async with places:
            outcome.sent_s = client.clock() - start
            async with asyncio.timeout(min(client.caps.request_s, patience)):
                await receive(client, http, content, outcome, start)
    except TimeoutError:
        if patience <= client.caps.request_s:
            outcome.end("aborted")
        else:
            outcome.end("failed", f"not finished after {client.caps.request_s:g} s")
    except (httpx.HTTPError, StreamError) as error:
        outcome.end("failed", client.endpoint.without_key(told(error, outcome, client.caps)))


async def receive(
    client: Client, http: httpx.AsyncClient, content: bytes, outcome: Outcome, start: float
) -> None:
    """Send one request and read its stream to [DONE]."""
    headers = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    url = client.endpoint.url
    async with http.stream("POST", url, content=content, headers=headers) as response:
        await check_response(response)
        reader, size = EventReader(), 0
        async for received in response.aiter_raw():
            moment = client.clock() - start
            size += len(received)
            if size > client.caps.response_bytes:
                raise StreamError(f"more than {client.caps.response_bytes:,} bytes")
            for event in reader.feed(received, moment):
                if take_event(outcome, event):
                    return
        for event in reader.close():
            if take_event(outcome, event):
                return
    if outcome.finish_reason is None:
        raise StreamError("the stream ended without finish_reason and [DONE]")
    finish(outcome)


def take_event(outcome: Outcome, event: tuple[str, str, float]) -> bool:
    """Record one event; returns whether it is the last."""
    name, data, moment = event
    if data.strip() != DONE:
        outcome.take(read_chunk(name, data), moment)
        return False
    outcome.done = True
    finish(outcome)
    return True


def finish(outcome: Outcome) -> None:
    """Refuse an answer without a token."""
    if not outcome.chunk_s:
        raise StreamError("the stream ended without any generated text")
    outcome.end("finished")


async def check_response(response: httpx.Response) -> None:
    """Refuse a response that is not a stream of completions, with the server's message if there is
    one."""
    if response.is_redirect:
        raise StreamError(f"HTTP {response.status_code} redirects elsewhere; it is not followed")
    if response.status_code != httpx.codes.OK:
        raise StreamError(f"HTTP {response.status_code}: {await body_text(response)}")
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "text/event-stream":
        raise StreamError(f"the answer is {kind or 'of no type'}, not a text/event-stream")
    if response.headers.get("content-encoding", "identity") != "identity":
        raise StreamError("the answer is compressed, which was not requested")


async def body_text(response: httpx.Response) -> str:
    """The beginning of an error's body as its message."""
    body = b""
    async for received in response.aiter_raw():
        body += received
        if len(body) > MAX_ERROR_BODY:
            break
    try:
        return error_text(json.loads(body))
    except ValueError:
        return error_text(body.decode("utf-8", "replace").strip() or "no reason given")


def told(error: Exception, outcome: Outcome, caps: Caps) -> str:
    """The error of a request, in words."""
    chunks = f"after {len(outcome.chunk_s)} chunks"
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return f"no connection: {error or 'timed out'}"
    if isinstance(error, httpx.TimeoutException):
        return f"no data for {caps.idle_s:g} s, {chunks}"
    if isinstance(error, httpx.HTTPError):
        return f"the connection was lost {chunks}: {error or type(error).__name__}"
    return str(error)


async def first_model(client: Client, http: httpx.AsyncClient) -> str:
    """The model that the server lists first."""
    try:
        async with http.stream("GET", f"{client.endpoint.base}/models") as response:
            if response.is_redirect or response.status_code != httpx.codes.OK:
                raise EndpointError(
                    f"GET /models answers HTTP {response.status_code}; name the model instead"
                )
            body = b""
            async for received in response.aiter_raw():
                body += received
                if len(body) > client.caps.response_bytes:
                    raise EndpointError("GET /models never ends; name the model instead")
        return str(json.loads(body)["data"][0]["id"])
    except httpx.HTTPError as error:
        words = client.endpoint.without_key(str(error) or type(error).__name__)
        raise EndpointError(f"no answer from {client.endpoint.base}: {words}") from None
    except (ValueError, KeyError, IndexError, TypeError) as error:
        words = "GET /models lists no model; name the model instead"
        raise error if isinstance(error, EndpointError) else EndpointError(words) from None
