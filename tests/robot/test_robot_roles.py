"""What the base's wheels measure is read out of the description."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from tether.assembly import ROBOT_FILE, robot
from tether.errors import InvalidInputError
from tether.resources import resource_path
from tether.robot.description import expand
from tether.robot.model import read_model
from tether.robot.roles import COMMAND_JOINTS, WHEEL_JOINTS, OmniBase

URDF = expand(resource_path("urdf", ROBOT_FILE))


def test_base_is_that_of_the_description() -> None:
    base = OmniBase.of(robot())
    assert base.radius_m == pytest.approx(0.050) and base.distance_m == pytest.approx(0.125)
    np.testing.assert_allclose(base.angles_rad, (math.pi / 3, math.pi, -math.pi / 3))
    assert set(COMMAND_JOINTS + WHEEL_JOINTS) <= set(robot().joint_names)


def test_wheels_roll_without_slipping() -> None:
    base = OmniBase.of(robot())
    np.testing.assert_allclose(base.wheel_rates(0.0, 0.0, 1.0), [0.125 / 0.05] * 3)
    for angle, rate in zip(base.angles_rad, base.wheel_rates(0.3, -0.2, 0.0), strict=True):
        rolling = np.array([-math.sin(angle), math.cos(angle)])
        assert rate == pytest.approx(rolling @ [0.3, -0.2] / 0.05)


def test_larger_wheels_turn_slower() -> None:
    larger = OmniBase.of(read_model(re.sub(r'(<origin [^>]*xyz="[^"]* )0\.05"', r'\g<1>0.1"', URDF)))
    assert larger.radius_m == pytest.approx(0.1)
    np.testing.assert_allclose(
        np.array(larger.wheel_rates(0.1, 0.0, 0.0)) * 2.0, OmniBase.of(robot()).wheel_rates(0.1, 0, 0)
    )


def test_wheels_that_are_not_alike_are_refused() -> None:
    unlike = re.sub(r'(<origin [^>]*xyz="[^"]* )0\.05"', r'\g<1>0.06"', URDF, count=1)
    with pytest.raises(InvalidInputError, match="one radius"):
        OmniBase.of(read_model(unlike))
