"""Constants of the roofline from a table of step times: `make calibrate TABLE=... ALLREDUCE=...`.

Reads the rows of each GPU and precision, fits them and writes the constants and their errors: least
squares on the logarithm of predicted over measured, soft L1, through the same kernel that the
simulator runs (`model.steps_seconds`). No constant is specific to a model or a row. Errors are on
the rows of the fit, their 90th percentile, and on the rows of each model left out.

A GPU without rows gets `default`: the geometric mean of all calibrated GPUs at that precision; its
error is the error of that mean on each of them. Columns of the table: sim/latency/table.py.
"""

import csv
import datetime
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from sim.core.recording import STEP
from sim.hardware import catalog
from sim.latency import efficiency
from sim.latency import inputs as latency_inputs
from sim.latency.model import ALLREDUCE_POINTS, steps_seconds
from sim.latency.table import measured_ms, step_of, whole

__all__ = ["FITTED", "calibrate", "write_all_reduce"]

Floats = NDArray[np.float64]

# name: (start, least, most)
FITTED = {
    "mfu": (0.7, 0.2, 1.0),
    "mfu_half_tokens": (20.0, 0.1, 2000.0),
    "attention_mfu": (0.5, 0.05, 1.0),
    "mbu_weights": (0.8, 0.3, 1.0),
    "mbu_kv": (0.8, 0.2, 1.0),
    "activation_passes": (1.5, 0.01, 6.0),
    "launch_s_per_layer": (2e-5, 1e-7, 3e-4),
    "fixed_s": (1e-4, 1e-6, 5e-3),
    "smooth_exponent": (3.0, 1.0, 12.0),
    "allreduce_scale": (1.0, 0.5, 2.0),
}
# With fewer rows than this, only the first constants are fitted; the others come from `default`.
FEW_ROWS = 40
FEW_FITTED = ("mfu", "attention_mfu", "mbu_weights", "mbu_kv", "activation_passes")
Row = Mapping[str, str]
# Sums of kernels of one engine, best first; a GPU is fitted to the first source that has rows.
SOURCES = ("aiconfigurator-0.12.0/vllm", "LLMServingSim")


# --- rows -----------------------------------------------------------------------------------------


# --- one fit --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """The rows of one model at one tensor-parallel size: they share one LATENCY row."""

    model: str
    latency: Any
    activation_bytes: float
    num_layers: int
    steps: Any
    seconds: Floats  # measured


@dataclass(frozen=True)
class Fit:
    """Constants of one GPU at one precision and their errors, as shares of the measured time."""

    constants: dict[str, float]
    num_rows: int
    reach: dict[str, int]  # the largest step, batch and context among the rows
    mean_error: float
    p90_error: float
    left_out_error: float | None  # None with fewer than two models
    source: str


def log_errors(groups: Iterable[Group], constants: Mapping[str, float]) -> Floats:
    """log(predicted / measured) of every row."""
    parts = []
    for group in groups:
        latency_inputs.set_efficiency(
            group.latency, constants, group.activation_bytes, group.num_layers
        )
        predicted = np.empty(len(group.seconds))
        steps_seconds(group.latency, group.steps, predicted)
        parts.append(np.log(predicted / group.seconds))
    return np.concatenate(parts)


def fit(groups: list[Group], names: Iterable[str], others: Mapping[str, float]) -> dict[str, float]:
    """The constants `names` that fit the groups best; the rest stay as in `others`."""
    names = list(names)
    start, least, most = (np.log([FITTED[name][k] for name in names]) for k in range(3))

    def constants(point: Floats) -> dict[str, float]:
        return {**others, **dict(zip(names, np.exp(point).tolist(), strict=True))}

    found = least_squares(
        lambda point: log_errors(groups, constants(point)),
        start,
        bounds=(least, most),
        loss="soft_l1",
        f_scale=0.05,
        max_nfev=400,
    )
    return constants(found.x)


def reach_of(groups: Iterable[Group]) -> dict[str, int]:
    """The largest values in the rows: tokens and decodes per step, tokens that a request attends
    to."""
    tokens = batch = context = 0
    for group in groups:
        steps = group.steps
        tokens = max(tokens, int((steps.num_prefill_tokens + steps.num_decodes).max()))
        batch = max(batch, int(steps.num_decodes.max()))
        attended = steps.decode_context // np.maximum(steps.num_decodes, 1)
        context = max(context, int(attended.max()), int(steps.prefill_context.max()))
    return {"max_tokens": tokens, "max_batch": batch, "max_context": context}


def rounded(constants: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in constants.items()}


def relative(errors: Floats) -> Floats:
    return np.abs(np.expm1(errors))


