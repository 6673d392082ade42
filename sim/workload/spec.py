"""The workload of a scenario file: when requests arrive, how long they are, what they share.

Frozen pydantic models with the keys of the scenario file. Times are seconds, lengths are tokens.
These models describe the requests; `sim.workload.workload.build_workload` draws them.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from sim.validation.base_model import Spec

__all__ = [
    "AllAtOnce",
    "Arrivals",
    "At",
    "ClassSpec",
    "ClosedLoop",
    "Constant",
    "Empirical",
    "EqualTokens",
    "FactorTokens",
    "Fixed",
    "FixedTokens",
    "Gamma",
    "Length",
    "Listed",
    "Lognormal",
    "MaxTokens",
    "Poisson",
    "SharedPrefix",
    "Uniform",
    "WorkloadSpec",
]

MAX_TOKENS = 10_000_000  # of one length; a table column is int32
MAX_REQUESTS = 5_000_000

Tokens = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
# A double still resolves microseconds here; much later, the clock would not advance with a step.
MAX_SECONDS = 1e9
Seconds = Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)]


# --- arrivals -------------------------------------------------------------------------------------


class Poisson(Spec):
    """Exponential gaps between arrivals; the first gap is drawn too."""

    kind: Literal["poisson"]
    rate_per_s: Rate
    start_s: Seconds = 0.0


class Gamma(Spec):
    """Gamma gaps of the given coefficient of variation: above 1 burstier than Poisson."""

    kind: Literal["gamma"]
    rate_per_s: Rate
    cv: Annotated[float, Field(gt=0, le=100)]
    start_s: Seconds = 0.0


class Constant(Spec):
    """One arrival every 1 / rate_per_s seconds, the first one at start_s."""

    kind: Literal["constant"]
    rate_per_s: Rate
    start_s: Seconds = 0.0


class AllAtOnce(Spec):
    """All requests at start_s."""

    kind: Literal["all_at_once"]
    start_s: Seconds = 0.0


class At(Spec):
    """Given times; `count` of the class is the number of them."""

    kind: Literal["at"]
    times_s: Annotated[tuple[Seconds, ...], Field(min_length=1)]


class ClosedLoop(Spec):
    """`users` clients; each sends the next request think_time_s after its last one ended."""

    kind: Literal["closed_loop"]
    users: Annotated[int, Field(ge=1, le=MAX_REQUESTS)]
    think_time_s: Seconds = 0.0
    start_s: Seconds = 0.0


Arrivals = Annotated[
    Poisson | Gamma | Constant | AllAtOnce | At | ClosedLoop, Field(discriminator="kind")
]


# --- lengths --------------------------------------------------------------------------------------


class Fixed(Spec):
    kind: Literal["fixed"]
    tokens: Tokens


class Uniform(Spec):
    """Whole numbers from min to max, both included."""

    kind: Literal["uniform"]
    min: Tokens
    max: Tokens

    @model_validator(mode="after")
    def ordered(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min {self.min} is above max {self.max}")
        return self


class Lognormal(Spec):
    """exp(normal(log(median), sigma)), rounded, at least 1 and at most max."""

    kind: Literal["lognormal"]
    median: Annotated[float, Field(ge=1, le=MAX_TOKENS)]
    sigma: Annotated[float, Field(ge=0, le=10)]
    max: Tokens = MAX_TOKENS

    @model_validator(mode="after")
    def ordered(self) -> Self:
        if self.median > self.max:
            raise ValueError(f"median {self.median:g} is above max {self.max}")
        return self


class Empirical(Spec):
    """Drawn from the values with replacement."""

    kind: Literal["empirical"]
    values: Annotated[tuple[Tokens, ...], Field(min_length=1)]


class Listed(Spec):
    """The values in order, one per request; they repeat when there are more requests."""

    kind: Literal["list"]
    values: Annotated[tuple[Tokens, ...], Field(min_length=1)]


Length = Annotated[Fixed | Uniform | Lognormal | Empirical | Listed, Field(discriminator="kind")]


# --- what the client asks for ---------------------------------------------------------------------


class EqualTokens(Spec):
    """max_tokens = the true output length: generation ends by length."""

    kind: Literal["equal"]


class FixedTokens(Spec):
    """The same max_tokens for all requests; longer outputs are cut there."""

    kind: Literal["fixed"]
    tokens: Tokens


class FactorTokens(Spec):
    """max_tokens = the true output length times `factor`, rounded up."""

    kind: Literal["factor"]
    factor: Annotated[float, Field(gt=0, le=1e6)]


MaxTokens = Annotated[EqualTokens | FixedTokens | FactorTokens, Field(discriminator="kind")]


class SharedPrefix(Spec):
    """The first `tokens` of all prompts of a group are the same; requests are assigned to groups in
    turn."""

    tokens: Annotated[int, Field(ge=0, le=MAX_TOKENS)] = 0
    groups: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] = 1


# --- classes and files ----------------------------------------------------------------------------


class ClassSpec(Spec):
    """One kind of request. `count` may be left out where arrivals give the times."""

    name: Annotated[str, Field(min_length=1, max_length=60)]
    count: Annotated[int, Field(ge=1, le=MAX_REQUESTS)]
    arrivals: Arrivals
    prompt: Length
    output: Length
    max_tokens: MaxTokens = EqualTokens(kind="equal")
    priority: Annotated[int, Field(ge=-(10**6), le=10**6)] = 0
    shared_prefix: SharedPrefix = SharedPrefix()
    abort_after_s: Annotated[float, Field(gt=0, le=MAX_SECONDS)] | None = None

    @model_validator(mode="before")
    @classmethod
    def count_of_times(cls, data: Any) -> Any:
        """Fill in `count` from given arrival times."""
        if (
            isinstance(data, dict)
            and "count" not in data
            and isinstance(data.get("arrivals"), dict)
        ):
            times = data["arrivals"].get("times_s")
            if isinstance(times, list | tuple) and times:
                return {**data, "count": len(times)}
        return data

    @model_validator(mode="after")
    def one_time_each(self) -> Self:
        if isinstance(self.arrivals, At) and len(self.arrivals.times_s) != self.count:
            raise ValueError(
                f"class {self.name!r} has count {self.count} but {len(self.arrivals.times_s)} "
                "arrival times; leave count out or give one time each"
            )
        return self


def no_path(name: str) -> str:
    """Refuse a NUL, which no file system allows."""
    if "\0" in name:
        raise ValueError("a file name holds no NUL")
    return name


class WorkloadSpec(Spec):
    """Either classes to draw requests from, or a file to read."""

    classes: Annotated[tuple[ClassSpec, ...], Field(min_length=1, max_length=64)] | None = None
    file: Annotated[str, Field(min_length=1, max_length=400), BeforeValidator(no_path)] | None = (
        None
    )
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    format: str | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_REQUESTS)] | None = None
    time_scale: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    rate_per_s: Rate | None = None
    max_tokens: MaxTokens = EqualTokens(kind="equal")

    @model_validator(mode="after")
    def one_source(self) -> Self:
        if (self.classes is None) == (self.file is None):
            raise ValueError("give either classes or a file")
        fields = type(self).model_fields
        of_file = (name for name in fields if name not in ("classes", "file"))
        misplaced = [name for name in of_file if getattr(self, name) != fields[name].default]
        if self.classes is not None and misplaced:
            raise ValueError(f"{', '.join(misplaced)} belong to a file, not to classes")
        return self

    @model_serializer(mode="wrap")
    def one_source_only(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Refuse keys of a file beside classes."""
        fields: dict[str, Any] = serialise(self)
        if self.classes is not None:
            return {"classes": fields["classes"]}
        return {name: value for name, value in fields.items() if value is not None}
