"""The knobs of each engine, one file an engine. A new one is its file and its place in `Knobs`.

A knob model has `engine`, `fill` (derive what is null, refuse what the engine refuses), `row`
(state.POLICY) and `serve_flags`.
"""

from typing import Annotated

from pydantic import Field

from sim.engines.knobs.hardware import Hardware, SettingsError
from sim.engines.knobs.orca import Orca
from sim.engines.knobs.sarathi import Sarathi
from sim.engines.knobs.sglang import Sglang
from sim.engines.knobs.static import Static
from sim.engines.knobs.tensorrt_llm import TensorRtLlm
from sim.engines.knobs.vllm_v0 import VllmV0
from sim.engines.knobs.vllm_v1 import VllmV1

__all__ = [
    "Hardware",
    "Knobs",
    "Orca",
    "Sarathi",
    "SettingsError",
    "Sglang",
    "Static",
    "TensorRtLlm",
    "VllmV0",
    "VllmV1",
]

Knobs = Annotated[
    VllmV1 | VllmV0 | Static | Orca | Sarathi | Sglang | TensorRtLlm,
    Field(discriminator="engine"),
]
