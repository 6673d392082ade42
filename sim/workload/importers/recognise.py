"""The format of a file, and which of its columns are used."""

from collections import Counter
from collections.abc import Sequence

from sim.workload.importers.columns import MAX_SHOWN, is_number
from sim.workload.importers.formats import (
    FORMATS,
    REQUIRED,
    Format,
    fits,
    match_columns,
    normalise,
)
from sim.workload.importers.source import Source
from sim.workload.importers.table import csv_header, json_header, medium_of

SHOWN_COLUMNS = 8
MEDIA = {"csv": "CSV", "jsonl": "JSON Lines"}


def recognise(file: Source, format_name: str | None) -> tuple[Format, tuple[str, ...]]:
    """The format, asked for by name or found by the columns, and the file's column names.

    Raises TraceError where the file has no known format or not the requested one, ValueError for an
    unknown format name.
    """
    asked = None if format_name is None else format_named(format_name)
    medium = medium_of(file)
    if asked and asked.medium != medium:
        raise file.error(
            f"format {asked.name} is {MEDIA[asked.medium]}, but this is {MEDIA[medium]}"
        )
    header = csv_header(file)[0] if medium == "csv" else json_header(file)
    if asked:
        return asked, header
    for form in FORMATS:
        if form.medium == medium and fits(form, header):
            return form, header
    raise file.error(unknown_columns(medium, header))


def format_named(name: str) -> Format:
    """The format called `name`."""
    for form in FORMATS:
        if form.name == name:
            return form
    known = ", ".join(form.name for form in FORMATS)
    raise ValueError(f"there is no format {name!r}; allowed are {known}")


def used_columns(file: Source, form: Format, header: Sequence[str]) -> dict[str, str]:
    """Role -> column, for every role of the format that the file has a column for."""
    used = match_columns(form, header)
    by_name = {normalise(column): column for column in header}
    used |= {name: by_name[name] for name in form.only if name in by_name}
    missing = [role for role in REQUIRED if role not in used]
    if missing:
        wanted = " and ".join(
            f"{role} tokens ({', '.join(form.roles[role][:3])})" for role in missing
        )
        raise file.error(
            f"format {form.name} needs {wanted}; {found_columns(medium_of(file), header)}"
        )
    spellings = Counter(map(normalise, header))
    for column in used.values():
        if spellings[normalise(column)] > 1:
            raise file.error(f"more than one column is called {column!r}; rename all but one")
    return used


def found_columns(medium: str, header: Sequence[str]) -> str:
    """The column names that were found."""
    shown = ", ".join(column[:MAX_SHOWN] for column in header[:SHOWN_COLUMNS])
    more = ", ..." if len(header) > SHOWN_COLUMNS else ""
    if medium == "csv" and any(map(is_number, header)):
        return f"line 1 holds values, not column names ({shown}{more}): put a header line first"
    return f"found the columns {shown}{more}"


def unknown_columns(medium: str, header: Sequence[str]) -> str:
    """The error for a file of no known format."""
    plain = match_columns(format_named(medium), header)
    missing = " and ".join(f"{role} tokens" for role in REQUIRED if role not in plain)
    named = ", ".join(form.name for form in FORMATS if form.signature)
    return (
        f"no column for {missing}; {found_columns(medium, header)}. Allowed are files with columns "
        f"such as timestamp, prompt_tokens, output_tokens, and the formats {named}"
    )
