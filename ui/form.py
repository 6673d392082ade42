"""The choices of a page as one form: kept while the reader is on other pages, and written into the
page's address.

Widgets lose their values with their page; a form gives them back. A choice that nobody made follows
its start, which may depend on other choices; an address holds only what differs from the start.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from ui import values

KEPT, STARTED = "form_kept", "form_started"  # values by key; where they started
LIVE, DRAWN = "form_live", "form_drawn"  # keys of the last run's widgets, and of this one's


@dataclass(frozen=True)
class Field:
    """One choice. `key`: of its widget in the session's state; `name`: in an address, where `read`
    takes it from (ValueError says what it must be).

    `start`: what stands there before anybody chose; a function is asked each time. `belongs_to`:
    the key of a field whose change takes this one back to its start.
    """

    key: str
    name: str
    start: Any
    read: Callable[[str], Any]
    say: Callable[[Any], str] = values.say
    belongs_to: str = ""
    no_choice: Any = None  # a value of the widget that chooses nothing yet

    @property
    def usual(self) -> Any:
        return self.start() if callable(self.start) else self.start

    @property
    def value(self) -> Any:
        """As it stands, on whatever page the reader is.

        A key whose widget is gone may still hold what it held before there was one.
        """
        if self.key in st.session_state.get(LIVE, ()) and self.key in st.session_state:
            return st.session_state[self.key]
        kept: dict[str, Any] = st.session_state.get(KEPT, {})
        if self.key in kept:
            return kept[self.key]
        return self.usual

    def widget(self) -> str:
        """The key for the widget that is about to be drawn."""
        st.session_state.setdefault(DRAWN, set()).add(self.key)
        st.session_state.setdefault(LIVE, set()).add(self.key)
        return self.key


@dataclass(frozen=True)
class Form:
    """The choices of the page at `page`. `shows_run`: is it looking at the session's run, which
    then belongs into its address?"""

    page: str
    fields: tuple[Field, ...]
    shows_run: Callable[[], bool] = lambda: False

    def enter(self) -> None:
        """Before the page's widgets: give them their values, in the order of the fields."""
        kept: dict[str, Any] = st.session_state.setdefault(KEPT, {})
        started: dict[str, Any] = st.session_state.setdefault(STARTED, {})
        st.session_state[DRAWN] = set()
        moved = {f.key for f in self.fields if f.key in kept and f.value != kept[f.key]}
        for field in self.fields:
            usual, value = field.usual, field.value
            untouched = field.key in started and value == started[field.key]
            if untouched or field.belongs_to in moved:
                value = usual
            st.session_state[field.key] = kept[field.key] = value
            started[field.key] = usual

    def keep(self) -> None:
        """After the page's widgets: remember what they say."""
        kept: dict[str, Any] = st.session_state.setdefault(KEPT, {})
        kept |= {field.key: field.value for field in self.fields}
        st.session_state[LIVE] = st.session_state[DRAWN]

    def query(self) -> dict[str, str]:
        """What differs from the start, as keys of an address."""
        return {
            f.name: f.say(f.value) for f in self.fields if f.value not in (f.usual, f.no_choice)
        }

    def split(self, query: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """The keys of an address that are this form's, and the others."""
        names = {field.name for field in self.fields}
        own = {key: text for key, text in query.items() if key in names}
        return own, {key: text for key, text in query.items() if key not in names}

    def read(self, own: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Values by widget, and what cannot be followed by key of the address."""
        found, problems = {}, {}
        for field in self.fields:
            if field.name not in own:
                continue
            try:
                found[field.key] = field.read(own[field.name])
            except ValueError as error:
                text = values.shortened(own[field.name])
                problems[field.name] = f"{field.name} must be {error}; it is {text}"
        return found, problems

    def adopt(self, found: Mapping[str, Any]) -> None:
        """Take over what an address says; what it does not name goes back to its start."""
        kept: dict[str, Any] = st.session_state.setdefault(KEPT, {})
        started: dict[str, Any] = st.session_state.setdefault(STARTED, {})
        for field in self.fields:
            for place in (kept, started):
                place.pop(field.key, None)
            st.session_state.setdefault(LIVE, set()).discard(field.key)
            if field.key in st.session_state:
                del st.session_state[field.key]
        for field in self.fields:
            if field.key in found:
                kept[field.key] = found[field.key]


def leave() -> None:
    """The reader has come to another page: the last one's widgets are gone."""
    st.session_state[LIVE] = set()
