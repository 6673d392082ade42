"""A choice as the query of an address, and back: pure functions, every problem in words.

`v=1`, the preset, and only what was changed in it; `pin` and `pin.*` say the same of the pinned
run. Names are short and stay: an address in a handout must open next year.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ui.scenarios import gpu_choice, presets
from ui.scenarios.run import (
    BUDGET_LEAST,
    BUDGET_MOST,
    CAP_LEAST,
    CAP_MOST,
    Choice,
    Dials,
    Run,
    UploadRef,
    start_of,
)
from ui.scenarios.settings import Settings
from ui.shell import query_values as values
from ui.shell.query_values import shortened
from ui.timeline import View

VERSION = "1"
MOST = 1500  # characters in the query of an address
NAME_MOST = 60  # characters in the name of a file's name
CONTROLS = (
    "presets", "settings", "budget", "cap", "compare", "predict", "play", "view", "figures", "take",
)  # fmt: skip
PIN = "pin"


class LinkError(ValueError):
    """An address that cannot be read whole: `problems` by key, `rest` without those keys."""

    def __init__(self, problems: Mapping[str, str], rest: Mapping[str, str]):
        super().__init__("; ".join(problems.values()))
        self.problems = dict(problems)
        self.rest = dict(rest)


@dataclass(frozen=True)
class Frame:
    """How a page is framed: which controls are left (None: all), how large it is drawn."""

    shown: tuple[str, ...] | None = None
    scale: float = 1.0


@dataclass(frozen=True)
class Opened:
    """What an address says. `choice` is None where it names no preset."""

    choice: Choice | None
    view: View | None
    frame: Frame


_COUNT = values.either("auto", None, values.whole(1, 10_000_000))
# key in an address: (field of Settings, how it is read)
SETTINGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "model": ("model", values.model),
    "gpu": ("gpu", gpu_choice.read),
    "chunking": ("chunking", values.switch),
    "seqs": ("max_num_seqs", values.either("auto", None, values.whole(1, 65_536))),
    "length": ("max_model_len", _COUNT),
    "blocks": (
        "num_gpu_blocks",
        values.either("auto", None, values.whole(2, 8_000_000)),
    ),
    "cache": ("prefix_caching", values.switch),
    "rate": ("rate_per_s", values.number(0.001, 1e6)),
    "time": ("time_scale", values.number(0.001, 1e6)),
    "seed": ("seed", values.whole(0, 2**31)),
    "limit": ("itl_limit_s", values.number(1e-3, 60)),
}
DIALS: dict[str, Callable[[str], int]] = {
    "budget": values.whole(BUDGET_LEAST, BUDGET_MOST),
    "cap": values.either("off", 0, values.whole(CAP_LEAST, CAP_MOST)),
}
assert {field for field, _ in SETTINGS.values()} == {field.name for field in fields(Settings)}


# --- writing --------------------------------------------------------------------------------------


def write(choice: Choice, frame: Frame | None = None) -> dict[str, str]:
    """The query of a choice: what differs from the preset, of both runs."""
    query = {"v": VERSION, "preset": choice.run.preset, **_differences(choice.run)}
    if choice.upload is not None:
        query |= {"file": choice.upload.name[:NAME_MOST], "sha256": choice.upload.sha256}
        if choice.upload.rate_per_s is not None:
            query["file_rate"] = values.say(choice.upload.rate_per_s)
    if choice.pinned is not None:
        query[PIN] = choice.pinned.preset
        query |= {f"{PIN}.{key}": text for key, text in _differences(choice.pinned).items()}
    return query | (write_frame(frame) if frame is not None else {})


def write_frame(frame: Frame) -> dict[str, str]:
    """How a page is framed, as keys of an address."""
    query = {"v": VERSION}
    if frame.shown is not None:
        query |= {"lock": "1", "show": ",".join(frame.shown)}
    if frame.scale != 1:
        query["scale"] = values.say(frame.scale)
    return query


def _differences(run: Run) -> dict[str, str]:
    start = start_of(run.preset)
    changed = {}
    if run.dials.budget != start.dials.budget:
        changed["budget"] = str(run.dials.budget)
    if run.dials.cap != start.dials.cap:
        changed["cap"] = str(run.dials.cap) if run.dials.cap else "off"
    for key, (field, _) in SETTINGS.items():
        value = getattr(run.settings, field)
        usual = getattr(start.settings, field)
        if field == "time_scale":  # a file's own; presets have none
            usual = 1.0 if value is not None else None
        if run.preset == presets.YOUR_TRACE.id and field == "rate_per_s":
            continue
        if value != usual:
            changed[key] = values.say(value)
    return changed


# --- reading --------------------------------------------------------------------------------------


def read(query: Mapping[str, str]) -> Opened:
    """What an address says. LinkError names every key that it cannot follow; none is dropped."""
    problems: dict[str, str] = {}
    taken: set[str] = set()

    def value(key: str, parse: Callable[[str], Any], default: Any = None) -> Any:
        taken.add(key)
        if key not in query:
            return default
        try:
            return parse(query[key])
        except ValueError as error:
            problems[key] = f"{key} must be {error}; it is {shortened(query[key])}"
            return default

    size = sum(len(key) + len(text) + 2 for key, text in query.items())
    if size > 2 * MOST:
        words = f"The address has {size:,} characters; a link of these pages has at most {MOST:,}"
        raise LinkError({"": words}, {})
    value("v", values.name(lambda: (VERSION,), "version"), VERSION)
    preset = value("preset", values.name(_preset_ids, "preset"))
    if "v" in problems:
        problems["v"] = f"version {shortened(query['v'])}: this page reads version {VERSION}"
    run = _read_run(preset, "", value) if preset else None
    pin = value(PIN, values.name(_preset_ids, "preset"))
    pinned = _read_run(pin, f"{PIN}.", value) if pin else None
    upload = _read_upload(query, value)
    view = View(
        value("step", values.whole(0, 100_000_000)), *value("view", _view, (None, 0.0, 0.0))
    )
    shown = value("show", _controls, ())
    frame = Frame(
        shown if value("lock", _switch_number, False) else None,
        value("scale", values.number(0.5, 3), 1.0),
    )
    lone = [key for key in ("show",) if key in query and "lock" not in query]
    problems |= {key: f"{key} belongs to lock=1, which is missing" for key in lone}
    if upload is not None and preset not in (presets.YOUR_TRACE.id, None):
        problems["file"] = f"file belongs to preset={presets.YOUR_TRACE.id}"
    for key in query:
        if key not in taken and key not in problems:
            problems[key] = _unknown(key, preset, pin)
    if problems:
        raise LinkError(problems, {key: text for key, text in query.items() if key not in problems})
    choice = Choice(run, pinned, upload) if run is not None else None
    return Opened(choice, view if view != View() else None, frame)


def _unknown(key: str, preset: str | None, pin: str | None) -> str:
    """What to say of a key that nothing read."""
    name = key.removeprefix(f"{PIN}.")
    if name in SETTINGS or name in DIALS:
        if (pin if key != name else preset) is None:
            owner = PIN if key != name else "preset"
            return f"{key} cannot be followed without {owner}="
        return f"{key} is no setting of this preset"
    return f"{shortened(key)} means nothing here"


def _read_run(preset: str, prefix: str, value: Callable[..., Any]) -> Run:
    run = start_of(preset)
    dials = Dials(
        value(prefix + "budget", DIALS["budget"], run.dials.budget),
        value(prefix + "cap", DIALS["cap"], run.dials.cap),
    )
    changed = {}
    for key, (field, parse) in SETTINGS.items():
        usual = getattr(run.settings, field)
        if field == "time_scale" and preset == presets.YOUR_TRACE.id:
            usual = 1.0
        elif usual is None and field in ("model", "gpu", "rate_per_s", "time_scale"):
            continue  # not a setting of this preset: the key stays unknown
        changed[field] = value(prefix + key, parse, usual)
    if preset == presets.YOUR_TRACE.id:
        changed["rate_per_s"] = None
    return Run(preset, replace(run.settings, **changed), dials)


def _read_upload(query: Mapping[str, str], value: Callable[..., Any]) -> UploadRef | None:
    name = value("file", _file_name)
    sha256 = value("sha256", _sha256)
    rate = value("file_rate", values.number(0.001, 1e6))
    return UploadRef(name, sha256, rate) if name and sha256 else None


def _preset_ids() -> tuple[str, ...]:
    return tuple(preset.id for preset in (*presets.TOKEN_BUDGET, presets.YOUR_TRACE))


def _switch_number(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("0 or 1")
    return text == "1"


def _controls(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(","))) if text else ()
    if any(name not in CONTROLS for name in names):
        raise ValueError(f"a list of {', '.join(CONTROLS)}")
    return names


def _file_name(text: str) -> str:
    if not text or len(text) > NAME_MOST or not text.isprintable():
        raise ValueError(f"a file name of at most {NAME_MOST} characters")
    return text


def _sha256(text: str) -> str:
    if len(text) != 64 or any(c not in "0123456789abcdef" for c in text):
        raise ValueError("64 hexadecimal digits")
    return text


def _view(text: str) -> tuple[str, float, float]:
    axis, *ends = text.split(",")
    try:
        if axis not in ("time", "step") or len(ends) != 2:
            raise ValueError
        start, end = (values.number(-1e9, 1e9)(part) for part in ends)
        if end <= start:
            raise ValueError
    except ValueError:
        raise ValueError("time or step, a start and a later end, such as time,0.5,3") from None
    return axis, start, end
