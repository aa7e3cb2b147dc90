"""The bench of the perception process: what it calls a slope."""

from __future__ import annotations

import numpy as np
import pytest
from tether_bringup.picture_bench import _slope

pytestmark = pytest.mark.ros


def test_slope_is_that_of_the_second_half_and_its_noise_is_told() -> None:
    minutes = np.arange(0.0, 30.0, 0.1)
    settled = np.minimum(200.0 + 50.0 * minutes, 400.0)
    assert _slope(minutes, settled)[0] == pytest.approx(0.0, abs=1e-9)
    leaking = settled + 3.0 * minutes
    slope, noise = _slope(minutes, leaking)
    assert slope == pytest.approx(3.0, abs=1e-6)
    assert noise < 1e-6
