"""The hardware from which knobs are derived: the GPU, the model on it, and how its memory is
shared."""

from dataclasses import dataclass

from sim.hardware import catalog, kv_pool_size
from sim.validation.errors import RefusalError

__all__ = ["Hardware", "SettingsError"]


class SettingsError(RefusalError):
    """A configuration that the engine refuses to start with. `field`: the knob to look at."""


@dataclass(frozen=True)
class Hardware:
    """One replica's hardware; `gpu` and `model` may be missing under the linear toy."""

    model: catalog.Model | None
    gpu: catalog.Gpu | None
    precision: str
    tp: int
    kv_cache_dtype: str
    gpu_memory_utilization: float
    free_gpu_memory_fraction: float | None = None  # TensorRT-LLM's share of free memory

    @property
    def large(self) -> bool:
        """Whether the engine's table of defaults counts the GPU as large."""
        return self.gpu is not None and kv_pool_size.is_large(self.gpu)

    def kv_pool(
        self, max_num_batched_tokens: int, max_num_seqs: int, block_size: int, blocks_given: bool
    ) -> kv_pool_size.KvPool | None:
        """The KV pool, None without a GPU or a model. A model that does not fit is a SettingsError.

        Where the number of blocks is given, only the weights have to fit.
        """
        if self.model is None or self.gpu is None:
            return None
        try:
            return kv_pool_size.kv_pool(
                self.model,
                self.gpu,
                precision=self.precision,
                tp=self.tp,
                kv_cache_dtype=self.kv_cache_dtype,
                utilization=self.gpu_memory_utilization,
                free_fraction=self.free_gpu_memory_fraction,
                max_num_batched_tokens=max_num_batched_tokens,
                max_num_seqs=max_num_seqs,
                block_size=block_size,
            )
        except ValueError as error:
            weights = self.model.weight_bytes(self.precision) / self.tp
            if blocks_given and weights < self.gpu.memory_bytes * self.gpu_memory_utilization:
                return None
            usable = self.gpu.memory_bytes * self.gpu_memory_utilization
            raise SettingsError(
                str(error), field="model", code="model_does_not_fit", limit=usable
            ) from None
