"""The choices of the page: the model and its server, and the tokens of the steps that are shown."""

from sim.hardware import catalog
from ui.shell import query_values
from ui.shell.forms import Field, Form
from ui.widgets import model_choice

PROMPTS = (1, 16, 64, 128, 256, 512, 1024, 1500, 2048, 4096, 8192, 16384, 32768)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PARALLEL = (1, 2, 4, 8)

GPU_NAMES = query_values.name(catalog.gpu_names, "GPU")


def other_gpus() -> tuple[str, ...]:
    """The GPUs to compare the chosen one with."""
    return tuple(name for name in catalog.gpu_names() if name != GPU.value)


MODEL = Field(
    "phases_model", "of_model", "Llama-3.1-8B", query_values.model, no_choice=model_choice.PASTE
)
GPU = Field("phases_gpu", "of_gpu", "h100_sxm", GPU_NAMES)
PRECISION = Field(
    "phases_precision", "weights", "bf16",
    query_values.name(lambda: tuple(catalog.COMPUTED_IN), "precision"),
)  # fmt: skip
TP = Field("phases_tp", "gpus", 1, query_values.one_of(PARALLEL))
TOKENS = Field("phases_tokens", "prompt_tokens", 2048, query_values.one_of(PROMPTS))
BATCH = Field("phases_batch", "decodes", 32, query_values.one_of(BATCHES))
CONTEXT = Field("phases_context", "context", 1024, query_values.one_of(PROMPTS))
OTHER = Field("phases_other", "against", lambda: other_gpus()[0], GPU_NAMES)
TWO_PHASES = Form("two_phases", (MODEL, GPU, PRECISION, TP, TOKENS, BATCH, CONTEXT, OTHER))


def precisions(gpu: catalog.Gpu) -> tuple[str, ...]:
    """The precisions that this GPU computes in."""
    return tuple(p for p, in_ in catalog.COMPUTED_IN.items() if in_ in gpu.peak_flops)


def parallel_sizes(model: catalog.Model) -> tuple[int, ...]:
    """The numbers of GPUs that the model's heads can be divided among."""
    return tuple(tp for tp in PARALLEL if model.num_heads % tp == 0)
