"""Numbers as text: thousands separated, always with a unit. Values are in SI units."""

import re

Parts = list[tuple[str, str | bool]]  # words, and the tone they are set in (True: bold)
EQUAL = 0.01  # relative; figures that differ by less count as equal


def count(n: float) -> str:
    """1234.5 as "1,234"."""
    return f"{n:,.0f}"


def seconds(s: float) -> str:
    """About three digits and a unit: 0.43 ms, 14.6 ms, 169 ms, 1.02 s, 12.3 s."""
    ms = s * 1e3
    if ms == 0:
        return "0 ms"
    if ms < 1:
        return f"{ms:.2f} ms"
    if ms < 99.95:
        return f"{ms:.1f} ms"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if s < 9.995:
        return f"{s:.2f} s"
    return f"{s:.1f} s" if s < 99.95 else f"{s:,.0f} s"


def close(a: float, b: float) -> bool:
    """Do two figures count as equal?"""
    return abs(a - b) <= EQUAL * max(abs(a), abs(b), 1e-12)


def without_markup(markdown: str) -> str:
    """A sentence without its colours and its bold."""
    return re.sub(r":\w+\[|\]|\*\*", "", markdown)
