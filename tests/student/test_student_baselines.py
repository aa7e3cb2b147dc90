"""Baselines that are chosen by name and need no training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tether.assembly import policy_kit, settings_hashes
from tether.contracts import Decision, FusedState, ImageFeature, ImuBatch, ImuSample, JointSample, SampleRef, Stream
from tether.errors import InvalidInputError
from tether.fusion.estimator import Arrivals
from tether.rollout import Rollout
from tether.student.baselines import (
    LINE_BOXES,
    Baseline,
    ConstantVelocityEstimator,
    Held,
    PaddedEstimator,
    straightened,
)
from tether.student.carry import straight_line
from tether.student.naming import StudentName, parse_name
from tether.student.observation import AGE_S, BOXES, FIELDS, NOMINAL_M, PLACE_M, Observation

MS = 1_000_000


def run(name: str, decisions: int = 25) -> list[tuple[FusedState, Decision]]:
    made = []
    with Rollout(name, "pick_moving", "real") as rollout:
        for _, trace in rollout.ticks(5):
            if trace is not None and trace.state is not None and trace.decision is not None:
                made.append((trace.state, trace.decision))
            if len(made) == decisions:
                return made
    raise AssertionError("the episode ended early")


def test_a_baseline_is_part_of_a_students_name(tmp_path: Path) -> None:
    assert parse_name("student+padded") == StudentName(None, (), Baseline.PADDED)
    assert parse_name("student+constant_velocity-camera") == StudentName(None, ("camera",), Baseline.CONSTANT_VELOCITY)
    assert parse_name("student@a+b/c+padded") == StudentName(Path("a+b/c"), (), Baseline.PADDED)
    assert parse_name("student@a+b") == StudentName(Path("a+b"))
    with pytest.raises(InvalidInputError, match="padded, constant_velocity after"):
        parse_name("student+guessed")


def test_baselines_run_the_students_own_models(tiny_student: Path) -> None:
    student, padded = (settings_hashes("pick", "real", f"student@{tiny_student}{end}") for end in ("", "+padded"))
    assert student == padded
    assert isinstance(policy_kit(f"student@{tiny_student}+padded").make_estimator(), PaddedEstimator)
    kit = policy_kit(f"student@{tiny_student}+constant_velocity")
    assert isinstance(kit.make_estimator(), ConstantVelocityEstimator) and not kit.is_oracle


@pytest.mark.parametrize("baseline", ["+padded", "+constant_velocity"])
def test_a_baseline_repeats_itself_and_decides_otherwise_than_the_student(tiny_student: Path, baseline: str) -> None:
    name = f"student@{tiny_student}"
    first, second, student = run(name + baseline), run(name + baseline), run(name)
    assert [d.state_hash for _, d in first] == [d.state_hash for _, d in second]
    assert any(a.features.tobytes() != b.features.tobytes() for (a, _), (b, _) in zip(first, student, strict=True))


def joint(stamp_ns: int) -> JointSample:
    return JointSample(SampleRef(Stream.JOINTS, stamp_ns, stamp_ns // MS), (), np.zeros(0), np.zeros(0))


def imu(stamp_ns: int) -> ImuBatch:
    sample = ImuSample(SampleRef(Stream.IMU, stamp_ns, stamp_ns // MS), np.zeros(3), np.zeros(3))
    return ImuBatch(0, 0, stamp_ns, (sample,))


def picture(stamp_ns: int) -> ImageFeature:
    return ImageFeature(SampleRef(Stream.CAMERA, stamp_ns, stamp_ns // MS), None, np.zeros((0, 6), np.float32))


def test_nothing_is_used_before_it_is_as_old_as_the_oldest_newest_picture() -> None:
    held = Held()
    released: list[tuple[Stream, int]] = []
    for k in range(1, 30):
        now = 50 * k * MS
        delay = (100 if k % 3 else 140) * MS
        pictures = [picture(now - delay)] if k > 3 else []
        out = held.release(now, Arrivals([imu(now - 5 * MS)], pictures, [joint(now - 10 * MS)], []))
        refs = [s.ref for s in out.joints] + [s.ref for s in out.pictures]
        refs += [sample.ref for batch in out.imu for sample in batch.samples]
        if k > 6:
            assert held.pad_ns == 140 * MS
            assert all(now - ref.stamp_ns >= held.pad_ns for ref in refs)
        released += [(ref.stream, ref.stamp_ns) for ref in refs]
    assert len(released) == len(set(released))
    assert sum(stream == Stream.JOINTS for stream, _ in released) == 29 - 3


def test_an_empty_sky_pads_nothing() -> None:
    held = Held()
    out = held.release(50 * MS, Arrivals([imu(45 * MS)], [], [joint(40 * MS)], []))
    assert held.pad_ns == 0 and len(out.joints) == 1 and len(out.imu) == 1


def test_a_straight_line_is_carried_on_at_constant_speed() -> None:
    age_s = np.array([0.12, 0.153, 0.187, 0.22])
    p, v = np.array([0.25, 0.01]), np.array([0.08, -0.15])
    got_p, got_v = straight_line(p - age_s[:, None] * v, age_s)
    assert np.allclose(got_p, p, atol=3e-4) and np.allclose(got_v, v, atol=3e-3)
    got_p, got_v = straight_line(p[None], np.array([0.12]))
    assert np.allclose(got_p, p) and np.allclose(got_v, 0.0)


def observation(n: int) -> Observation:
    out = {field.name: np.ones(field.shape, np.float32) for field in FIELDS}
    age_s = 0.12 + np.arange(BOXES) / 30.0
    place = np.array([0.26, 0.02]) - age_s[:, None] * np.array([0.1, 0.0])
    out["boxes"][:, 7:9] = (place - NOMINAL_M[:2]) / PLACE_M
    out["boxes_age"][:, 0] = age_s / AGE_S
    out["boxes_mask"][:] = np.arange(BOXES) < n
    return out


def test_the_line_of_constant_velocity_goes_through_the_newest_boxes_alone() -> None:
    bent = observation(BOXES)
    bent["boxes"][LINE_BOXES:, 7:9] += 0.5
    assert np.array_equal(straightened(bent)["coasted"], straightened(observation(BOXES))["coasted"])
    assert np.allclose(straightened(bent)["coasted"][3:5], (0.1, 0.0), atol=5e-3)


def test_constant_velocity_sees_no_imu_and_no_acceleration() -> None:
    before = observation(5)
    out = straightened(before)
    assert not out["imu"].any() and not out["imu_mask"].any() and not out["carried_mask"].any()
    assert np.allclose(out["coasted"][:2], (0.26, 0.02), atol=1e-3)
    assert np.allclose(out["coasted"][3:5], (0.1, 0.0), atol=5e-3)  # a speed is held near zero by what is known of it
    assert not out["coasted"][6:9].any()
    assert before["imu"].all()
    assert np.array_equal(straightened(observation(0))["coasted"], before["coasted"])
