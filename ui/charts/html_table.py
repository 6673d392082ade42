"""Tables as HTML, in the colours of the theme: a best and a worst value say so in words too."""

STYLE = """<style>
.bs-matrix { overflow-x: auto; }
.bs-matrix table { border-collapse: collapse; width: 100%; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
.bs-matrix caption { text-align: left; padding: 0 0 6px; font-size: .875rem; color: MUTED; }
.bs-matrix th, .bs-matrix td { padding: 6px 6px; border-bottom: 1px solid LINE; text-align: right;
  vertical-align: top; border-width: 0 0 1px; }
.bs-matrix thead th { color: MUTED; font-weight: 600; font-size: .8125rem; line-height: 1.25; }
.bs-matrix th:first-child { text-align: left; white-space: nowrap; }
.bs-matrix tbody th { font-weight: 600; }
.bs-matrix small { display: block; font-size: .75rem; line-height: 1.1; }
.bs-matrix .best { color: BEST; font-weight: 600; }
.bs-matrix .worst { color: WORST; font-weight: 600; }
.bs-matrix .words { text-align: left; min-width: 12rem; }
.bs-ways p { margin: 0 0 10px; line-height: 1.5; max-width: 60rem; }
</style>"""
LIGHT = {"MUTED": "#5b6472", "LINE": "#e3e6eb", "BEST": "#007a59", "WORST": "#a84300"}
DARK = {"MUTED": "#98a2b3", "LINE": "#2a3240", "BEST": "#2fc79a", "WORST": "#ff9a55"}


def style(dark: bool) -> str:
    text = STYLE
    for name, color in (DARK if dark else LIGHT).items():
        text = text.replace(name, color)
    return text


def wrapped(caption: str, heads: str, body: str, label: str) -> str:
    """A whole table. `label`: for screen readers; `heads` and `body` are HTML."""
    return (
        f'<div class="bs-matrix" tabindex="0" role="region" aria-label="{label}"><table>'
        f"<caption>{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
        "</table></div>"
    )
