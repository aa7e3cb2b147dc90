"""`tether bench world`: steps per second of the world against a bare MuJoCo loop on the same model."""

from __future__ import annotations

import argparse

import mujoco
import numpy as np

from tether.arguments import positive
from tether.assembly import make_world
from tether.bench.figures import Benchmark, Metric, Ratio, in_turn
from tether.contracts import Command, EpisodeSpec, Source
from tether.robot.roles import COMMAND_JOINTS
from tether.world.model import SUBSTEPS_PER_TICK

_CHUNK_TICKS = 20
"""Short chunks and many of them: a busy machine then interrupts few, and the median does not see it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--task", default="pick", help="task by name or file (default %(default)s)")
    parser.add_argument("--profile", default="real", help="profile by name or file (default %(default)s)")
    parser.add_argument("--rounds", type=positive, default=300, help="pairs of measurements (default %(default)s)")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """World and bare loop in turn, a chunk of 0.2 s of simulated time each.

    Both take the same physics steps a control period, from the same state, with the arm held. The world does all it
    does without rendering: commands checked, servo lag, carrier, IMU and joint samples with noise, delay queues,
    judge.
    """
    world = make_world(arguments.task, arguments.profile, truth_age_ns=None, pictures=False)
    world.reset(EpisodeSpec(world.task.name, world.profile.name, 0))
    position = np.array([world.task.start[name] for name in COMMAND_JOINTS])
    zero = np.zeros(len(COMMAND_JOINTS))
    hold = Command(0, 0, 0, Source.OPERATOR, COMMAND_JOINTS, position, zero, np.zeros(3))
    delivered = 0

    def ours() -> None:
        nonlocal delivered
        for _ in range(_CHUNK_TICKS):
            delivered += len(world.step(hold).samples)

    data = mujoco.MjData(world.model)

    def bare() -> None:
        mujoco.mj_resetData(world.model, data)
        data.qpos[:] = world.data.qpos
        data.qvel[:] = world.data.qvel
        data.ctrl[:] = world.data.ctrl
        for _ in range(_CHUNK_TICKS):
            mujoco.mj_step(world.model, data, SUBSTEPS_PER_TICK)

    ours_s, bare_s = in_turn([ours, bare], arguments.rounds, warm_up=2)
    world.close()
    if not delivered:
        raise AssertionError("the world delivered no samples; the benchmark would measure nothing")
    steps = _CHUNK_TICKS * SUBSTEPS_PER_TICK
    return Benchmark(
        "world",
        {
            "world_steps_per_s": Metric.of([steps / s for s in ours_s], "physics steps/s"),
            "bare_steps_per_s": Metric.of([steps / s for s in bare_s], "physics steps/s"),
            "world_tick": Metric.of([s / _CHUNK_TICKS * 1e6 for s in ours_s], "us"),
            "bare_tick": Metric.of([s / _CHUNK_TICKS * 1e6 for s in bare_s], "us"),
        },
        {"world_vs_bare_mujoco": Ratio.of(ours_s, bare_s, "bare MuJoCo loop")},
        (
            f"{SUBSTEPS_PER_TICK} physics steps a control period of 10 ms in both; rendering off; "
            f"task {world.task.name}, profile {world.profile.name}",
        ),
    )
