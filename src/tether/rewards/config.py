"""Thresholds and values of the subgoals: config/rewards.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tether.config import bounded, load
from tether.errors import Fault, InvalidInputError
from tether.world.profile import rising


class Subgoal(str, Enum):
    """What success is made of, in the order in which it is paid."""

    ALIGNED = "aligned"
    """The open gripper stands above the cube."""
    TOUCHED = "touched"
    """The closing gripper presses on the cube from both sides."""
    HELD = "held"
    """It has done so for a while, the cube between the fingers."""
    LIFTED = "lifted"
    """The held cube is as high as the task asks."""
    KEPT = "kept"
    """It has been so high for as long as the task asks: the task's success."""


ORDER = tuple(Subgoal)


@dataclass(frozen=True)
class SubgoalValues:
    """What each subgoal pays, once an episode."""

    aligned: float = bounded(0.0, 10.0)
    touched: float = bounded(0.0, 10.0)
    held: float = bounded(0.0, 10.0)
    lifted: float = bounded(0.0, 10.0)
    kept: float = bounded(0.0, 10.0)

    def of(self, subgoal: Subgoal) -> float:
        """The value of one."""
        return float(getattr(self, subgoal.value))

    @property
    def total(self) -> float:
        """The most that an episode can pay."""
        return sum(self.of(subgoal) for subgoal in ORDER)


@dataclass(frozen=True)
class AlignedConfig:
    """When the open gripper stands above the cube."""

    flat_m: float = bounded(0.001, 0.1, unit="m", doc="horizontal distance from tool to cube, at most")
    above_m: tuple[float, float] = bounded(-0.05, 0.3, unit="m", doc="height of the tool above the cube's centre")
    opening_m: float = bounded(0.0, 0.1, unit="m", doc="between the pads, at least")
    for_s: float = bounded(0.0, 5.0, unit="s", doc="for so long")

    def __post_init__(self) -> None:
        faults = rising(self, "above_m")
        if faults:
            raise InvalidInputError("aligned", faults)


@dataclass(frozen=True)
class TouchedConfig:
    """When the gripper closes on the cube."""

    closing_m: float = bounded(0.0, 0.1, unit="m", doc="executed command: opening below which it is being closed")


@dataclass(frozen=True)
class HeldConfig:
    """When the cube is held."""

    within_m: float = bounded(0.001, 0.1, unit="m", doc="distance from tool to cube, at most")
    for_s: float = bounded(0.0, 5.0, unit="s", doc="for so long")


@dataclass(frozen=True)
class SensedConfig:
    """How fingers, joints and pictures stand in for the world's state."""

    touch_m: float = bounded(0.0, 0.1, unit="m", doc="opening below which the fingers may touch the cube")
    empty_m: float = bounded(0.0, 0.1, unit="m", doc="opening below which nothing of the cube is between them")
    stall_m: float = bounded(
        0.0, 0.01, unit="m", doc="between the halves of the window: fingers that move less have stopped"
    )
    stall_s: float = bounded(0.02, 2.0, unit="s", doc="the window")
    settle_s: float = bounded(0.0, 2.0, unit="s", doc="a moment is judged so much later, when its pictures have come")
    camera_m: float = bounded(0.005, 0.2, unit="m", doc="rise of the tool from which the camera is asked")
    match_px: float = bounded(1.0, 200.0, unit="px", doc="a box this near to the expected one is the held cube's")
    contradictions: int = bounded(1, 20, doc="pictures in a row that show the cube elsewhere: it was lost")

    def __post_init__(self) -> None:
        if self.empty_m >= self.touch_m:
            fault = Fault("empty_m", f"{self.empty_m:g}", f"less than touch_m = {self.touch_m:g}")
            raise InvalidInputError("sensed", [fault])
        if self.settle_s < self.stall_s:
            fault = Fault("settle_s", f"{self.settle_s:g}", f"at least stall_s = {self.stall_s:g}")
            raise InvalidInputError("sensed", [fault], "whether fingers stand still is known stall_s later")


@dataclass(frozen=True)
class RewardConfig:
    """See config/rewards.yaml; heights and times of lifted and kept are the task's."""

    value: SubgoalValues
    aligned: AlignedConfig
    touched: TouchedConfig
    held: HeldConfig
    sensed: SensedConfig
    tolerance_m: float = bounded(0.0, 0.001, unit="m", doc="by which a length may miss its threshold")
    gap_s: float = bounded(0.01, 1.0, unit="s", doc="a silence of the measurements for longer starts dwells over")


def load_reward_config(path: Path) -> RewardConfig:
    """Read and check config/rewards.yaml; raises InvalidInputError with every fault in the file."""
    return load(path, RewardConfig)
