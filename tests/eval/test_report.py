"""The report page reads well whether its reader prefers light or dark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tether.bench.way import Split, Way
from tether.contracts import EpisodeResult, EpisodeSpec
from tether.eval import report, waterfall
from tether.eval.waterfall import section

TEXT, GRAPHICS = 4.5, 3.0
"""Least contrast, WCAG 2.2, 1.4.3 and 1.4.11."""
SPLITS = [Split(10.0, 3.0, 1.0, 6.0, 2.0)]


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as WCAG 2.2 defines it."""
    linear = []
    for at in (1, 3, 5):
        share = int(colour[at : at + 2], 16) / 255
        linear.append(share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def schemes() -> Iterator[dict[str, str]]:
    for block in re.findall(r":root {([^}]*)}", report._STYLE):
        yield dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))


def test_text_and_figures_stand_out_in_light_and_in_dark() -> None:
    light, dark = schemes()
    assert "(prefers-color-scheme: dark)" in report._STYLE
    assert luminance(light["page"]) > 0.9 and luminance(dark["page"]) < 0.05
    for scheme in (light, dark):
        assert min(contrast(scheme[name], scheme["page"]) for name in ("text", "note")) >= TEXT
        for colour in (report._GOOD, report._BAD, waterfall._COLOUR):
            assert contrast(colour, scheme["page"]) >= GRAPHICS


def test_plots_have_the_pages_ground_and_the_colour_of_its_text() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `sim`")
    results = [
        EpisodeResult(EpisodeSpec("pick", "real", 0), True, True, 1, 2.5, None),
        EpisodeResult(EpisodeSpec("pick", "real", 1), False, False, 4, 20.0, "time"),
    ]
    page = report._plots(results) + section(Way(splits=SPLITS))
    assert page.count("<svg") == 2
    drawn = {colour.lower() for colour in re.findall(r"(?:fill|stroke): (#[0-9a-fA-F]{3,8})", page)}
    assert drawn == {report._GOOD, report._BAD, waterfall._COLOUR}
    assert page.count("currentColor") > 20
