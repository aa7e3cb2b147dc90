"""The threshold follows what is usual for the student, and only downwards."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.bridge.threshold import MovingThreshold, ThresholdConfig

CONFIG = ThresholdConfig(floor=0.05, quantile=0.99, margin=1.5, window=500, least=100)

errors = st.lists(st.one_of(st.none(), st.floats(0.0, 10.0), st.sampled_from([math.nan, math.inf, -1.0])), max_size=300)


@given(st.lists(errors, max_size=8))
@settings(deadline=None)
def test_threshold_never_loosens_and_never_goes_below_the_floor(episodes: list[list[float | None]]) -> None:
    threshold = MovingThreshold(CONFIG, 0.15)
    before = threshold.value
    for episode in episodes:
        after = threshold.observe(episode)
        assert CONFIG.floor <= after <= before
        before = after


def test_threshold_starts_where_it_is_told_and_waits_for_enough_errors() -> None:
    threshold = MovingThreshold(CONFIG, 0.15)
    assert threshold.observe([0.01] * 99) == 0.15
    assert threshold.observe([0.01]) == CONFIG.floor


def test_threshold_tightens_to_the_margin_over_what_is_usual() -> None:
    values = np.random.default_rng(3).uniform(0.0, 0.06, 500)
    threshold = MovingThreshold(CONFIG, 0.15)
    assert math.isclose(threshold.observe(values.tolist()), 1.5 * float(np.quantile(values, 0.99)))


def test_student_that_got_worse_does_not_move_the_threshold_up() -> None:
    threshold = MovingThreshold(CONFIG, 0.15)
    tight = threshold.observe([0.04] * 500)
    assert threshold.observe([0.5] * 500) == tight
