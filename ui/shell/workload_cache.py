"""Workloads, built or read once for all sessions."""

from collections.abc import Mapping

import streamlit as st

from sim.results.run import workload_of
from sim.scenario.load import Scenario
from sim.workload.workload import Workload

Uploads = Mapping[str, bytes]


def workload(scenario: Scenario, uploads: Uploads) -> tuple[Workload, tuple[str, ...]]:
    """The requests of a scenario, and notes about them. A dial that moves does not read a file
    twice."""
    return _workload(scenario.workload.model_dump_json(), scenario.seed, scenario, uploads)


@st.cache_resource(max_entries=16, show_spinner=False)
def _workload(
    key: str, seed: int, _scenario: Scenario, _uploads: Uploads
) -> tuple[Workload, tuple[str, ...]]:
    return workload_of(_scenario, uploads=_uploads)
