"""What goes along with a packet and may change without it: words, dials, buttons. Plain JSON."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ui.scenarios.run import Dials
from ui.text.suggested_fixes import Button, Problem
from ui.text.units import Parts


@dataclass(frozen=True)
class Question:
    """Predict first: a question with its answers, or, once answered, what came out."""

    text: Parts
    answers: tuple[Button, ...] = ()


@dataclass(frozen=True)
class Compare:
    """The bar under the picture: what is pinned (None: nothing), and what one click does."""

    pinned: str | None
    buttons: tuple[Button, ...]


@dataclass(frozen=True)
class View:
    """Where a link opens the picture: the step under the head, the stretch in view."""

    step: int | None = None
    axis: str | None = None  # time, step
    start: float = 0.0
    end: float = 0.0


@dataclass(frozen=True)
class Envelope:
    """`epoch` grows when a preset or setting was chosen: it wins over a drag on its way. `story`
    names the workload: another one moves the view to its interesting part, or to `view`.
    `refused_below` marks the part of the budget's track that the engine refuses. `link` is the
    query of the page's address, `shown` the controls that are left (None: all), `caption` stands
    under the saved picture.
    """

    dials: Dials
    epoch: int
    story: str
    sentence: Parts = field(default_factory=list)
    settings: list[Parts] = field(default_factory=list)
    refused_below: int | None = None
    problem: Problem | None = None
    compare: Compare | None = None
    question: Question | None = None
    view: View | None = None
    link: str = ""
    caption: str = ""
    shown: tuple[str, ...] | None = None
    terms: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, Any] | None = None


def enclose(envelope: Envelope, seq: int) -> bytes:
    """The envelope as length and JSON; `seq` is the number of the browser's message it answers."""
    content = {name: value for name, value in asdict(envelope).items() if name != "refused_below"}
    content |= {"seq": seq, "refused": {"budget": envelope.refused_below}}
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    return len(text).to_bytes(4, "little") + text
