"""A page of the navigation, as ui.lessons lists it."""

from dataclasses import dataclass

from ui.shell.forms import Form


@dataclass(frozen=True)
class Lesson:
    """A page of the navigation: the name of its file in pages/, its title, the heading above it.

    An address says what the page shows: the choices of its `form`, the session's run where
    `shows_run`, or nothing.
    """

    file: str
    title: str
    heading: str = ""
    form: Form | None = None
    shows_run: bool = False
    is_first: bool = False

    @property
    def path(self) -> str:
        """Its path in the address; the first page has none."""
        return "" if self.is_first else self.file

    @property
    def has_query(self) -> bool:
        return self.shows_run or self.form is not None
