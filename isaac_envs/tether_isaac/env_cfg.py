"""Configuration of the environment: task and profile by name, what learners see and do, and Isaac Lab's own parts."""

from __future__ import annotations

from isaaclab.envs import DirectRLEnvCfg
from isaaclab.utils import configclass

from tether.assembly import profile, skills, task
from tether.contracts import TICKS_PER_DECISION
from tether.errors import Fault, InvalidInputError
from tether.teacher.actions import choices
from tether.teacher.observation import SIZE
from tether_isaac.physics_cfg import simulation_cfg
from tether_isaac.scene_cfg import scene_cfg


@configclass
class EpisodesCfg:
    """Which episodes are played. Environment i of n plays seeds seed + i, seed + i + n, …"""

    task: str = "pick"
    """Name or file of the task: where the cube lies, whether the base is carried, what success is."""
    profile: str = "ideal_lagged"
    """Name or file of the profile: lag, delays, noise, and what the seed varies (friction, mass, lag)."""
    seed: int = 0


@configclass
class RewardsCfg:
    """The subgoals of config/rewards.yaml; their values and thresholds stand there."""

    delayed: bool = False
    """Rewards come as late as the profile says, instead of with what earned them."""


@configclass
class PhysicsCfg:
    """What is stepped, and where."""

    device: str = "cuda:0"
    num_envs: int = 64
    spacing_m: float = 1.5
    substeps: int = 4
    """Physics steps a tick of 10 ms: 4 or 8."""


@configclass
class PickEnvCfg(DirectRLEnvCfg):
    """Everything; made by `pick_cfg`, so that the parts fit each other."""

    episodes: EpisodesCfg = EpisodesCfg()
    rewards: RewardsCfg = RewardsCfg()
    world: PhysicsCfg = PhysicsCfg()


def pick_cfg(
    task_name: str = "pick",
    profile_name: str = "ideal_lagged",
    *,
    num_envs: int = 64,
    device: str = "cuda:0",
    seed: int = 0,
    substeps: int = 4,
    delayed_rewards: bool = False,
) -> PickEnvCfg:
    """The configuration of one task under one profile; refuses names that do not exist."""
    if num_envs < 1 or seed < 0:
        fault = Fault("num_envs, seed", f"{num_envs}, {seed}", "at least 1 and at least 0")
        raise InvalidInputError("Isaac environment", [fault])
    profile(profile_name)
    made = choices(skills())
    world = PhysicsCfg(device=device, num_envs=num_envs, substeps=substeps)
    return PickEnvCfg(
        seed=seed,
        decimation=substeps * TICKS_PER_DECISION,
        # The world's own judge ends episodes, time limit included; this one only bounds Isaac Lab's counter.
        episode_length_s=task(task_name).success.time_limit_s + 1.0,
        action_space=len(made) + sum(len(choice.names) for choice in made),
        observation_space=SIZE,
        state_space=0,
        sim=simulation_cfg(device, substeps),
        scene=scene_cfg(task(task_name), num_envs, world.spacing_m),
        episodes=EpisodesCfg(task=task_name, profile=profile_name, seed=seed),
        rewards=RewardsCfg(delayed=delayed_rewards),
        world=world,
    )


@configclass
class PickDefaultCfg(PickEnvCfg):
    """`pick`, for training scripts that make the configuration without arguments."""

    def __post_init__(self) -> None:
        _fill(self, pick_cfg("pick"))


@configclass
class PickMovingDefaultCfg(PickEnvCfg):
    """`pick_moving`, likewise."""

    def __post_init__(self) -> None:
        _fill(self, pick_cfg("pick_moving"))


def _fill(cfg: PickEnvCfg, made: PickEnvCfg) -> None:
    names = ("decimation", "episode_length_s", "action_space", "observation_space", "state_space", "sim", "scene")
    for name in (*names, "episodes", "rewards", "world", "seed"):
        setattr(cfg, name, getattr(made, name))
