"""Raw cells to arrival times and token counts; other values are refused with the reason."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.workload.importers.formats import PER_SECOND, normalise

MAX_SHOWN = 40  # characters of a refused value
MAX_SPAN_S = 10 * 365 * 86_400.0  # a time stamp further from the others is broken
MAX_NUMBER = 1e19  # nanoseconds since 1970 are below it

Floats = NDArray[np.float64]

# Time stamps since 1970 reveal their unit: (smallest in this unit, units per second).
EPOCH_UNITS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))


class Refusals:
    """Rows refused so far, each with the first reason found."""

    def __init__(self, num_rows: int) -> None:
        self.reasons: dict[int, str] = {}
        self.kept = np.ones(num_rows, bool)

    def add(self, bad: NDArray[np.bool_], column: str, values: Sequence[Any], allowed: str) -> None:
        """Refuse the rows marked `bad`."""
        for row in np.flatnonzero(bad & self.kept).tolist():
            self.reasons[row] = f"{column} {found(values[row])}; {allowed}"
        self.kept &= ~bad


def found(value: Any) -> str:
    """The content of a cell, in words."""
    if value is None:
        return "is missing"
    if is_absent(value):
        return "is empty"
    if isinstance(value, str):
        text = value.strip()
        text = text if is_number(text) else repr(text)
    else:
        text = json.dumps(value)
    return "is " + (text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "...")


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_absent(value: Any) -> bool:
    """Whether a cell holds nothing."""
    return value is None or (isinstance(value, str) and not value.strip())


def to_numbers(values: Sequence[Any]) -> Floats:
    """Floats; nan for other values. Booleans are not numbers; strings may hold one."""
    import pandas as pd

    plain = [value if isinstance(value, str) else number_or_nan(value) for value in values]
    series = pd.Series(plain, dtype=object)
    return pd.to_numeric(series, errors="coerce").to_numpy(np.float64)


def number_or_nan(value: Any) -> float:
    """A JSON value as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return np.nan
    return float(value) if abs(value) < MAX_NUMBER else np.inf


def whole_numbers(
    values: Sequence[Any],
    column: str,
    low: int,
    high: int,
    refusals: Refusals,
    about_zero: str | None = None,
) -> NDArray[np.int32]:
    """Whole numbers from low to high, `low` where a row is refused for having none."""
    numbers = to_numbers(values)
    if about_zero:
        refusals.add(numbers == 0, column, values, about_zero)
    bad = ~((numbers >= low) & (numbers <= high) & (numbers == np.rint(numbers)))
    allowed = f"a whole number from {low:,} to {high:,}" if low < high else str(low)
    refusals.add(bad, column, values, f"allowed is {allowed}")
    return np.where(bad, low, numbers).astype(np.int32)


def optional_whole_numbers(
    values: Sequence[Any], column: str, low: int, high: int, refusals: Refusals, default: Any
) -> NDArray[np.int32]:
    """The same for an optional column: absent values become `default` (a number or an array)."""
    absent = np.fromiter(map(is_absent, values), bool, len(values))
    filled = [low if gone else value for gone, value in zip(absent.tolist(), values, strict=True)]
    numbers = whole_numbers(filled, column, low, high, refusals)
    return np.where(absent, default, numbers).astype(np.int32)


def arrival_seconds(
    values: Sequence[Any], column: str, per_second: float | None, refusals: Refusals
) -> tuple[Floats, str]:
    """Seconds since the first usable row, and how the column was read.

    Numbers are in units of 1 / `per_second` s (None: by `time_unit`); a column of mostly text holds
    ISO 8601 dates, read to the nanosecond."""
    numbers = to_numbers(values)
    present = sum(not is_absent(value) for value in values)
    if 2 * np.count_nonzero(~np.isnan(numbers)) >= present:
        bad = ~((numbers >= 0) & (numbers < MAX_NUMBER))
        refusals.add(bad, column, values, "allowed is a number from 0 up")
        per_second = per_second or time_unit(column, numbers[~bad])
        return since_first(numbers, per_second, column, values, refusals), unit_name(per_second)
    stamps, bad = nanoseconds(values)
    refusals.add(bad, column, values, "allowed is an ISO 8601 date and time")
    return since_first(stamps, 1e9, column, values, refusals), "dates"


def time_unit(column: str, numbers: Floats) -> float:
    """Units per second: by the ending of the name, by the size of epoch stamps, else seconds."""
    name = normalise(column)
    for ending, per_second in PER_SECOND.items():
        if name.endswith(ending) and len(name) > len(ending) and ending != "s":
            return per_second
    middle = np.median(numbers) if len(numbers) else 0.0
    return next((unit for least, unit in EPOCH_UNITS if middle >= least), 1.0)


def unit_name(per_second: float) -> str:
    """The unit's name."""
    return {1.0: "seconds", 1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}[
        per_second
    ]


def nanoseconds(values: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Dates as nanoseconds since 1970 (UTC where no zone is given), and which cells are
    not dates."""
    import pandas as pd

    texts = pd.Series([v if isinstance(v, str) else None for v in values], dtype=object)
    stamps = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True).dt.as_unit("ns")
    return stamps.to_numpy("datetime64[ns]").astype(np.int64), stamps.isna().to_numpy()


def since_first(
    stamps: NDArray[Any], per_second: float, column: str, values: Sequence[Any], refusals: Refusals
) -> Floats:
    """Seconds since the first kept row; refuses rows that are years away from the others."""
    if not refusals.kept.any():
        return np.zeros(len(stamps))
    middle = np.median(stamps[refusals.kept])
    far = refusals.kept & (np.abs(stamps - middle) / per_second > MAX_SPAN_S)
    refusals.add(far, column, values, "years away from the other rows")
    if not refusals.kept.any():
        return np.zeros(len(stamps))
    seconds: Floats = (stamps - stamps[refusals.kept].min()) / per_second
    return seconds
