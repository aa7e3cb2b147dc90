"""Figures of benchmarks: percentiles, ratios of pairs measured side by side."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.bench.figures import Benchmark, Metric, Ratio, in_turn

times = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=30)


@given(values=times)
def test_metric_is_ordered_and_counts_its_values(values: list[float]) -> None:
    metric = Metric.of(values, "s")
    assert metric.n == len(values)
    assert metric.min == min(values)
    assert metric.max == max(values)
    assert metric.min <= metric.p50 <= metric.p99 * (1 + 1e-12)
    assert metric.p99 <= metric.max * (1 + 1e-12)
    assert metric.median == pytest.approx(metric.p50)


@given(values=times, factor=st.floats(0.1, 10.0))
def test_ratio_is_how_many_times_as_fast(values: list[float], factor: float) -> None:
    ratio = Ratio.of(values, [factor * value for value in values], "reference")
    assert ratio.value == pytest.approx(factor)
    assert ratio.low == pytest.approx(factor)
    assert ratio.high == pytest.approx(factor)


def test_ratio_pairs_what_was_measured_next_to_each_other() -> None:
    slow_machine_second = Ratio.of([1.0, 10.0], [2.0, 20.0], "reference")
    assert slow_machine_second.value == 2.0


def test_figures_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        Metric.of([], "s")
    with pytest.raises(ValueError, match="equally many"):
        Ratio.of([1.0], [1.0, 2.0], "reference")
    with pytest.raises(ValueError, match="equally many"):
        Ratio.of([], [], "reference")


def test_benchmark_is_json_and_a_table_that_names_everything() -> None:
    benchmark = Benchmark(
        "world", {"step": Metric.of([1.0, 2.0], "ms")}, {"speed": Ratio.of([1.0], [2.0], "bare loop")}, ("a note",)
    )
    result = json.loads(json.dumps(benchmark.as_json(3), allow_nan=False))
    assert (result["tool"], result["seed"]) == ("bench world", 3)
    assert set(result["metrics"]["step"]) == {"median", "p50", "p99", "min", "max", "n", "unit"}
    assert set(result["ratios"]["speed"]) == {"value", "low", "high", "against"}
    table = benchmark.as_table()
    for word in ("world", "step", "ms", "speed", "bare loop", "a note"):
        assert word in table


def test_calls_take_turns_and_warm_up_is_not_counted() -> None:
    order: list[str] = []
    kept = in_turn([lambda: order.append("a"), lambda: order.append("b")], rounds=3, warm_up=2)
    assert order == ["a", "b"] * 5
    assert [len(one) for one in kept] == [3, 3]
    assert all(value >= 0.0 for one in kept for value in one)