def fit_with_errors(
    groups: list[Group], names: Iterable[str], others: Mapping[str, float], source: str
) -> Fit:
    """The fit to all groups, and for each model the error of a fit without it."""
    constants = rounded(fit(groups, names, others))
    errors = relative(log_errors(groups, constants))
    models = sorted({group.model for group in groups})
    left_out = []
    for name in models if len(models) > 1 else []:
        without = fit([group for group in groups if group.model != name], names, others)
        left_out.append(log_errors([g for g in groups if g.model == name], without))
    return Fit(
        constants=constants,
        num_rows=len(errors),
        reach=reach_of(groups),
        mean_error=float(errors.mean()),
        p90_error=float(np.quantile(errors, 0.9)),
        left_out_error=float(relative(np.concatenate(left_out)).mean()) if left_out else None,
        source=source,
    )


# --- tables ---------------------------------------------------------------------------------------


def read_rows(path: Path) -> dict[tuple[str, str], list[Row]]:
    """Measured rows by (GPU, precision), of the best source that has any."""
    found: dict[tuple[str, str, str], list[Row]] = {}
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for row in csv.DictReader(stream):
            source = next((name for name in SOURCES if row["source"].startswith(name)), None)
            if source is None or measured_ms(row) is None or whole(row, "tp") > 8:
                continue
            try:
                gpu, precision = catalog.gpu(row["gpu"]), catalog.precision(row["precision"])
                catalog.model(row["model"])
            except ValueError:
                continue
            if source != SOURCES[0] and whole(row, "tp") > 1:
                continue  # these rows use an older all-reduce
            found.setdefault((gpu.name, precision, source), []).append(row)
    best: dict[tuple[str, str], list[Row]] = {}
    for source in SOURCES:
        for (gpu_name, precision, other), rows in found.items():
            if other == source:
                best.setdefault((gpu_name, precision), rows)
    return best


def groups_of(gpu_name: str, precision: str, rows: Iterable[Row]) -> list[Group]:
    """The rows as groups of steps, each with the LATENCY row of its model and size."""
    gpu = catalog.gpu(gpu_name)
    sorted_rows: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        key = catalog.model(row["model"]).name, whole(row, "tp")
        sorted_rows.setdefault(key, []).append(row)
    groups = []
    for (name, tp), members in sorted_rows.items():
        model = catalog.model(name)
        latency = latency_inputs.hardware_row(model, gpu, precision, tp, precision)
        steps = np.array([step_of(row) for row in members], STEP).view(np.recarray)
        seconds = np.array([measured_ms(row) or 0.0 for row in members]) * 1e-3
        passes = latency_inputs.activation_bytes(model, tp)
        groups.append(Group(name, latency, passes, model.num_layers, steps, seconds))
    return groups


# --- all of them ----------------------------------------------------------------------------------


def calibrate(path: Path, echo: Callable[[str], None]) -> None:
    """Fit every GPU and precision of a table and write data/efficiency.toml."""
    everything = {key: groups_of(*key, rows) for key, rows in read_rows(path).items()}
    if not everything:
        raise ValueError(f"{path}: no row of a known GPU, model, precision and source")
    enough = {key: groups for key, groups in everything.items() if size(groups) >= FEW_ROWS}
    fits = {}
    for key, groups in sorted(enough.items()):
        fits[key] = fit_with_errors(groups, FITTED, {}, f"{SOURCES[0]} operator sums")
        echo(report(key, fits[key]))
    for precision in sorted({precision for _, precision in enough}):
        fits["default", precision] = default_of(precision, fits, enough)
        echo(report(("default", precision), fits["default", precision]))
    for key, groups in sorted(everything.items()):
        if key not in enough:
            others = fits["default", key[1]].constants
            source = f"{SOURCES[1]} kernel sums; {len(FEW_FITTED)} constants, the rest of default"
            fits[key] = fit_with_errors(groups, FEW_FITTED, others, source)
            echo(report(key, fits[key]))
    write_fits(fits)


def size(groups: Iterable[Group]) -> int:
    return sum(len(group.seconds) for group in groups)


def default_of(
    precision: str, fits: Mapping[tuple[str, str], Fit], groups: Mapping[tuple[str, str], Any]
) -> Fit:
    """Geometric means over the GPUs; the errors are those of each GPU under all the others'
    mean.
    """
    mine = {key: fit_ for key, fit_ in fits.items() if key[1] == precision}
    mean = mean_constants(mine.values())
    errors = []
    for key in mine:
        rest = [fit_ for other, fit_ in mine.items() if other != key] or list(mine.values())
        errors.append(relative(log_errors(groups[key], mean_constants(rest))))
    flat = np.concatenate(errors)
    return Fit(
        constants=mean,
        num_rows=len(flat),
        reach=reach_of([group for key in mine for group in groups[key]]),
        mean_error=float(flat.mean()),
        p90_error=float(np.quantile(flat, 0.9)),
        left_out_error=None,
        source=f"spec sheet: geometric mean of {len(mine)} calibrated GPUs, each predicted from "
        "the others",
    )


