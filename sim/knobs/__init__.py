"""The knobs of each engine, one file an engine. A new one is its file and its place in `Knobs`.

From the second engine on, `Knobs` is `Annotated[VllmV1 | Other, Field(discriminator="engine")]`.
A knob model has `engine`, `fill` (derive what is null, refuse what the engine refuses), `row`
(state.POLICY) and `serve_flags`.
"""

from sim.knobs.hardware import Hardware, SettingsError
from sim.knobs.vllm_v1 import VllmV1

__all__ = ["Hardware", "Knobs", "SettingsError", "VllmV1"]

Knobs = VllmV1
