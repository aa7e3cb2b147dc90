"""The drivers with the MuJoCo world behind their devices: bytes in between, and a cube that is picked."""

from __future__ import annotations

import numpy as np
import pytest

from tether.contracts import Command, ImageSample, ImuSample, JointSample, Source
from tether.errors import InvalidInputError
from tether.hardware.emulate.rollout import HilRollout
from tether.robot.roles import COMMAND_JOINTS

pytestmark = pytest.mark.realtime


@pytest.mark.slow
def test_the_classic_policy_picks_cubes_through_servo_bus_i2c_and_camera():
    results = []
    with HilRollout("classic", "pick", "real") as run:
        for seed in (0, 1, 0):
            results.append(run.episode(seed))
            assert results[-1].success, (results[-1], run.notices)
            assert run.world.servos.counts["missing"] == 0, run.world.servos.counts
        assert run.refused == 0
        assert "servo_bus_lost" in [notice.kind for notice in run.notices]  # between episodes the bus goes away
    assert results[2] == results[0], "a busy machine runs the same episodes as an idle one"


def test_a_silent_gate_stops_the_robot_and_malformed_commands_move_nothing():
    with HilRollout("classic", "pick", "real") as run:
        run.prepare(0)
        seen: dict[type, int] = {}
        delivery, _ = run.tick(None)
        start = next(sample for sample in delivery.samples if isinstance(sample, JointSample)).position

        def command(position: np.ndarray) -> Command:
            zero = np.zeros(len(COMMAND_JOINTS))
            return Command(0, 0, 0, Source.GATE, COMMAND_JOINTS, position, zero, np.zeros(3))

        for bad in (start + np.nan, start + 1.0):
            with pytest.raises(InvalidInputError):
                run.world.step(command(bad))
        for _ in range(30):
            delivery, _ = run.tick(command(start))
            for sample in delivery.samples:
                seen[type(sample)] = seen.get(type(sample), 0) + 1
            assert delivery.executed is not None
            assert not delivery.executed.watchdog_stop
        assert seen[JointSample] == 30
        assert 58 <= seen[ImuSample] <= 62
        assert 5 <= seen[ImageSample] <= 12
        for _ in range(12):
            delivery, _ = run.tick(None)
        assert delivery.executed is not None
        assert delivery.executed.watchdog_stop