def mean_constants(fits: Iterable[Fit]) -> dict[str, float]:
    columns = [fit_.constants for fit_ in fits]
    return rounded({n: float(np.exp(np.mean([np.log(c[n]) for c in columns]))) for n in FITTED})


def report(key: tuple[str, str], fit_: Fit) -> str:
    left_out = "-" if fit_.left_out_error is None else f"{fit_.left_out_error:.1%}"
    return (
        f"{key[0]} {key[1]}: {fit_.num_rows} rows, mean absolute error {fit_.mean_error:.1%}, "
        f"p90 {fit_.p90_error:.1%}, leaving one model out {left_out}"
    )


# --- files ----------------------------------------------------------------------------------------

HEADER = """\
# Efficiency of kernels on each GPU, by precision; sim/latency/model.py defines each number.
# Written by `make calibrate` ({date}); do not edit by hand. mean_error and p90_error are shares of
# the measured time on the rows of the fit, left_out_error the mean on each model's rows when that
# model was left out. A GPU without rows uses `default`, whose errors are those of each calibrated
# GPU predicted from all others.
"""


def write_fits(fits: Mapping[tuple[str, str], Fit]) -> None:
    parts = [HEADER.format(date=datetime.date.today().isoformat())]
    for (gpu_name, precision), fit_ in sorted(fits.items()):
        lines = [f"[{gpu_name}.{precision}]"]
        lines += [f"{name} = {value!r}" for name, value in fit_.constants.items()]
        lines.append(f"num_rows = {fit_.num_rows}")
        lines += [f"{name} = {value}" for name, value in fit_.reach.items()]
        lines += [f"mean_error = {fit_.mean_error:.4f}", f"p90_error = {fit_.p90_error:.4f}"]
        if fit_.left_out_error is not None:
            lines.append(f"left_out_error = {fit_.left_out_error:.4f}")
        lines.append(f"source = {json.dumps(fit_.source)}")
        parts.append("\n".join(lines) + "\n")
    (catalog.DATA / "efficiency.toml").write_text("\n".join(parts))


ALL_REDUCE_HEADER = """\
# Measured all-reduces between the GPUs of one server, by number of GPUs: bytes of the message,
# seconds of one call. Written by `make calibrate` ({date}); do not edit by hand.
"""


def write_all_reduce(path: Path, echo: Callable[[str], None]) -> None:
    """Keep twelve sizes of each GPU's newest vLLM all-reduce: data/allreduce.toml."""
    newest: dict[tuple[str, int], tuple[tuple[int, ...], str]] = {}
    points: dict[tuple[str, int, str], dict[float, float]] = {}
    with path.open(encoding="utf-8-sig", newline="") as stream:
        for row in csv.DictReader(stream):
            if "custom_allreduce" not in row["source"]:
                continue
            version = row["source"].split("vllm ")[1].split()[0]
            key = row["gpu"], int(row["tp"])
            rank = tuple(map(int, version.split(".")))
            newest[key] = max(newest.get(key, (rank, row["source"])), (rank, row["source"]))
            by_size = points.setdefault((*key, row["source"]), {})
            by_size[float(row["bytes"])] = float(row["latency_us"]) * 1e-6
    sizes = [float(4**k) for k in range(4, 4 + ALLREDUCE_POINTS)]
    parts = [ALL_REDUCE_HEADER.format(date=datetime.date.today().isoformat())]
    for (gpu_name, tp), (_, source) in sorted(newest.items()):
        known = sorted(points[gpu_name, tp, source].items())
        logs = np.log(np.array(known))
        seconds = np.exp(np.interp(np.log(sizes), logs[:, 0], logs[:, 1]))
        numbers = ", ".join(f"{value:.4g}" for value in seconds)
        parts.append(
            f"[{gpu_name}.{tp}]\nbytes = {[int(value) for value in sizes]}\n"
            f"seconds = [{numbers}]\nsource = {json.dumps(source)}\n"
        )
    (catalog.DATA / "allreduce.toml").write_text("\n".join(parts))
    echo(f"all-reduce: {len(newest)} groups of GPUs")


def main(arguments: list[str]) -> None:
    if len(arguments) > 1:
        write_all_reduce(Path(arguments[1]), print)
        catalog.table.cache_clear()
        efficiency.all_reduce.cache_clear()
    calibrate(Path(arguments[0]), print)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
