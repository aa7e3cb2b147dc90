"""Late boxes are carried to the present by the IMU."""

from __future__ import annotations

import numpy as np
import pytest

from tether.contracts import F64
from tether.student.carry import Carried, ImuCurve, carry

IMU_AT = np.array([0.02, -0.01])


class Course:
    """A base that speeds up at a constant rate while it turns at another; the cube lies still at `cube` of time 0."""

    def __init__(self, accel: tuple[float, float] = (0.8, -0.5), rate: float = 0.6) -> None:
        self.accel, self.rate, self.cube, self.speed = (
            np.array(accel),
            rate,
            np.array([0.3, 0.05]),
            np.array([0.1, 0.15]),
        )

    def place(self, age_s: float) -> F64:
        """Cube from the base of `age_s` ago, in the axes of then; the world's axes are those of now."""
        imu = self.speed * -age_s + 0.5 * self.accel * age_s**2
        yaw = -self.rate * age_s
        c, s = np.cos(yaw), np.sin(yaw)
        gap = self.cube - IMU_AT - imu
        return np.array([c * gap[0] + s * gap[1], c * gap[1] - s * gap[0]]) + IMU_AT

    def window(self, seconds: float = 0.5) -> ImuCurve:
        ages = np.arange(round(seconds * 200) - 1, -1, -1) * 0.005
        yaw = -self.rate * ages
        c, s = np.cos(yaw), np.sin(yaw)
        values = np.zeros((6, len(ages)))
        values[2] = self.rate
        values[3], values[4] = c * self.accel[0] + s * self.accel[1], c * self.accel[1] - s * self.accel[0]
        values[5] = 9.81
        return ImuCurve(ages, values)


def fit(course: Course, ages_ms: list[int], imu: ImuCurve | None, off_m: dict[int, float] | None = None) -> Carried:
    places = np.array([course.place(age * 1e-3) for age in ages_ms])
    for index, off in (off_m or {}).items():
        places[index] += off
    return carry(places, np.array(ages_ms) * 1e-3, IMU_AT, imu)


def test_boxes_120_to_350_ms_old_are_carried_to_a_tenth_of_a_millimetre() -> None:
    course = Course()
    found = fit(course, [120, 153, 186, 220, 253, 286, 320, 353], course.window())
    assert np.abs(found.p - course.place(0.0)).max() < 1e-4
    v = (course.place(-1e-4) - course.place(1e-4)) / 2e-4
    a = (course.place(-1e-3) - 2 * course.place(0.0) + course.place(1e-3)) / 1e-6
    assert np.abs(found.v - v).max() < 2e-3
    assert np.abs(found.a - a).max() < 0.05
    assert found.rms_m < 1e-4


def test_without_the_imu_the_same_boxes_say_less() -> None:
    course = Course()
    found = fit(course, [120, 153, 186, 220, 253, 286, 320, 353], None)
    assert 5e-4 < np.abs(found.p - course.place(0.0)).max() < 0.02


def test_a_box_that_something_hides_in_part_does_not_pull_the_others_along() -> None:
    course = Course()
    ages = [120, 153, 186, 220, 253, 286, 320, 353]
    found = fit(course, ages, course.window(), {2: 0.03})
    assert np.abs(found.p - course.place(0.0)).max() < 2e-3
    assert np.linalg.norm(found.off_m[2]) > 0.02


def test_one_box_alone_is_taken_as_it_is_but_for_the_known_acceleration() -> None:
    course = Course(accel=(0.0, 0.0), rate=0.0)
    found = fit(course, [120], course.window())
    assert np.abs(found.p - course.place(0.12)).max() < 1e-3
    assert np.isfinite(found.v).all() and np.isfinite(found.a).all()


@pytest.mark.parametrize("age_s", [0.7, 2.0])
def test_boxes_older_than_the_window_stay_finite(age_s: float) -> None:
    course = Course()
    found = carry(np.array([course.place(0.3)]), np.array([age_s]), IMU_AT, course.window())
    assert np.isfinite(found.p).all()
