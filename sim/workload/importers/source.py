"""Bytes or a file as text; other kinds of files are refused."""

import io
import re
from pathlib import Path
from typing import BinaryIO

from sim.validation.errors import RefusalError

HEAD_BYTES = 1 << 16

# First bytes of other kinds of files, and what to do about them.
MAGIC = (
    (b"\x1f\x8b", "gzip-compressed; unpack it first"),
    (b"PK\x03\x04", "a zip archive or an Excel workbook; save the sheet as CSV"),
    (b"PAR1", "a Parquet file; convert it to CSV or JSON Lines"),
    (b"version https://git-lfs", "a Git LFS pointer, not the data; fetch the file itself"),
)

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")  # "Unicode text" of spreadsheets

# Undecodable bytes are read as lone surrogates, which no valid text contains.
UNDECODABLE = re.compile("[\udc80-\udcff]")


class TraceError(RefusalError):
    """A file that cannot be read as a workload: which one, where, what was found, what is allowed.
    `code` "no_time_column": it can be read once a rate is given."""


class Source:
    """A file on disk or an upload; can be opened as text repeatedly.

    Raises TraceError for a file that is not text.
    """

    def __init__(self, source: bytes | Path, name: str = "") -> None:
        self.source = source
        self.name = name or (source.name if isinstance(source, Path) else "the upload")
        try:
            with self.open() as file:
                head = file.read(HEAD_BYTES)
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror}") from error
        self.check(head)
        if head.startswith(UTF16_MARKS):
            with self.open() as file:
                self.source = file.read().decode("utf-16", "replace").encode("utf-8", "replace")

    def error(self, problem: str, code: str = "unreadable") -> TraceError:
        """A TraceError that names the file."""
        return TraceError(f"{self.name}: {problem}", code=code)

    def open(self) -> BinaryIO:
        """The bytes from the start."""
        if isinstance(self.source, Path):
            return self.source.open("rb")
        return io.BytesIO(self.source)

    def text(self) -> io.TextIOWrapper:
        """The text from the start, without a byte order mark, line ends unchanged."""
        return io.TextIOWrapper(
            self.open(), encoding="utf-8-sig", errors="surrogateescape", newline=""
        )

    def check(self, head: bytes) -> None:
        """Refuse a file whose first bytes are not text."""
        if not head.strip():
            raise self.error("empty; a header line or JSON objects are expected")
        for magic, advice in MAGIC:
            if head.startswith(magic):
                raise self.error(advice)
        first_line = head.lstrip().partition(b"\n")[0]
        if 0 in first_line and not head.startswith(UTF16_MARKS):
            raise self.error(f"not a text file (NUL at byte {head.index(0)}); save it as UTF-8")
