"""Where calibration takes place: at a robot, in real time, or over emulated devices on a clock of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tether.assembly import robot
from tether.calibrate.bench import Bench, PhysicalBench
from tether.contracts import F64, Command, TickDelivery
from tether.hardware.build import make_physical_world
from tether.hardware.calibration import RobotCalibration
from tether.hardware.emulate.rollout import HilBench
from tether.hardware.settings import RobotSettings
from tether.robot.roles import COMMAND_JOINTS, WHEEL_JOINTS

Pose = tuple[F64, F64]


class EmulatedBench:
    """See `Bench`."""

    def __init__(self, hil: HilBench) -> None:
        self.hil = hil
        self.world = hil.world

    def tick(self, command: Command | None) -> TickDelivery:
        """See `Bench`."""
        return self.hil.tick(command)[0]


@contextmanager
def stand(
    settings: RobotSettings, robot_name: str, task: str, profile: str, seed: int, believed: RobotCalibration
) -> Iterator[Bench]:
    """A bench of this robot. believed: its calibration so far, which need not be that of its file."""
    if settings.is_emulated:
        with HilBench(task, profile, robot_name=robot_name, believed=believed) as hil:
            hil.prepare(seed)
            yield EmulatedBench(hil)
        return
    world = make_physical_world(settings, robot())
    try:
        yield PhysicalBench(world)
    finally:
        world.close()


def tool_pose(position: F64) -> Pose:
    """p (3,) and rotation (3, 3) of tcp in base_link. position: of COMMAND_JOINTS."""
    model = robot()
    values = dict(zip(COMMAND_JOINTS, position.tolist(), strict=True)) | dict.fromkeys(WHEEL_JOINTS, 0.0)
    return model.transform("base_link", "tcp", np.array([values[name] for name in model.joint_names]))


def nominal_camera() -> Pose:
    """p and rotation of the camera's optical frame in base_link, as the description has it."""
    return robot().transform("base_link", "camera_optical_frame", np.zeros(len(robot().joint_names)))
