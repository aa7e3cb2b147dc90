"""The filter over late pictures and IMU readings."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from tether.assembly import robot
from tether.contracts import F64, ImageFeature
from tether.fusion.box_model import BoxModel
from tether.fusion.classic_config import ClassicConfig, load_classic_config
from tether.fusion.kalman import ACCEL_BIAS, CubeMotion
from tether.fusion.tracker import CubeTracker
from tether.resources import resource_path

MS = 1_000_000
START_NS = 1_000_000_000
CONFIG = load_classic_config(resource_path("config", "classic.yaml"))
DELAY_NS = 120 * MS
FRAME_NS = 33 * MS
PictureMaker = Callable[[F64, int], ImageFeature]


def _tracker(config: ClassicConfig = CONFIG) -> CubeTracker:
    boxes = BoxModel(robot(), "camera_optical_frame", config.cube.side_m)
    return CubeTracker(boxes, CubeMotion(np.array([-0.03, 0.0, 0.09]), config.cube, config.imu), config)


def _without_imu() -> ClassicConfig:
    return dataclasses.replace(CONFIG, imu=dataclasses.replace(CONFIG.imu, enabled=False))


def _errors(tracker: CubeTracker, carried: Any, seconds: float, pictures: Iterable[ImageFeature] | None = None) -> F64:
    """Horizontal errors in m at each decision, pictures coming DELAY_NS late; the first half second is left out."""
    frames = iter(pictures or (carried.picture(START_NS + i * FRAME_NS) for i in itertools.count()))
    frame, errors = next(frames), []
    for ms in range(0, round(seconds * 1000), 5):
        now_ns = START_NS + ms * MS
        tracker.add_imu(carried.imu(now_ns, ms))
        while frame.ref.stamp_ns + DELAY_NS <= now_ns:
            tracker.observe(frame)
            frame = next(frames)
        found = tracker.at(now_ns)
        if ms % 50 == 0 and ms >= 500:
            assert found is not None
            errors.append(np.linalg.norm((found[0].p - carried.cube(now_ns))[:2]))
    return np.array(errors)


def test_imu_carries_the_estimate_over_the_camera_delay(carried: Any) -> None:
    assert _errors(_tracker(), carried, 4.0).max() < 0.002


def test_without_imu_the_same_motion_is_missed_by_more_than_the_gripper_forgives(carried: Any) -> None:
    assert _errors(_tracker(_without_imu()), carried, 4.0).max() > 0.010


def test_constant_velocity_is_followed_without_imu(picture: PictureMaker) -> None:
    class Straight:
        def cube(self, stamp_ns: int) -> F64:
            return np.array([0.2 + 0.05 * (stamp_ns - START_NS) * 1e-9, 0.0, 0.012])

    track = _tracker(_without_imu())
    for i in range(40):
        stamp_ns = START_NS + i * FRAME_NS
        track.observe(picture(Straight().cube(stamp_ns), stamp_ns))
    now_ns = START_NS + 39 * FRAME_NS + DELAY_NS
    found = track.at(now_ns)
    assert found is not None
    assert found[0].p[:2] == pytest.approx(Straight().cube(now_ns)[:2], abs=0.001)
    assert found[0].v[:2] == pytest.approx([0.05, 0.0], abs=0.004)


def test_pictures_in_any_order_of_arrival_give_the_same_estimate(carried: Any) -> None:
    stamps = [START_NS + i * FRAME_NS for i in range(12)]
    estimates = []
    for order in (stamps, [stamps[0], *random.Random(3).sample(stamps[1:], 11)]):
        tracker = _tracker()
        for ms in range(0, 500, 5):
            tracker.add_imu(carried.imu(START_NS + ms * MS, ms))
        for stamp_ns in order:
            tracker.observe(carried.picture(stamp_ns))
        found = tracker.at(START_NS + 500 * MS)
        assert found is not None
        estimates.append(np.concatenate((found[0].p, found[0].v, found[0].covariance.ravel())))
    assert estimates[0].tobytes() == estimates[1].tobytes()


def test_picture_from_before_the_history_changes_nothing(carried: Any) -> None:
    tracker = _tracker()
    _errors(tracker, carried, 2.0)
    before = tracker.digest()
    tracker.observe(carried.picture(START_NS + 10 * MS))
    assert tracker.digest() == before


def test_accelerometer_bias_is_learnt(carried: Any) -> None:
    biased = dataclasses.replace(carried, accel_bias=(0.08, -0.06))
    tracker = _tracker()
    errors = _errors(tracker, biased, 6.0)
    assert tracker.newest is not None
    # Tilt of the ground and bias look alike; what the motion feels is their sum.
    x = tracker.newest.belief.x
    felt = x[ACCEL_BIAS] - 9.81 * np.array([x[5], -x[4]])
    assert felt == pytest.approx([0.08, -0.06], abs=0.02)
    assert errors[-20:].max() < 0.002


@pytest.mark.parametrize("hide", [(9.0, 0, 0, 0), (0, 0, -9.0, 0), (0, 8.0, 0, 0), (0, 0, 0, -8.0)])
def test_a_hidden_side_does_not_pull_the_estimate(carried: Any, hide: tuple[float, float, float, float]) -> None:
    def frames() -> Iterable[ImageFeature]:
        for i in itertools.count():
            yield carried.picture(START_NS + i * FRAME_NS, hide if i >= 30 else (0, 0, 0, 0))

    assert _errors(_tracker(), carried, 2.0, frames()).max() < 0.0025


def test_two_halves_of_a_cube_behind_a_finger_are_one_cube(carried: Any) -> None:
    def halves(picture: ImageFeature) -> ImageFeature:
        x1, y1, x2, y2, score, kind = picture.detections[0]
        third = (x2 - x1) / 3
        rows = [[x1, y1, x1 + third, y2, score, kind], [x2 - third, y1, x2, y2, score, kind]]
        return dataclasses.replace(picture, detections=np.array(rows, np.float32))

    def frames() -> Iterable[ImageFeature]:
        for i in itertools.count():
            picture = carried.picture(START_NS + i * FRAME_NS)
            yield halves(picture) if i >= 30 else picture

    assert _errors(_tracker(), carried, 2.0, frames()).max() < 0.002


def test_a_cube_that_is_elsewhere_is_believed_after_several_whole_views(carried: Any, picture: PictureMaker) -> None:
    tracker, first, second = _tracker(), np.array([0.24, 0.05, 0.012]), np.array([0.26, -0.06, 0.012])
    still = dataclasses.replace(carried, speed_m_s=0.0)
    for ms in range(0, 600, 5):
        tracker.add_imu(still.imu(START_NS + ms * MS, ms))
    for i in range(10):
        tracker.observe(picture(first, START_NS + i * FRAME_NS))
    places = []
    for i in range(10, 10 + CONFIG.box.lost_after):
        tracker.observe(picture(second, START_NS + i * FRAME_NS))
        found = tracker.at(START_NS + i * FRAME_NS)
        assert found is not None
        places.append(found[0].p[1])
    assert places[:-1] == pytest.approx([0.05] * (CONFIG.box.lost_after - 1), abs=0.005)
    assert places[-1] == pytest.approx(-0.06, abs=0.002)


def test_a_speck_of_the_right_colour_is_no_cube(picture: PictureMaker) -> None:
    tracker = _tracker()
    whole = picture(np.array([0.24, 0.0, 0.012]), START_NS)
    speck = whole.detections.copy()
    speck[0, 2:4] = speck[0, :2] + 4.0
    tracker.observe(dataclasses.replace(whole, detections=speck))
    assert tracker.at(START_NS) is None


def test_memory_stays_bounded_without_pictures(carried: Any) -> None:
    def size(tracker: CubeTracker, seconds: int) -> int:
        for ms in range(0, seconds * 1000, 5):
            now_ns = START_NS + ms * MS
            tracker.add_imu(carried.imu(START_NS, 0) if ms == 0 else _at(now_ns))
            if ms % 50 == 0:
                tracker.tidy(now_ns)
        return len(tracker._imu.dump())

    def _at(stamp_ns: int) -> Any:
        sample = carried.imu(START_NS)
        return dataclasses.replace(sample, ref=dataclasses.replace(sample.ref, stamp_ns=stamp_ns))

    never_seen, seen_once = _tracker(), _tracker()
    seen_once.observe(carried.picture(START_NS))
    assert size(never_seen, 20) < 2 * size(_tracker(), 1)
    assert size(seen_once, 20) < 3 * size(_tracker(), 1)
