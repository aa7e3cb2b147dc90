"""A gated command comes as two standard messages, on topics of their own: which two belong together."""

from __future__ import annotations

from typing import Any

from tether.codec.convert.basics import to_ns

_KEPT = 8
"""Commands whose other half is still under way; one that stays away for longer was lost."""


class GatedHalves:
    """Pairs `/joint_command` and `/cmd_vel` by their stamps, and keeps the newest pair until it is taken.

    Newest is what came last, whatever its stamp says: a clock that was set back makes no command an old one. A half
    that is followed by one of the next command, before its other half is read, is kept until the pair is whole.
    """

    def __init__(self) -> None:
        self._halves: dict[int, tuple[Any, Any]] = {}
        self._pair: tuple[Any, Any] | None = None

    def clear(self) -> None:
        """Forget everything: a new episode."""
        self._halves.clear()
        self._pair = None

    def put_joints(self, msg: Any) -> None:
        """Take a sensor_msgs/JointState of the gate."""
        stamp_ns = to_ns(msg.header.stamp)
        self._put(stamp_ns, msg, self._halves.get(stamp_ns, (None, None))[1])

    def put_twist(self, msg: Any) -> None:
        """Take a geometry_msgs/TwistStamped of the gate."""
        stamp_ns = to_ns(msg.header.stamp)
        self._put(stamp_ns, self._halves.get(stamp_ns, (None, None))[0], msg)

    def stamp_ns(self) -> int | None:
        """Stamp of the newest pair that was not taken."""
        return None if self._pair is None else to_ns(self._pair[0].header.stamp)

    def take(self) -> tuple[Any, Any] | None:
        """The newest pair, joints and twist, once."""
        pair, self._pair = self._pair, None
        return pair

    def _put(self, stamp_ns: int, joints: Any, twist: Any) -> None:
        if joints is None or twist is None:
            self._halves[stamp_ns] = (joints, twist)
            while len(self._halves) > _KEPT:
                del self._halves[next(iter(self._halves))]
            return
        self._halves.pop(stamp_ns)
        self._pair = (joints, twist)
