"""The world's true state, kept for as long as an oracle may ask back. Judges and oracles only."""

from __future__ import annotations

import math

import numpy as np

from tether.contracts import F64, TICK_NS, SampleRef, Stream, TruthSample
from tether.world.model import ModelIndex

HISTORY_TICKS = 128


class TruthHistory:
    """States of the last HISTORY_TICKS ticks: generalised positions and velocities, and whether the cube is held."""

    def __init__(self, nq: int, nv: int, index: ModelIndex, cube_rest_z_m: float) -> None:
        self._qpos = np.zeros((HISTORY_TICKS, nq))
        self._qvel = np.zeros((HISTORY_TICKS, nv))
        self._held = [False] * HISTORY_TICKS
        self._index = index
        self._rest_z_m = cube_rest_z_m
        self._tick = -1
        self._start_ns = 0

    def clear(self) -> None:
        """Forget every state."""
        self._tick = -1

    def push(self, tick: int, stamp_ns: int, qpos: F64, qvel: F64, held: bool) -> None:
        """Keep the state at `tick`, whose time is `stamp_ns`; ticks come one by one from 0."""
        slot = tick % HISTORY_TICKS
        self._qpos[slot] = qpos
        self._qvel[slot] = qvel
        self._held[slot] = held
        self._tick = tick
        self._start_ns = stamp_ns - tick * TICK_NS

    def at_age(self, age_ns: int) -> TruthSample:
        """The state of `age_ns` ago (to the tick), or the episode's first where it is younger than that."""
        ticks = round(age_ns / TICK_NS)
        if not 0 <= ticks < HISTORY_TICKS:
            raise ValueError(f"truth age {age_ns} ns, expected 0 to {(HISTORY_TICKS - 1) * TICK_NS} ns")
        if self._tick < 0:
            raise RuntimeError("no truth yet: reset the world first")
        tick = max(self._tick - ticks, 0)
        slot = tick % HISTORY_TICKS
        return self._sample(tick, self._qpos[slot], self._qvel[slot], self._held[slot])

    def _sample(self, tick: int, qpos: F64, qvel: F64, held: bool) -> TruthSample:
        index = self._index
        base = qpos[index.base_qpos]
        rate = qvel[index.base_qpos]
        rotation, omega = _base_rotation(base[3], base[4], base[5], rate[3:6])
        cube = qpos[index.cube_qpos : index.cube_qpos + 3]
        offset = cube - base[:3]
        relative = qvel[index.cube_qvel : index.cube_qvel + 3] - rate[:3] - _cross(omega, offset)
        velocity = rotation.T @ rate[:3]
        return TruthSample(
            ref=SampleRef(Stream.TRUTH, self._start_ns + tick * TICK_NS, tick),
            p_base_cube=rotation.T @ offset,
            v_base_cube=rotation.T @ relative,
            p_world_base=np.array([base[0], base[1], base[3]]),
            base_twist=np.array([velocity[0], velocity[1], omega[2]]),
            joint_position=qpos[index.joint_qpos].copy(),
            joint_velocity=qvel[index.joint_qvel].copy(),
            held=held,
            cube_height_m=float(cube[2] - self._rest_z_m),
        )


def _cross(a: F64, b: F64) -> F64:
    """np.cross of two vectors (3,), which takes ten times as long, bit for bit."""
    (a0, a1, a2), (b0, b1, b2) = a.tolist(), b.tolist()
    return np.array([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0])


def _base_rotation(yaw: float, pitch: float, roll: float, rates: F64) -> tuple[F64, F64]:
    """Rotation of the base in the world and its angular velocity there, for joints yaw, pitch, roll in this order."""
    cy, sy = math.cos(yaw), math.sin(yaw)
    cp, sp = math.cos(pitch), math.sin(pitch)
    cr, sr = math.cos(roll), math.sin(roll)
    rotation = np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )
    yaw_rate, pitch_rate, roll_rate = rates
    omega = np.array(
        [
            -sy * pitch_rate + cy * cp * roll_rate,
            cy * pitch_rate + sy * cp * roll_rate,
            yaw_rate - sp * roll_rate,
        ]
    )
    return rotation, omega
