"""A run of the real engine in a few words, and what must hold after any of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpu_backend.engine.attention import TiledAttention
from gpu_backend.engine.executor import Executor
from gpu_backend.engine.loop import RunOutput, serve
from gpu_backend.engine.request_inputs import RequestInputs, make_inputs
from gpu_backend.engine.runner import Runner
from gpu_backend.models.kv_pool import KvPool
from gpu_backend.models.model import Model
from sim.core.integrity import check_integrity
from sim.core.requests import Table
from tests.tools.builders import policy_rows

TEXTS = (
    "The library opens at nine, and by ten every chair near the windows is taken. ",
    "Water boils at a lower temperature on a mountain, because the air presses less. ",
    "def mean(values):\n    return sum(values) / len(values)\n",
    "Dear Ms. Okafor, thank you for your letter of the third of March. ",
    "Once the bread has risen, fold it twice and let it rest for another hour. ",
    "A scheduler decides, step by step, which job may use the machine and for how long. ",
    "In autumn the cranes fly south in long, uneven lines, calling all the way. ",
    "To prove it, assume the opposite: that there is a largest prime number. ",
)
PROMPTS = tuple(tuple(text.encode()) for text in TEXTS)


def executor_for(
    model: Model,
    policy: Table,
    inputs: RequestInputs,
    *,
    tile_tokens: int = 64,
    compiled: bool = True,
) -> Executor:
    """An executor with poisoned pages and small tiles, so that a few requests fill several."""
    row = policy[0]
    blocks, size = int(row.num_gpu_blocks), int(row.block_size)
    pool = KvPool(model.architecture, blocks, size, model.device, poison=True)
    device = model.device
    attention = TiledAttention(model.architecture, device.torch_device, device.dtype, tile_tokens)
    return Executor(Runner(model, pool, attention, compiled=compiled), inputs)


def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    max_tokens: int | Sequence[int],
    engine: str = "vllm_v1",
    *,
    inputs: dict[str, Any] | None = None,
    columns: dict[str, int] | None = None,
    compiled: bool = True,
    **knobs: Any,
) -> RunOutput:
    """Serve `prompts`; the scheduler's state is checked after every step, its blocks at the end.
    compiled: decodes alone run as one loop, as on every CPU with room for it."""
    policy = policy_rows(engine, columns=columns, **knobs)
    wanted = make_inputs(prompts, max_tokens, **(inputs or {}))
    served = serve(
        wanted,
        policy,
        executor_for(model, policy, wanted, compiled=compiled),
        on_step=lambda state, executed: check_integrity(state),
    )
    check_ended(served, policy)
    assert served.error is None, served.error
    return served


def check_ended(served: RunOutput, policy: Table) -> None:
    """Every block is free, whatever ended the run."""
    assert served.free_blocks == int(policy[0].num_gpu_blocks) - 1
    assert np.isfinite(served.times["whole_s"]).all()
    assert len(served.recording.steps) == len(served.times)
