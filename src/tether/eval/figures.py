"""Figures of the report page."""

from __future__ import annotations

import io
from typing import Any

INK = "#1c2430"
"""Text and lines of a figure; in the page they take the colour of its text, which differs between light and dark."""


def pyplot() -> Any:
    """matplotlib's, drawing for SVG; loaded only where something is drawn."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plot

    plot.rcParams.update(
        {
            "text.color": INK,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.titlecolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
        }
    )
    return plot


def figure_html(figure: Any) -> str:
    """A figure as an element of the page, on the page's own ground; it is closed."""
    out = io.StringIO()
    figure.savefig(out, format="svg", transparent=True)
    pyplot().close(figure)
    text = out.getvalue().replace(INK, "currentColor")
    return f"<figure>{text[text.index('<svg') :]}</figure>"
