"""The ledger pays each subgoal once, in order, on hard thresholds, and cannot be farmed."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.assembly import make_world
from tether.errors import InvalidInputError
from tether.rewards.build import make_ledger, reward_config
from tether.rewards.config import ORDER, Subgoal
from tether.rewards.ledger import Ledger, Payment
from tether.rewards.measured import Measured

TICK = 10_000_000
ABOVE = Measured(0, 0.005, 0.05, 0.044, 0.044, False, 0.0)
GRIPPED = Measured(0, 0.002, 0.003, 0.024, 0.0, True, 0.0)
RAISED = dataclasses.replace(GRIPPED, cube_height_m=0.06)
AWAY = Measured(0, 0.10, 0.08, 0.056, 0.056, False, 0.0)


class Clocked:
    """Feeds a ledger one measurement a tick."""

    def __init__(self, task_name: str = "pick") -> None:
        self.ledger: Ledger = make_ledger(task_name)
        self.now_ns = 0
        self.paid: list[Payment] = []

    def feed(self, measured: Measured, ticks: int = 1) -> list[Subgoal]:
        new: list[Payment] = []
        for _ in range(ticks):
            self.now_ns += TICK
            new += self.ledger.judge(dataclasses.replace(measured, stamp_ns=self.now_ns))
        self.paid += new
        return [payment.subgoal for payment in new]


def test_a_clean_pick_pays_all_five_in_order_with_the_stamps_of_their_moments() -> None:
    run = Clocked()
    assert run.feed(ABOVE, 10) == [Subgoal.ALIGNED]
    assert run.feed(GRIPPED, 1) == [Subgoal.TOUCHED]
    assert run.feed(GRIPPED, 30) == [Subgoal.HELD]
    assert run.feed(RAISED, 1) == [Subgoal.LIFTED]
    raised_ns = run.now_ns
    assert run.feed(RAISED, 120) == [Subgoal.KEPT]
    assert [p.subgoal for p in run.paid] == list(ORDER)
    assert run.paid[-1].stamp_ns == raised_ns + 990_000_000, "the hundredth tick, as the judge counts"
    assert run.paid[-1].task_return == pytest.approx(reward_config().value.total)


def test_dwell_starts_over_when_the_condition_breaks() -> None:
    run = Clocked()
    for _ in range(20):
        assert run.feed(ABOVE, 4) == []
        assert run.feed(AWAY, 1) == []
    assert run.feed(ABOVE, 5) == [Subgoal.ALIGNED]


def test_a_silence_vouches_for_nothing() -> None:
    run = Clocked()
    run.feed(ABOVE, 10), run.feed(GRIPPED, 30), run.feed(RAISED, 50)
    run.now_ns += 2_000_000_000
    assert run.feed(RAISED, 99) == []
    assert run.feed(RAISED, 2) == [Subgoal.KEPT]


def test_later_subgoals_wait_for_the_earlier_ones() -> None:
    run = Clocked()
    assert run.feed(RAISED, 300) == [], "a cube in the air that was never aligned with pays nothing"
    assert run.feed(ABOVE, 5) == [Subgoal.ALIGNED]


@pytest.mark.parametrize(
    "cycle",
    [
        [(ABOVE, 6), (AWAY, 3)],
        [(ABOVE, 200)],
        [(ABOVE, 6), (GRIPPED, 2), (ABOVE, 2)],
        [(ABOVE, 6), (GRIPPED, 30), (RAISED, 20), (GRIPPED, 1)],
        [(ABOVE, 6), (GRIPPED, 30), (RAISED, 150), (AWAY, 10)],
    ],
    ids=["oscillating", "hovering", "tapping", "bobbing at the threshold", "dropping and grasping again"],
)
def test_farming_never_pays_more_than_each_subgoal_once(cycle: list[tuple[Measured, int]]) -> None:
    run = Clocked()
    for _ in range(40):
        for measured, ticks in cycle:
            run.feed(measured, ticks)
    names = [payment.subgoal for payment in run.paid]
    assert len(names) == len(set(names))
    assert sum(payment.value for payment in run.paid) <= reward_config().value.total + 1e-12


MEASUREMENT = st.builds(
    Measured,
    stamp_ns=st.just(0),
    flat_m=st.one_of(st.none(), st.floats(0, 0.03)),
    above_m=st.one_of(st.none(), st.floats(-0.02, 0.1)),
    opening_m=st.one_of(st.none(), st.floats(0, 0.056)),
    commanded_opening_m=st.one_of(st.none(), st.sampled_from([0.0, 0.03, 0.044])),
    gripping=st.booleans(),
    cube_height_m=st.one_of(st.none(), st.floats(0, 0.1)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(MEASUREMENT, st.integers(1, 120)), max_size=30))
def test_whatever_happens_what_is_paid_is_a_prefix_of_the_table(events: list[tuple[Measured, int]]) -> None:
    run = Clocked()
    for measured, ticks in events:
        run.feed(measured, ticks)
    assert [payment.subgoal for payment in run.paid] == list(ORDER[: len(run.paid)])
    assert run.ledger.paid == ORDER[: len(run.paid)]


def test_thresholds_are_hard_up_to_the_tolerance() -> None:
    config = reward_config()
    just = dataclasses.replace(ABOVE, flat_m=config.aligned.flat_m + 0.5 * config.tolerance_m)
    beyond = dataclasses.replace(ABOVE, flat_m=config.aligned.flat_m + 3 * config.tolerance_m)
    assert Clocked().feed(just, 20) == [Subgoal.ALIGNED]
    assert Clocked().feed(beyond, 500) == []


def test_a_grip_that_nobody_commanded_does_not_count() -> None:
    run = Clocked()
    run.feed(ABOVE, 10)
    assert run.feed(dataclasses.replace(GRIPPED, commanded_opening_m=0.044), 100) == []
    assert run.feed(dataclasses.replace(GRIPPED, commanded_opening_m=None), 100) == []


def test_what_is_not_finite_or_not_newer_is_refused_and_changes_nothing() -> None:
    with pytest.raises(InvalidInputError, match="flat_m"):
        dataclasses.replace(ABOVE, flat_m=float("nan"))
    run = Clocked()
    run.feed(ABOVE, 5)
    with pytest.raises(InvalidInputError, match="stamp_ns"):
        run.ledger.judge(dataclasses.replace(ABOVE, stamp_ns=run.now_ns))
    assert run.feed(ABOVE, 1) == [Subgoal.ALIGNED], "the refused measurement left the dwell as it was"


def test_an_unmeasured_world_has_no_measures_and_a_measured_one_delivers_none() -> None:
    world = make_world("pick", "ideal_lagged", truth_age_ns=None, pictures=False)
    with pytest.raises(RuntimeError, match="measures=True"):
        world.measure()
    from tether.contracts import EpisodeSpec, TruthSample

    world = make_world("pick", "ideal_lagged", truth_age_ns=None, pictures=False, measures=True)
    delivery = world.reset(EpisodeSpec("pick", "ideal_lagged", 3))
    for _ in range(12):
        assert not any(isinstance(sample, TruthSample) for sample in delivery.samples)
        assert world.measure().ref.sequence == delivery.tick
        delivery = world.step(None)
    with pytest.raises(RuntimeError, match="truth channel"):
        world.truth()
