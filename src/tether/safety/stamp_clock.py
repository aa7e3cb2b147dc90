"""How old a sample is, whatever the clock of the stamps does: it may step, stop or run backwards."""

from __future__ import annotations


class StampClock:
    """The clock of one stream's stamps as the gate believes it.

    A sample's age is taken by ROS time. Where that gives an age that cannot be, but the clock as it was when a sample
    last confirmed it, run on by steady time, gives one that can, then ROS time has stepped or stands still and the
    stamps have not followed it: the latter age holds. So a step that takes the stamps along is followed with the first
    sample after it, and one that does not is ignored. A sample that is old by both is old, and a stamp that comes again
    and again grows old by steady time, whatever ROS time reads.
    """

    def __init__(self, future_max_ns: int, age_max_ns: int) -> None:
        """Ages from -future_max_ns to age_max_ns can be."""
        self._low, self._high = -future_max_ns, age_max_ns
        self._offset_ns: int | None = None
        self._newest_ns: int | None = None
        self._seen_ns = 0
        self._doubted_ns: int | None = None

    def age_ns(self, stamp_ns: int, now_ns: int, ros_ns: int) -> int:
        """Age of a sample that came at `now_ns` of the steady clock, when ROS time read `ros_ns`."""
        believed = self._believed(stamp_ns, now_ns, ros_ns)
        if believed < self._low:  # ahead of every clock: it is refused, and says nothing of the stamps after it
            return believed
        return max(believed, self._since(stamp_ns, now_ns))

    def read_ns(self, now_ns: int, ros_ns: int, doubt_ns: int) -> int:
        """The time of the stamps at `now_ns`: ROS time, or what it would be where it was in doubt within `doubt_ns`."""
        if self._offset_ns is None or not self.in_doubt(now_ns, doubt_ns):
            return ros_ns
        return now_ns + self._offset_ns

    def in_doubt(self, now_ns: int, for_ns: int) -> bool:
        """Whether ROS time was not believed within the last `for_ns`."""
        return self._doubted_ns is not None and now_ns - self._doubted_ns <= for_ns

    def _believed(self, stamp_ns: int, now_ns: int, ros_ns: int) -> int:
        by_ros = ros_ns - stamp_ns
        if self._low <= by_ros <= self._high:
            self._offset_ns = ros_ns - now_ns
            return by_ros
        if self._offset_ns is not None:
            by_steady = now_ns + self._offset_ns - stamp_ns
            if self._low <= by_steady <= self._high:
                self._doubted_ns = now_ns
                return by_steady
        return by_ros

    def _since(self, stamp_ns: int, now_ns: int) -> int:
        """Steady time since a stamp as new as this one was first seen; less than every age for a newer one."""
        newest_ns = self._newest_ns
        # So far back is no sample that was overtaken, but a clock that was set back.
        if newest_ns is None or stamp_ns > newest_ns or newest_ns - stamp_ns > self._high:
            self._newest_ns, self._seen_ns = stamp_ns, now_ns
            return self._low
        return now_ns - self._seen_ns
