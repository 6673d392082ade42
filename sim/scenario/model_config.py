"""A model given by its Hugging Face config.json: any dense decoder, in the catalogue or not.

In a scenario file `model` is a name of the catalogue, or an object with the keys of config.json
that give the shape of a dense decoder; in a whole config.json the other keys are ignored.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator

from sim.hardware import catalog
from sim.validation.base_model import Spec
from sim.validation.errors import validation_error

__all__ = [
    "DescribedModel",
    "ModelConfig",
    "ModelRef",
    "described",
    "model_from_config",
    "model_of",
]

# Whether the projections of a family have biases where attention_bias does not say.
BIASES = {"llama": False, "mistral": False, "qwen2": True, "qwen3": False}
Family = Literal["llama", "mistral", "qwen2", "qwen3"]
Size = Annotated[int, Field(ge=1, le=10_000_000)]


class ModelConfig(Spec):
    """The keys of a config.json that are read, under `transformers`' names; null: its default."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    model_type: Family
    num_hidden_layers: Size
    hidden_size: Size
    num_attention_heads: Size
    num_key_value_heads: Size | None = None  # as many as attention heads
    head_dim: Size | None = None  # hidden_size / num_attention_heads
    intermediate_size: Size
    vocab_size: Size
    max_position_embeddings: Size
    tie_word_embeddings: bool = False
    attention_bias: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def is_dense(cls, data: Any) -> Any:
        """Refuse mixture of experts, which is not modelled, under any model_type."""
        experts = [key for key in data if "expert" in key] if isinstance(data, dict) else []
        if experts:
            raise ValueError(
                f"{experts[0]} means mixture of experts; only dense decoders are supported"
            )
        return data

    @model_validator(mode="after")
    def heads_are_shared(self) -> "ModelConfig":
        heads, kv_heads = self.num_attention_heads, self.num_key_value_heads
        if kv_heads is not None and heads % kv_heads:
            raise ValueError(f"{heads} attention heads cannot share {kv_heads} KV heads evenly")
        return self


class DescribedModel(Spec):
    """A model in a scenario file given by its config.json, with a name to show."""

    name: Annotated[str, Field(min_length=1, max_length=60)] = "config.json"
    config: ModelConfig

    def __str__(self) -> str:
        return self.name

    def model(self) -> catalog.Model:
        """The same as an entry of the catalogue."""
        config = self.config
        heads, bias = config.num_attention_heads, config.attention_bias
        return catalog.Model(
            name=self.name,
            num_layers=config.num_hidden_layers,
            hidden_size=config.hidden_size,
            num_heads=heads,
            num_kv_heads=config.num_key_value_heads or heads,
            head_dim=config.head_dim or config.hidden_size // heads,
            intermediate_size=config.intermediate_size,
            vocab_size=config.vocab_size,
            tied_embeddings=config.tie_word_embeddings,
            max_model_len=config.max_position_embeddings,
            qkv_bias=BIASES[config.model_type] if bias is None else bias,
            qk_norm=config.model_type == "qwen3",
            source="a config.json",
        )


def name_or_object(value: Any) -> str:
    return "described" if isinstance(value, dict | DescribedModel) else "name"


ModelRef = Annotated[
    Annotated[Annotated[str, Field(min_length=1, max_length=200)], Tag("name")]
    | Annotated[DescribedModel, Tag("described")],
    Discriminator(name_or_object),
]


def model_of(ref: str | DescribedModel) -> catalog.Model:
    """The model that a scenario means. ValueError for a name that the catalogue does not know."""
    return ref.model() if isinstance(ref, DescribedModel) else catalog.model(ref)


def described(text: str, name: str | None = None) -> DescribedModel:
    """A model from the text of its config.json; the default name is its family and size. ValueError
    for anything but a dense decoder."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"config.json: not JSON (line {error.lineno}: {error.msg})") from None
    except RecursionError:
        raise ValueError("config.json: nested too deeply") from None
    if not isinstance(data, dict):
        raise ValueError(f"config.json: must be an object, found {type(data).__name__}")
    try:
        config = ModelConfig.model_validate(data)
    except ValidationError as error:
        problems = validation_error(error, data, ModelConfig).problems
        words = [problem.removeprefix("the scenario: ") for problem in problems]
        raise ValueError(f"config.json: {'; '.join(words)}") from None
    found = DescribedModel(config=config)
    size = found.model().parameters / 1e9
    return found.model_copy(update={"name": name or f"{config.model_type} {size:.2f}B"})


def model_from_config(text: str, name: str | None = None) -> catalog.Model:
    """The same as an entry of the catalogue."""
    return described(text, name).model()
