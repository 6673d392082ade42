"""Numbers as a reader wants them: thousands separated, units always. SI inside, ms and GB only
here."""


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
