"""The benchmark of the memory keeps, verifies, asks and plans for real."""

from __future__ import annotations

import argparse

import pytest

pytest.importorskip("faiss", reason="needs the extra agent")
pytest.importorskip("pyoxigraph", reason="needs the extra agent")
pytest.importorskip("up_aries", reason="needs the extra agent, which has Aries on x86-64 only")

from tether.memory import bench


@pytest.mark.timeout(600)
def test_the_benchmark_keeps_runs_opens_them_again_and_begins_from_what_they_taught() -> None:
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    result = bench.measure(parser.parse_args(["--runs", "3", "--repeats", "2", "--scenes", "12"]))
    assert result.metrics["keep_a_run"].n == 3
    assert result.metrics["begin_from_memory"].median > 0.0
    assert set(result.ratios) > {"memory_against_search", "memory_against_aries"}
    # The labels of scenes that differ only in where things lie are worth what chance is.
    assert result.metrics["recall_alike_text_colour_at_1"].median == pytest.approx(1 / 12)
    assert result.metrics["recall_alike_visual_map_at_1"].median > 4 / 12
    assert result.ratios["recall_alike_at_1_colour"].value > 4.0
    assert result.notes[1].startswith("22 entries")  # 3 x 6 states, the chain once, a trial a run
