"""The choices of a page as one form: kept while another page is open, and written into the page's
address.

Streamlit drops the values of widgets with their page; a form gives them back. A choice that was
never made follows its start, which may depend on other choices. An address holds only what differs
from the start.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from ui.shell import query_values
from ui.shell.session import kept


@dataclass
class FormValues:
    """The values of all forms of a session, by widget key. `starts`: where each value started.
    `live`: keys of the last run's widgets; `drawn`: keys of this run's widgets."""

    values: dict[str, Any] = field(default_factory=dict)
    starts: dict[str, Any] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)
    drawn: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Field:
    """One choice. `key`: of its widget in the session's state; `name`: in an address, where `read`
    takes it from (ValueError says what it must be).

    `start`: the value before any choice; a function is asked each time. `belongs_to`: the key of a
    field whose change takes this one back to its start. `no_choice`: a value of the widget that
    chooses nothing yet.
    """

    key: str
    name: str
    start: Any
    read: Callable[[str], Any]
    say: Callable[[Any], str] = query_values.say
    belongs_to: str = ""
    no_choice: Any = None

    @property
    def usual(self) -> Any:
        return self.start() if callable(self.start) else self.start

    @property
    def value(self) -> Any:
        """The current value, on whatever page.

        A key whose widget is gone may still hold a value from before; it does not count.
        """
        form = kept(FormValues)
        if self.key in form.live and self.key in st.session_state:
            return st.session_state[self.key]
        if self.key in form.values:
            return form.values[self.key]
        return self.usual

    def widget(self) -> str:
        """The key for the widget that is about to be drawn."""
        form = kept(FormValues)
        form.drawn.add(self.key)
        form.live.add(self.key)
        return self.key


@dataclass(frozen=True)
class Form:
    """The choices of the page at `page`. `shows_run`: does the page show the session's run, which
    then belongs into its address?"""

    page: str
    fields: tuple[Field, ...]
    shows_run: Callable[[], bool] = lambda: False

    def enter(self) -> None:
        """Give the page's widgets their values, in the order of the fields, before they are drawn.

        This happens in every run: a widget that is mounted late, such as one in a popover, gets the
        value of the form and not its own default.
        """
        form = kept(FormValues)
        form.drawn = set()
        moved = {
            f.key for f in self.fields if f.key in form.values and f.value != form.values[f.key]
        }
        for one in self.fields:
            usual, value = one.usual, one.value
            untouched = one.key in form.starts and value == form.starts[one.key]
            if untouched or one.belongs_to in moved:
                value = usual
            st.session_state[one.key] = form.values[one.key] = value
            form.starts[one.key] = usual

    def keep(self) -> None:
        """Remember the values of the page's widgets, after they were drawn."""
        form = kept(FormValues)
        form.values |= {one.key: one.value for one in self.fields}
        form.live = form.drawn

    def query(self) -> dict[str, str]:
        """What differs from the start, as keys of an address."""
        return {
            f.name: f.say(f.value) for f in self.fields if f.value not in (f.usual, f.no_choice)
        }

    def split(self, query: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The keys of an address that are this form's, and the others."""
        names = {one.name for one in self.fields}
        own = {key: text for key, text in query.items() if key in names}
        return own, {key: text for key, text in query.items() if key not in names}

    def read(self, own: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Values by widget, and by key of the address what cannot be followed."""
        found, problems = {}, {}
        for one in self.fields:
            if one.name not in own:
                continue
            try:
                found[one.key] = one.read(own[one.name])
            except ValueError as error:
                text = query_values.shortened(own[one.name])
                problems[one.name] = f"{one.name} must be {error}; it is {text}"
        return found, problems

    def adopt(self, found: Mapping[str, Any]) -> None:
        """Take over what an address says; what it does not name goes back to its start."""
        form = kept(FormValues)
        for one in self.fields:
            form.values.pop(one.key, None)
            form.starts.pop(one.key, None)
            form.live.discard(one.key)
            if one.key in st.session_state:
                del st.session_state[one.key]
        for one in self.fields:
            if one.key in found:
                form.values[one.key] = found[one.key]


def leave() -> None:
    """Note that another page was opened: the last page's widgets are gone."""
    kept(FormValues).live = set()
