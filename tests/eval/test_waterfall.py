"""The report's waterfall: steps add up to the whole, and runs without times have none."""

from __future__ import annotations

import pytest

from tether.bench.way import Split, Way
from tether.eval.waterfall import section, steps_of

SPLITS = [Split(10.0, 3.0, 1.0, 6.0, 2.0), Split(30.0, 5.0, 1.0, 2.0, 4.0)]


def test_each_step_begins_where_the_one_before_ends_and_all_make_the_whole() -> None:
    *steps, whole = steps_of(SPLITS)
    assert [step.mean for step in steps] == pytest.approx([20.0, 4.0, 1.0, 4.0, 3.0])
    assert [step.start for step in steps] == pytest.approx([0.0, 20.0, 24.0, 25.0, 29.0])
    assert whole.start == 0.0
    assert whole.mean == pytest.approx(steps[-1].start + steps[-1].mean)
    assert (whole.p50, whole.p99) == pytest.approx((32.0, 41.8))


def test_the_section_names_every_step_with_its_figures() -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `sim`")
    page = section(Way(splits=SPLITS, camera_age_ms=[120.0], decode_ms=[6.5], missed=1))
    assert page.count("<svg") == 1
    for words in (
        "wait for the next decision",
        "executor&#x27;s tick",
        "sensor to gated command",
        "120 ms old",
        "6.5 ms",
    ):
        assert words in page
    assert "<td>32.00</td><td>32.00</td><td>41.80</td>" in page


def test_a_run_in_lockstep_has_no_section() -> None:
    assert section(Way(decisions=3)) == ""
