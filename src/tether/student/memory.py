"""What the policy remembers of itself: its own last choice, since when, and what the fingers have done.

Everything in it can be observed from outside, so the student needs no hidden sequence of phases beside its network.
"""

from __future__ import annotations

import math

import numpy as np

from tether.contracts import F32, JointSample, Primitive
from tether.robot.model import reorder
from tether.robot.roles import COMMAND_JOINTS

OPENINGS = 8
"""Readings of the opening that are kept, one a decision: 0.4 s."""
SIZE = len(Primitive) + 1 + 2 + OPENINGS + 1 + 1 + 2
_OPENING_M = 0.02
_RATE_M_S = 0.1
_CLOSED_M, _OPEN_M = 0.036, 0.040
"""Opening below which the fingers count as closed on something, and above which as open again."""


class PolicyMemory:
    """Call `before` with the joints of a decision, then `after` with the primitive that was chosen."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        self.primitive: Primitive | None = None
        self._since_ns = 0
        self._openings: list[float] = []
        self._rate = 0.0
        self._closed_since_ns: int | None = None
        self.closings = 0

    def before(self, stamp_ns: int, joints: JointSample | None) -> F32:
        """(SIZE,) what is remembered at a decision, its own joint reading included; scaled to order one."""
        if joints is not None:
            self._feel(stamp_ns, joints)
        out = np.zeros(SIZE, np.float32)
        out[len(Primitive) if self.primitive is None else int(self.primitive)] = 1.0
        at = len(Primitive) + 1
        since_s = (stamp_ns - self._since_ns) * 1e-9 if self.primitive is not None else 0.0
        out[at : at + 2] = (min(since_s, 1.0), math.log1p(min(since_s, 20.0)))
        at += 2
        if self._openings:
            padded = [self._openings[0]] * (OPENINGS - len(self._openings)) + self._openings
            out[at : at + OPENINGS] = (np.array(padded) - _OPENING_M) / _OPENING_M
        at += OPENINGS
        closed_s = 0.0 if self._closed_since_ns is None else (stamp_ns - self._closed_since_ns) * 1e-9
        out[at:] = (
            np.clip(self._rate / _RATE_M_S, -5.0, 5.0),
            float(self._closed_since_ns is not None),
            min(closed_s, 2.0),
            min(self.closings, 4) / 4.0,
        )
        return out

    def after(self, stamp_ns: int, primitive: Primitive) -> None:
        """Note what was chosen."""
        if primitive is not self.primitive:
            self.primitive = primitive
            self._since_ns = stamp_ns

    def dump(self) -> bytes:
        """The memory as bytes, for hashes."""
        held = (self.primitive, self._since_ns, self._openings, self._rate, self._closed_since_ns, self.closings)
        return repr(held).encode()

    def _feel(self, stamp_ns: int, joints: JointSample) -> None:
        position, velocity = joints.position, joints.velocity
        if joints.names != COMMAND_JOINTS:
            position = reorder(joints.names, position, COMMAND_JOINTS, "joint reading")
            velocity = reorder(joints.names, velocity, COMMAND_JOINTS, "joint reading")
        opening, self._rate = 2.0 * float(position[-1]), 2.0 * float(velocity[-1])
        self._openings = [*self._openings[1 - OPENINGS :], opening]
        if self._closed_since_ns is None and opening < _CLOSED_M:
            self._closed_since_ns = stamp_ns
            self.closings += 1
        elif opening > _OPEN_M:
            self._closed_since_ns = None
