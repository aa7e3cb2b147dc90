"""The alignment benchmark says so where message_filters is not at hand, and refuses what is not it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from tether.align import bench
from tether.errors import InvalidInputError


def arguments(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    return parser.parse_args(["--messages", "300", "--rounds", "2", *given])


def test_without_message_filters_there_are_metrics_no_ratio_and_a_note(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(bench.ENVIRONMENT, raising=False)
    result = bench.measure(arguments())
    assert set(result.metrics) == {"tether_sets_per_s", "tether_us_per_message"}
    assert result.ratios == {} and any("not at hand" in note for note in result.notes)


def test_place_without_message_filters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="checkout"):
        bench.measure(arguments("--message-filters", str(tmp_path)))


def test_sets_that_differ_stop_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "load_message_filters", lambda where: (None, "note"))
    monkeypatch.setattr(bench, "theirs", lambda module, work: lambda: [(0, 1, 2)])
    with pytest.raises(AssertionError, match="set 0 differs"):
        bench.measure(arguments("--message-filters", "anywhere"))


def test_same_seed_gives_the_same_messages() -> None:
    assert bench.workload(200, 4) == bench.workload(200, 4) != bench.workload(200, 5)
