"""Puts the reward server together by names of task and profile, as `tether.assembly` does for the stages."""

from __future__ import annotations

from functools import cache

from tether.assembly import profile, robot, task
from tether.motion.kinematics import ArmKinematics
from tether.resources import resource_path
from tether.rewards.config import RewardConfig, load_reward_config
from tether.rewards.ledger import Ledger
from tether.rewards.sensed import SensedState
from tether.rewards.server import RewardServer


@cache
def reward_config() -> RewardConfig:
    """The subgoals' values and thresholds: config/rewards.yaml."""
    return load_reward_config(resource_path("config", "rewards.yaml"))


def make_ledger(task_name: str) -> Ledger:
    """A ledger for one episode after another of a task."""
    return Ledger(reward_config(), task(task_name).success, ArmKinematics(robot()))


def make_reward_server(task_name: str, profile_name: str, seed: int) -> RewardServer:
    """The server's core for a run whose first episode has `seed`."""
    return RewardServer(lambda: make_ledger(task_name), profile(profile_name).reward.delay, seed)


def make_sensed_state(task_name: str) -> SensedState:
    """What stands in for the world's state on a physical robot."""
    return SensedState(robot(), reward_config(), task(task_name).cube.side_m)
