"""Measured profiles: the result of a calibration of the real engine, stored as files of the user.

A profile holds the step times of one model on one machine, and their error. It is a
JSON file, NAME.json, in $BATCHSCOPE_PROFILES, else in the user's data folder. A scenario names it:
`"latency": {"kind": "measured", "profile": NAME}`. Links and caches store only the name, so `save`
never overwrites a profile. Units: s, tokens.
"""

import json
import os
from pathlib import Path
from typing import Annotated, Literal

import platformdirs
from pydantic import BeforeValidator, Field, ValidationError

from sim.validation.base_model import Spec
from sim.validation.errors import RefusalError, ScenarioError, validation_error

__all__ = [
    "FOLDER",
    "Coefficients",
    "Name",
    "Profile",
    "ProfileError",
    "folder",
    "import_profile",
    "load",
    "names",
    "read",
    "save",
]

FOLDER = "BATCHSCOPE_PROFILES"
LARGEST = 100_000  # bytes of a profile's file
HOW = "`python -m gpu_backend calibrate --save NAME` measures one; a file can be imported"

Cost = Annotated[float, Field(ge=0, le=1e3)]
Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=10)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,59}$")]
Words = Annotated[str, Field(max_length=200)]


class ProfileError(RefusalError):
    """A profile that does not exist or cannot be read."""


class Coefficients(Spec):
    """Seconds per unit of load, summed by latency/model.py; none is negative."""

    step_s: Cost
    prefill_token_s: Cost
    decode_s: Cost
    decode_context_s: Cost
    prefill_pair_s: Cost
    hinge_tokens: Annotated[float, Field(ge=0, le=1e7)] = 0.0
    hinge_token_s: Cost = 0.0
    graph_decodes: Count = 0
    eager_step_s: Cost = 0.0


def any_version(value: object) -> object:
    """Refuse another version of the file, naming the version that is read."""
    if isinstance(value, int) and not isinstance(value, bool) and value != 1:
        raise ValueError(f"found version {value}; this program reads version 1")
    return value


class Profile(Spec):
    """A measured machine. r2, mape, p90_error: on steps that were held out of the fit; max_tokens,
    max_batch, max_context: the largest that were measured, as for the catalogue's GPUs."""

    version: Annotated[Literal[1], BeforeValidator(any_version)] = 1
    name: Name
    model: Annotated[str, Field(min_length=1, max_length=200)]
    device: Words
    dtype: Words
    backend: Words = ""
    threads: Annotated[int, Field(ge=1)] | None = None
    measured_on: Words = ""  # a date
    imported: bool = False  # measured on another machine than this
    coefficients: Coefficients
    r2: Annotated[float, Field(le=1)]
    mape: Share
    p90_error: Share
    num_steps: Count
    max_tokens: Count
    max_batch: Count
    max_context: Count

    @property
    def title(self) -> str:
        """The label in lists of GPUs."""
        return f"{'imported' if self.imported else 'this machine'}: {self.name}"

    def to_json(self) -> str:
        """The content of the file."""
        return self.model_dump_json(indent=2) + "\n"


# --- the folder -----------------------------------------------------------------------------------


def folder() -> Path:
    """The folder of the profiles; it may not exist yet."""
    if named := os.environ.get(FOLDER):
        return Path(named)
    return platformdirs.user_data_path("batchscope") / "profiles"


def names() -> tuple[str, ...]:
    """Names of the profiles in the folder, sorted."""
    return tuple(sorted(path.stem for path in folder().glob("*.json")))


def load(name: str) -> Profile:
    """The profile of that name. ProfileError lists the existing ones."""
    known = names()
    if name not in known:  # only a name from the list becomes part of a path
        here = f"existing profiles: {', '.join(known)}" if known else "there are no profiles"
        raise ProfileError(f"no measured profile {name!r}; {here}. {HOW}")
    path = folder() / f"{name}.json"
    try:
        return read(path.read_bytes()).model_copy(update={"name": name})
    except OSError as error:
        raise ProfileError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except ProfileError as error:
        raise ProfileError(f"{path}: {error}") from None


def read(content: bytes) -> Profile:
    """A profile from a file's content. ProfileError: one sentence per problem."""
    if len(content) > LARGEST:
        raise ProfileError(f"{len(content):,} bytes; a profile has at most {LARGEST:,}")
    try:
        return Profile.model_validate_json(content)
    except ValidationError as error:
        problems = error.errors(include_url=False)
        if problems[0]["type"] == "json_invalid":
            raise ProfileError(f"not JSON: {problems[0]['msg']}") from None
        raise ProfileError(str(problem_of(error, content))) from None


def problem_of(error: ValidationError, content: bytes) -> ScenarioError:
    """What is wrong with the content of a profile file."""
    return validation_error(error, json.loads(content), Profile)


def save(profile: Profile) -> Path:
    """Store a profile under its name. ProfileError where another profile has that name."""
    path = folder() / f"{profile.name}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as stream:
            stream.write(profile.to_json())
    except FileExistsError:
        if read(path.read_bytes()) == profile:
            return path
        raise ProfileError(
            f"a profile {profile.name!r} exists already, and links may name it; choose another "
            f"name, or delete {path}"
        ) from None
    except OSError as error:
        raise ProfileError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    return path


def import_profile(content: bytes, name: str | None = None) -> Profile:
    """Store a profile of another machine, under its own name or a new one. ProfileError where the
    content is not a profile."""
    found = read(content)
    data = found.model_dump() | {"imported": True, "name": name or found.name}
    try:
        profile = Profile.model_validate(data)
    except ValidationError:
        raise ProfileError(
            f"found the name {name!r}; a name has letters, digits, '.', '_' and '-', at most 60"
        ) from None
    save(profile)
    return profile
