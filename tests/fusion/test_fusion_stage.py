"""The fusion stage: which samples were used decides the state, not the order in which they came."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.assembly import make_fusion_stage, skill_of_task
from tether.codec import convert, encode
from tether.contracts import (
    Command,
    Estimate,
    ExecutedCommand,
    FusedState,
    ImageFeature,
    ImuBatch,
    ImuSample,
    JointSample,
    SampleRef,
    Source,
    Stream,
)
from tether.fusion.estimator import Arrivals, NoEstimator
from tether.fusion.stage import IMU_WINDOW, FusionStage
from tether.robot.roles import COMMAND_JOINTS

SKILL = skill_of_task("pick")
NOW_NS = 2_000_000_000


def imu(number: int) -> ImuSample:
    values = np.array([number, 0.0, 0.0])
    return ImuSample(SampleRef(Stream.IMU, NOW_NS - 5_000_000 * (100 - number), number), values, values + 9.81)


def joints(number: int, stamp_ns: int) -> JointSample:
    zero = np.zeros(len(COMMAND_JOINTS))
    return JointSample(SampleRef(Stream.JOINTS, stamp_ns, number), COMMAND_JOINTS, zero + 0.01 * number, zero)


def picture(number: int, stamp_ns: int, rejected: str | None = None) -> ImageFeature:
    box = np.array([[1, 2, 3 + number, 4, 0.9, 0]], np.float32)
    return ImageFeature(SampleRef(Stream.CAMERA, stamp_ns, number), None, box, rejected=rejected)


def executed(number: int, stamp_ns: int) -> ExecutedCommand:
    zero = np.zeros(len(COMMAND_JOINTS))
    command = Command(number, stamp_ns, -1, Source.GATE, COMMAND_JOINTS, zero, zero, np.zeros(3))
    return ExecutedCommand(SampleRef(Stream.EXECUTED, stamp_ns, number), command, False)


def batches(samples: list[ImuSample]) -> list[ImuBatch]:
    return [ImuBatch(0, i, sample.ref.stamp_ns, (sample,)) for i, sample in enumerate(samples)]


def stage() -> FusionStage:
    made = FusionStage(NoEstimator())
    made.reset(SKILL)
    return made


def as_bytes(state: FusedState) -> bytes:
    return encode(convert.fused_state_message(state, 0))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), policy=st.sampled_from(["scripted", "classic"]))
def test_same_arrivals_in_any_order_make_the_same_state(seed: int, policy: str) -> None:
    came: dict[str, list[Any]] = {
        "imu": [imu(i) for i in range(20)],
        "joints": [joints(i, NOW_NS - 10_000_000 * (10 - i)) for i in range(5)],
        "pictures": [picture(i, NOW_NS - 120_000_000 + 30_000_000 * i) for i in range(3)],
        "executed": [executed(i, NOW_NS - 10_000_000 * (10 - i)) for i in range(5)],
    }
    states = []
    for shuffled in (False, True):
        if shuffled:
            order = random.Random(seed)
            for items in came.values():
                order.shuffle(items)
        made = make_fusion_stage(policy)
        made.reset(SKILL)
        arrivals = Arrivals(batches(came["imu"]), came["pictures"], came["joints"], came["executed"])
        states.append((as_bytes(made.step(3, NOW_NS, arrivals)), made.state_hash()))
    assert states[0] == states[1]


def test_state_names_every_sample_once_in_canonical_order() -> None:
    arrivals = Arrivals(batches([imu(2), imu(1)]), [picture(0, 5)], [joints(0, 7)], [executed(0, 6)])
    used = stage().step(0, NOW_NS, arrivals).used
    assert used == (
        SampleRef(Stream.CAMERA, 5, 0),
        SampleRef(Stream.EXECUTED, 6, 0),
        imu(1).ref,
        imu(2).ref,
        SampleRef(Stream.JOINTS, 7, 0),
    )


def test_ages_are_those_of_the_newest_samples_and_absent_where_none_came() -> None:
    made = stage()
    first = made.step(0, NOW_NS, Arrivals([], [], [joints(0, NOW_NS - 30), joints(1, NOW_NS - 10)], []))
    assert first.age_ns == {Stream.JOINTS: 10}
    later = made.step(1, NOW_NS + 50, Arrivals([], [], [joints(2, NOW_NS - 20)], []))
    assert later.age_ns == {Stream.JOINTS: 60}, "a late sample does not make the newest one older"
    assert later.joints is not None
    assert later.joints.ref.sequence == 1


def test_refused_picture_is_named_but_neither_seen_nor_young() -> None:
    made = stage()
    made.step(0, NOW_NS, Arrivals([], [picture(0, NOW_NS - 50)], [], []))
    state = made.step(1, NOW_NS, Arrivals([], [picture(1, NOW_NS - 5, rejected="short_data")], [], []))
    assert SampleRef(Stream.CAMERA, NOW_NS - 5, 1) in state.used
    assert state.age_ns[Stream.CAMERA] == 50
    assert state.detections[0, 2] == 3.0


def test_window_holds_the_last_hundred_readings_newest_last() -> None:
    made = stage()
    made.step(0, NOW_NS, Arrivals(batches([imu(i) for i in range(60)]), [], [], []))
    state = made.step(1, NOW_NS, Arrivals(batches([imu(i) for i in range(60, 130)]), [], [], []))
    assert state.imu_window.shape == (6, IMU_WINDOW)
    assert state.imu_window[0].tolist() == list(range(30, 130))


def test_reset_forgets_everything() -> None:
    made = stage()
    everything = Arrivals(batches([imu(1)]), [picture(0, 5)], [joints(0, 7)], [executed(0, 6)])
    nothing = Arrivals([], [], [], [])
    made.step(0, NOW_NS, everything)
    made.reset(SKILL)
    assert as_bytes(made.step(0, NOW_NS, nothing)) == as_bytes(stage().step(0, NOW_NS, nothing))


def test_oracle_has_no_estimate_of_its_own() -> None:
    state = stage().step(0, NOW_NS, Arrivals([], [], [], []))
    assert not state.estimate.valid
    assert state.estimate.sigma_m == pytest.approx(Estimate.none(0).sigma_m)
