"""Figures of the report page."""

from __future__ import annotations

import io
from typing import Any


def pyplot() -> Any:
    """matplotlib's, drawing for SVG; loaded only where something is drawn."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plot

    return plot


def figure_html(figure: Any) -> str:
    """A figure as an element of the page; it is closed."""
    out = io.StringIO()
    figure.savefig(out, format="svg")
    pyplot().close(figure)
    text = out.getvalue()
    return f"<figure>{text[text.index('<svg') :]}</figure>"
