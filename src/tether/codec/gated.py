"""A gated command comes as two standard messages, on topics of their own: which two belong together."""

from __future__ import annotations

from typing import Any

from tether.codec.convert.basics import to_ns

_KEPT = 128
"""Of each half, while the other is under way: more than a queue holds, since one topic is read after the other."""


class GatedHalves:
    """Pairs `/joint_command` and `/cmd_vel` by their stamps, and keeps the newest pair until it is taken.

    Newest is what came last, whatever its stamp says: a clock that was set back makes no command an old one. A half
    that is followed by one of the next command, before its other half is read, is kept until the pair is whole.
    """

    def __init__(self) -> None:
        self._joints: dict[int, Any] = {}
        self._twists: dict[int, Any] = {}
        self._pair: tuple[Any, Any] | None = None

    def clear(self) -> None:
        """Forget everything: a new episode."""
        self._joints.clear()
        self._twists.clear()
        self._pair = None

    def put_joints(self, msg: Any) -> None:
        """Take a sensor_msgs/JointState of the gate."""
        stamp_ns = to_ns(msg.header.stamp)
        twist = self._twists.pop(stamp_ns, None)
        if twist is None:
            _keep(self._joints, stamp_ns, msg)
        else:
            self._pair = (msg, twist)

    def put_twist(self, msg: Any) -> None:
        """Take a geometry_msgs/TwistStamped of the gate."""
        stamp_ns = to_ns(msg.header.stamp)
        joints = self._joints.pop(stamp_ns, None)
        if joints is None:
            _keep(self._twists, stamp_ns, msg)
        else:
            self._pair = (joints, msg)

    def stamp_ns(self) -> int | None:
        """Stamp of the newest pair that was not taken."""
        return None if self._pair is None else to_ns(self._pair[0].header.stamp)

    def take(self) -> tuple[Any, Any] | None:
        """The newest pair, joints and twist, once."""
        pair, self._pair = self._pair, None
        return pair


def _keep(halves: dict[int, Any], stamp_ns: int, msg: Any) -> None:
    halves[stamp_ns] = msg
    if len(halves) > _KEPT:
        del halves[next(iter(halves))]
