"""The estimator of `classic`: validity, the hand, and replay of its state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tether.assembly import robot, skill_of_task
from tether.contracts import F64, Estimate, ImageFeature, ImuBatch, JointSample, SampleRef, Stream
from tether.fusion.classic import ClassicEstimator, load_classic_config
from tether.fusion.estimator import Arrivals
from tether.motion.kinematics import ArmKinematics
from tether.resources import resource_path
from tether.robot.roles import COMMAND_JOINTS

MS = 1_000_000
START_NS = 1_000_000_000
CONFIG = load_classic_config(resource_path("config", "classic.yaml"))
KINEMATICS = ArmKinematics(robot())
PictureMaker = Callable[[F64, int], ImageFeature]


def _estimator() -> ClassicEstimator:
    estimator = ClassicEstimator(robot(), CONFIG)
    estimator.reset(skill_of_task("pick"))
    return estimator


def _joints(stamp_ns: int, tool: F64, opening_m: float) -> JointSample:
    q, _ = KINEMATICS.inverse(tool, np.zeros(3), 0.0)
    position = np.append(q, opening_m / 2.0)
    return JointSample(SampleRef(Stream.JOINTS, stamp_ns, 0), COMMAND_JOINTS, position, np.zeros(6))


def _still_imu(carried: Any, stamp_ns: int) -> ImuBatch:
    still = dataclasses.replace(carried, speed_m_s=0.0)
    samples = tuple(still.imu(stamp_ns - back * 5 * MS, 0) for back in range(9, -1, -1))
    return ImuBatch(0, 0, stamp_ns, samples)


def _run(
    estimator: ClassicEstimator,
    carried: Any,
    picture: PictureMaker,
    ticks: range,
    cube: F64 | None,
    tool: F64,
    opening_m: float,
) -> list[Estimate]:
    """Decisions `ticks` of 50 ms; pictures of `cube` (None: no pictures), 120 ms late."""
    estimates = []
    for tick in ticks:
        now_ns = START_NS + tick * 50 * MS
        pictures = [] if cube is None else [picture(cube, now_ns - 120 * MS)]
        joints = [_joints(now_ns - back * 10 * MS, tool, opening_m) for back in (4, 3, 2, 1, 0)]
        estimates.append(estimator.update(now_ns, Arrivals([_still_imu(carried, now_ns)], pictures, joints, [])))
    return estimates


CUBE = np.array([0.25, 0.03, 0.012])
ABOVE = np.array([0.25, 0.03, 0.10])


def test_nothing_seen_is_not_valid(carried: Any, picture: PictureMaker) -> None:
    last = _run(_estimator(), carried, picture, range(5), None, ABOVE, 0.044)[-1]
    assert not last.valid and last.sigma_m == float("inf")


def test_still_cube_is_found_where_it_is(carried: Any, picture: PictureMaker) -> None:
    last = _run(_estimator(), carried, picture, range(20), CUBE, ABOVE, 0.044)[-1]
    assert last.valid
    assert last.p_base_cube == pytest.approx(CUBE, abs=0.001)
    assert np.abs(last.v_base_cube).max() < 0.003


def test_a_second_without_pictures_ends_validity_and_one_picture_brings_it_back(
    carried: Any, picture: PictureMaker
) -> None:
    estimator = _estimator()
    _run(estimator, carried, picture, range(20), CUBE, ABOVE, 0.044)
    blind = _run(estimator, carried, picture, range(20, 50), None, ABOVE, 0.044)
    # Pictures are 120 ms late, so the last one is that old already.
    assert [e.valid for e in blind[:17]] == [True] * 17
    assert not any(e.valid for e in blind[18:])
    assert _run(estimator, carried, picture, range(50, 51), CUBE, ABOVE, 0.044)[-1].valid


def test_held_cube_is_where_the_tool_is(carried: Any, picture: PictureMaker) -> None:
    estimator = _estimator()
    _run(estimator, carried, picture, range(20), CUBE, CUBE, 0.044)
    held = _run(estimator, carried, picture, range(20, 30), CUBE, CUBE, 0.024)
    assert held[-1].p_base_cube == pytest.approx(CUBE, abs=1e-6)
    lifted = _run(estimator, carried, picture, range(30, 40), ABOVE, ABOVE, 0.024)
    assert lifted[-1].valid
    assert lifted[-1].p_base_cube == pytest.approx(ABOVE, abs=1e-6)


def test_fingers_that_hold_while_the_camera_sees_the_cube_elsewhere_are_not_believed(
    carried: Any, picture: PictureMaker
) -> None:
    estimator = _estimator()
    elsewhere = np.array([0.22, -0.04, 0.012])
    _run(estimator, carried, picture, range(20), elsewhere, CUBE, 0.044)
    _run(estimator, carried, picture, range(20, 24), None, CUBE, 0.024)
    seen = _run(estimator, carried, picture, range(24, 44), elsewhere, ABOVE, 0.024)
    assert seen[-1].p_base_cube == pytest.approx(elsewhere, abs=0.002)


def test_same_arrivals_give_the_same_hash_and_reset_forgets(carried: Any, picture: PictureMaker) -> None:
    estimator, hashes = _estimator(), []
    fresh = estimator.state_hash()
    for _ in range(2):
        estimator.reset(skill_of_task("pick"))
        assert estimator.state_hash() == fresh
        _run(estimator, carried, picture, range(20), CUBE, ABOVE, 0.044)
        hashes.append(estimator.state_hash())
    assert hashes[0] == hashes[1] != fresh
