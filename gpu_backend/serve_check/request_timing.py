"""The timing of one request to a server."""

from dataclasses import dataclass, field

from gpu_backend.serve_check.sse import Chunk

__all__ = ["Outcome"]


@dataclass
class Outcome:
    """The timing and the end of one request. Times are seconds from the start of the run."""

    index: int
    arrival_s: float
    sent_s: float | None = None
    chunk_s: list[float] = field(default_factory=list)  # of chunks with generated text
    first_visible_s: float | None = None  # after the reasoning
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    done: bool = False  # whether [DONE] was received
    status: str = "waiting"  # finished, failed, aborted (by the workload), cancelled
    error: str | None = None

    def take(self, chunk: Chunk, moment: float) -> None:
        """Record one chunk."""
        if chunk.generated:
            self.chunk_s.append(moment)
        if chunk.text and self.first_visible_s is None:
            self.first_visible_s = moment
        self.finish_reason = chunk.finish_reason or self.finish_reason
        for name in ("prompt_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"):
            value = getattr(chunk, name)
            if value is not None:
                setattr(self, name, value)

    def end(self, status: str, error: str | None = None) -> None:
        self.status, self.error = status, error
