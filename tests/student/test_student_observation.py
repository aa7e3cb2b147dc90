"""What had arrived, as arrays: ages, masks, missing modalities, and one code for training and run time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tether.assembly import robot, skill_of_task
from tether.contracts import (
    DECISION_NS,
    CameraModel,
    Command,
    ExecutedCommand,
    ImageFeature,
    ImuBatch,
    ImuSample,
    JointSample,
    SampleRef,
    Source,
    Stream,
)
from tether.fusion.box_model import BoxModel
from tether.fusion.estimator import Arrivals
from tether.robot.roles import COMMAND_JOINTS
from tether.student.observation import AGE_S, BOXES, DROPS, FIELDS, MODALITIES, Observation, Observer

MS = 1_000_000
START = 1_000_000_000
CAMERA = CameraModel(320, 240, np.array([[242.2, 0.0, 159.5], [0.0, 242.2, 119.5], [0.0, 0.0, 1.0]]))
CUBE = np.array([0.25, 0.01, 0.012])
POSE = np.array([0.0, -1.75, 1.95, 1.37, 0.75, 0.022])


def picture(stamp_ns: int, tokens: bool = False, rejected: str | None = None) -> ImageFeature:
    box = BoxModel(robot(), "camera_optical_frame", 0.024).edges_of(CUBE, CAMERA)
    assert box is not None
    rows = np.array([[*box, 0.9, 0.0]], np.float32)
    seen = np.ones((48, 64), np.float32) if tokens else None
    return ImageFeature(SampleRef(Stream.CAMERA, stamp_ns, 0), CAMERA, rows, seen, rejected)


def imu(first_ns: int, n: int) -> ImuBatch:
    samples = tuple(
        ImuSample(SampleRef(Stream.IMU, first_ns + i * 5 * MS, i), np.zeros(3), np.array([0.0, 0.0, 9.81]))
        for i in range(n)
    )
    return ImuBatch(0, 0, samples[-1].ref.stamp_ns, samples)


def joints(stamp_ns: int) -> JointSample:
    return JointSample(SampleRef(Stream.JOINTS, stamp_ns, 0), COMMAND_JOINTS, POSE, np.zeros(6))


def executed(stamp_ns: int) -> ExecutedCommand:
    command = Command(0, stamp_ns, 0, Source.STUDENT, COMMAND_JOINTS, POSE, np.zeros(6), np.zeros(3))
    return ExecutedCommand(SampleRef(Stream.EXECUTED, stamp_ns, 0), command, False)


@pytest.fixture
def observer() -> Iterator[Observer]:
    made = Observer(robot(), 0.024)
    made.reset(skill_of_task("pick_moving"))
    yield made


def whole(now_ns: int, tokens: bool = False) -> Arrivals:
    return Arrivals(
        [imu(now_ns - 50 * MS, 10)],
        [picture(now_ns - 150 * MS, tokens), picture(now_ns - 120 * MS, tokens)],
        [joints(now_ns - 4 * MS)],
        [executed(now_ns - 10 * MS)],
    )


def test_every_field_has_its_shape_and_is_single_precision(observer: Observer) -> None:
    for arrivals in (Arrivals([], [], [], []), whole(START + DECISION_NS, tokens=True)):
        made = observer.take(START + DECISION_NS, arrivals)
        assert {name: (value.shape, value.dtype) for name, value in made.items()} == {
            field.name: (field.shape, np.dtype(np.float32)) for field in FIELDS
        }


def test_ages_are_those_of_the_stamps_not_of_the_arrival(observer: Observer) -> None:
    made = observer.take(START + DECISION_NS, whole(START + DECISION_NS, tokens=True))
    assert made["tokens_age"][0] == pytest.approx(0.120 / AGE_S)
    assert made["boxes_age"][:2, 0] == pytest.approx([0.120 / AGE_S, 0.150 / AGE_S])
    assert made["joints_age"][0] == pytest.approx(0.004 / AGE_S)
    assert made["imu"][6, -1] == pytest.approx(0.005 / AGE_S)
    later = observer.take(START + 2 * DECISION_NS, Arrivals([], [], [], []))
    assert later["boxes_age"][0, 0] == pytest.approx(0.170 / AGE_S)


def test_a_still_cube_is_placed_to_a_millimetre(observer: Observer) -> None:
    made = observer.take(START + DECISION_NS, whole(START + DECISION_NS))
    assert np.abs(made["carried"][:2] - CUBE[:2]).max() < 1e-3
    assert made["carried_mask"][0] == made["coasted_mask"][0] == 1.0


def test_what_has_not_come_is_zeros_under_a_mask_of_zeros(observer: Observer) -> None:
    made = observer.take(START, Arrivals([], [], [], []))
    for name in ("tokens", "boxes", "imu", "joints", "carried", "coasted", "executed", "tool"):
        assert not made[name].any()
    for name in ("tokens_mask", "boxes_mask", "imu_mask", "joints_mask", "carried_mask", "executed_mask"):
        assert not made[name].any()


def test_refused_pictures_and_pictures_older_than_a_second_say_nothing(observer: Observer) -> None:
    refused = Arrivals([], [picture(START, rejected="too old")], [], [])
    assert not observer.take(START + DECISION_NS, refused)["boxes_mask"].any()
    observer.take(START + DECISION_NS, Arrivals([], [picture(START, tokens=True)], [], []))
    made = observer.take(START + 1_100 * MS, Arrivals([], [], [], []))
    assert not made["boxes_mask"].any() and not made["tokens_mask"].any() and not made["coasted_mask"].any()


def test_pictures_out_of_order_are_sorted_by_their_stamps(observer: Observer) -> None:
    late = [picture(START + 33 * i * MS) for i in (2, 0, 3, 1)]
    made = observer.take(START + 200 * MS, Arrivals([], late, [], []))
    assert np.all(np.diff(made["boxes_age"][:4, 0]) > 0)
    many = [picture(START + 200 * MS + 33 * i * MS) for i in range(2 * BOXES)]
    assert observer.take(START + 800 * MS, Arrivals([], many, [], []))["boxes_mask"].sum() == BOXES


def test_an_imu_that_fell_silent_is_missing_and_boxes_alone_go_on(observer: Observer) -> None:
    observer.take(START + DECISION_NS, whole(START + DECISION_NS))
    made = observer.take(START + 400 * MS, Arrivals([], [picture(START + 300 * MS)], [], []))
    assert made["imu_mask"][0] == made["carried_mask"][0] == 0.0
    assert made["coasted_mask"][0] == 1.0


def test_the_last_command_of_each_of_five_periods_is_kept(observer: Observer) -> None:
    for k in range(7):
        made = observer.take(START + k * DECISION_NS, Arrivals([], [], [], [executed(START)] if k != 5 else []))
    assert made["executed_mask"].tolist() == [1.0, 1.0, 1.0, 0.0, 1.0]


def test_the_arrays_depend_on_what_arrived_and_on_nothing_else() -> None:
    def run() -> tuple[list[Observation], bytes]:
        observer = Observer(robot(), 0.024)
        observer.reset(skill_of_task("pick_moving"))
        times = [START + k * DECISION_NS for k in range(1, 6)]
        return [observer.take(now, whole(now, tokens=True)) for now in times], observer.digest()

    (first, digest), (second, again) = run(), run()
    assert digest == again
    for a, b in zip(first, second, strict=True):
        assert all(a[name].tobytes() == b[name].tobytes() for name in a)


def test_every_modality_has_fields_to_be_missing() -> None:
    names = {field.name for field in FIELDS}
    assert set(DROPS) == set(MODALITIES)
    assert all(set(fields) <= names for fields in DROPS.values())
