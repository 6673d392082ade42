"""One simulation from a scenario: build the workload, resolve, run, summarise.

The command line, the pages and the tests call `simulate`. A path in a scenario is opened only when
the caller names the folder of files (`base_folder`) or passes the content of an upload.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sim.cluster import simulator
from sim.core.recording import Recording
from sim.results import diagnosis, metrics
from sim.results.provenance import provenance
from sim.results.rejections import rejection_sentences
from sim.scenario.load import Resolved, Scenario, ScenarioError, resolve
from sim.workload.spec import WorkloadSpec
from sim.workload.trace_reader import Imported, read_trace
from sim.workload.workload import Workload, build_workload, to_requests

__all__ = ["Result", "simulate", "workload_of"]


@dataclass(frozen=True, eq=False)
class Result:
    """The settings, the workload and the recording of a run."""

    resolved: Resolved
    workload: Workload
    recording: Recording
    notes: tuple[str, ...]  # notes on settings, import, step times and failure modes

    @property
    def scenario(self) -> Scenario:
        return self.resolved.scenario

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The summary of metrics.py, computed once."""
        return metrics.summary(self.recording, self.resolved)

    @cached_property
    def findings(self) -> tuple[diagnosis.Finding, ...]:
        """Failure modes of disaggregated serving that are true of the run."""
        return diagnosis.of(self.recording, self.resolved)

    @cached_property
    def rejections(self) -> tuple[str, ...]:
        """One sentence per limit that rejected requests: the numbers and what to change."""
        return rejection_sentences(self.recording, self.resolved)

    @property
    def all_rejected(self) -> bool:
        """Whether no request reached the scheduler."""
        return len(self.workload) > 0 and self.summary["rejected"] == len(self.workload)


def simulate(
    scenario: Scenario,
    *,
    deadline_s: float | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    base_folder: Path | None = None,
    uploads: Mapping[str, bytes] | None = None,
    record_items: bool = True,
) -> Result:
    """Run a scenario. ScenarioError for a configuration or a file that is refused.

    deadline_s: wall seconds after which the run ends with status bounded. cancelled: polled between
    slices of steps. uploads: content of files by sha256, or by name where the scenario gives no
    sha256. record_items: record the tokens of each request in each step.
    """
    resolved = resolve(scenario)
    workload, notes = workload_of(scenario, base_folder=base_folder, uploads=uploads)
    return run_resolved(
        resolved,
        workload,
        notes=notes,
        deadline_s=deadline_s,
        cancelled=cancelled,
        record_items=record_items,
    )


def run_resolved(
    resolved: Resolved,
    workload: Workload,
    *,
    notes: tuple[str, ...] = (),
    deadline_s: float | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    record_items: bool = True,
) -> Result:
    """The same for an existing workload: a page that moves a dial builds it once. ScenarioError for
    a cluster whose tables do not fit in memory."""
    limits = resolved.scenario.limits
    try:
        recording = simulator.run(
            to_requests(workload),
            workload.runs,
            resolved.policy,
            resolved.latency,
            topology=resolved.topology,
            loop_think_s=workload.loop_think_s,
            limits=simulator.Limits(
                horizon_s=np.inf if limits.horizon_s is None else limits.horizon_s,
                max_steps=limits.max_steps,
                deadline_s=np.inf if deadline_s is None else deadline_s,
            ),
            cancelled=cancelled,
            record_items=record_items,
        )
    except MemoryError as error:
        raise ScenarioError(
            [f"replicas: the tables of {len(resolved.replicas)} servers do not fit: {error}"],
            "replicas",
        ) from None
    said = resolved.notes + notes + provenance(recording, resolved)
    wrong = tuple(str(finding) for finding in diagnosis.of(recording, resolved))
    return Result(resolved, workload, recording, said + wrong)


def workload_of(
    scenario: Scenario,
    *,
    base_folder: Path | None = None,
    uploads: Mapping[str, bytes] | None = None,
) -> tuple[Workload, tuple[str, ...]]:
    """The requests of a scenario, and notes on them. ScenarioError for a file that is missing or
    cannot be read."""
    return requests_of(scenario.workload, scenario.seed, base_folder, uploads or {})


def requests_of(
    spec: WorkloadSpec, seed: int, base_folder: Path | None, uploads: Mapping[str, bytes]
) -> tuple[Workload, tuple[str, ...]]:
    """The same, from everything that the requests depend on."""
    try:
        if spec.file is None:
            return build_workload(spec, seed), ()
        imported = read_trace(
            source_of(spec, base_folder, uploads),
            spec.format,
            limit=spec.limit,
            time_scale=spec.time_scale,
            max_tokens=spec.max_tokens,
            rate_per_s=spec.rate_per_s,
            seed=seed,
            name=spec.file,
        )
    except ScenarioError:
        raise
    except ValueError as error:
        raise ScenarioError([f"workload: {error}"], "workload") from None
    return imported.workload, notes_of(imported)


def notes_of(imported: Imported) -> tuple[str, ...]:
    """Notes on the rows of a file: taken, refused, beyond the limit."""
    counts = f"{imported.taken:,} of {imported.num_rows:,} rows taken as {imported.format}"
    notes = [counts, *imported.notes]
    if imported.left_out:
        notes.append(f"{imported.left_out:,} usable rows are beyond the limit")
    if imported.refused:
        line, reason = imported.refused[0]
        notes.append(f"{len(imported.refused):,} rows refused; the first, line {line}: {reason}")
    return tuple(notes)


def source_of(
    spec: WorkloadSpec, base_folder: Path | None, uploads: Mapping[str, bytes]
) -> Path | bytes:
    """The uploaded bytes, or the path of the file. ScenarioError asks for the file
    without either."""
    name = spec.file or ""
    key = spec.sha256 or name
    if key in uploads:
        return uploads[key]
    if base_folder is None:
        raise ScenarioError([f"workload.file: please upload {name!r}"], "workload.file")
    path = base_folder / name
    if not path.is_file():
        raise ScenarioError([f"workload.file: no such file: {path}"], "workload.file")
    if spec.sha256 and hashlib.sha256(path.read_bytes()).hexdigest() != spec.sha256:
        words = f"workload.file: the sha256 of {path} differs from the scenario's"
        raise ScenarioError([words], "workload.file")
    return path
