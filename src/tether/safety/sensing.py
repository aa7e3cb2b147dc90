"""What the gate knows of its sensors: silence, stamp age, and the IMU's word on tilt, shock and free fall."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tether.contracts import TICK_NS, Stream, Verdict
from tether.safety import checks
from tether.safety.settings import Check, ImuLimits, RepeatLimits, StreamLimits

STANDARD_GRAVITY_M_S2 = 9.80665
AT_REST_RAD_S = 0.02
"""What a joint that stands may say of its speed."""


class StreamWatch:
    """The two ages of one stream.

    A sample whose stamp cannot be (further in the future than clocks may differ) does not count for the stamp
    age, and a repeated or older stamp does not make the newest sample any newer; all count against silence.
    """

    def __init__(self, stream: Stream, limits: StreamLimits, future_max_ns: int) -> None:
        self.stream = stream
        self._silence_max_ns = round(limits.silence_max_ms * 1e6)
        self._stamp_age_max_ns = round(limits.stamp_age_max_ms * 1e6)
        self._future_max_ns = future_max_ns
        self.received_ns: int | None = None
        self.origin_ns: int | None = None
        self.refused: Verdict | None = None
        self.why = ""
        """Why ingest refused the newest sample; empty where it did not."""

    def seen(self, received_ns: int, age_ns: int) -> Verdict | None:
        """A good sample came, acquired `age_ns` before it was received. A verdict if its stamp cannot be.

        One impossible stamp (a step of the stamps' clock) stops nothing: it makes nothing newer, and if it goes on,
        the stamp age says so.
        """
        self.refused, self.why = None, ""
        self.received_ns = received_ns
        if age_ns < -self._future_max_ns:
            text = f"{self.stream.value}: stamp is {-age_ns * 1e-6:.1f} ms in the future"
            return checks.refuse(Check.STAMP_AGE, text)
        origin_ns = received_ns - max(age_ns, 0)
        if self.origin_ns is None or origin_ns > self.origin_ns:
            self.origin_ns = origin_ns
        return None

    def bad(self, verdict: Verdict) -> None:
        """A sample came that had to be refused; the gate stops until a good one comes."""
        self.refused = verdict

    def judge(self, now_ns: int, silence: bool, stamps: bool) -> tuple[Verdict, ...]:
        """Verdicts on this stream; those below 1 only."""
        out = []
        if max(self.received_ns or 0, self.origin_ns or 0) > now_ns + TICK_NS:
            # Believed, it would look fresh for as long as it is ahead.
            text = f"{self.stream.value}: sample from the future, after {now_ns} ns"
            self.received_ns = self.origin_ns = None
            self.refused = checks.refuse(Check.CLOCK, text)
        if self.refused is not None:
            out.append(self.refused)
        if silence:
            since = None if self.received_ns is None else now_ns - self.received_ns
            verdict = checks.sensor_silence(self.stream, since, self._silence_max_ns, self.why)
            if verdict.scale < 1.0:
                out.append(verdict)
        if stamps:
            age = None if self.origin_ns is None else now_ns - self.origin_ns
            verdict = checks.stamp_age(self.stream, age, self._stamp_age_max_ns)
            if verdict.scale < 1.0:
                out.append(verdict)
        return tuple(out)


class RepeatWatch:
    """Joint states that stay the same and belie themselves or the arm's orders: a dead sensor behind a live driver.

    That they stay the same proves nothing by itself: encoders of a robot that holds still say the same for minutes, and
    so does a simulator without noise. But a joint that says it moves cannot say the same place again and again; and one
    that is told to move has to: there samples count from when a set-point has moved away from where it stood when the
    present content first came. Found dead, they are so until something else comes, or `restart`.
    """

    def __init__(self, limits: RepeatLimits, names: Sequence[str], gripper: int) -> None:
        """names: of the joints in order; gripper: which of them may be held back by what it grips."""
        self._limits = limits
        self._arm = [(i, name) for i, name in enumerate(names) if i != gripper]
        self._content = b""
        self.restart()

    @property
    def dead(self) -> bool:
        """Whether they say nothing of where the joints are."""
        return self._dead is not None

    def restart(self) -> None:
        """Count anew: something else was said, or a person has armed the gate."""
        self._first_ns: int | None = None
        self._says, self._says_rad_s = "", 0.0
        self._again = 0
        self._same = 0
        self._moved = ""
        self._dead: Verdict | None = None
        self._reference: tuple[float, ...] | None = None

    def add(self, content: bytes, velocity: Mapping[str, float], received_ns: int) -> None:
        """A good sample came; content: its numbers, velocity: of every joint among them, rad/s (m/s)."""
        if content != self._content:
            self._content = content
            self.restart()
        if self._first_ns is None:
            self._first_ns = received_ns
            fastest, self._says = max((abs(velocity[name]), name) for _, name in self._arm)
            self._says_rad_s = fastest if fastest > AT_REST_RAD_S else 0.0
            return
        self._again += 1
        self._same += bool(self._moved)
        said_rad = self._says_rad_s * (received_ns - self._first_ns) * 1e-9
        if self._dead is None:
            verdict = checks.sensor_belied(self._again, self._says, said_rad, self._limits)
            self._dead = verdict if verdict.scale < 1.0 else None

    def shift(self, before: Sequence[float], after: Sequence[float]) -> None:
        """Set-points were put elsewhere, which tells no joint to move; what was found stays found."""
        if self._reference is not None and len(before) == len(after):
            self._reference = tuple(r + b - a for r, a, b in zip(self._reference, before, after, strict=True))

    def judge(self, set_points: Sequence[float]) -> Verdict | None:
        """Once a tick; a verdict below 1, or None. set_points: (n,) rad (m) of all joints; empty: there are none."""
        if self._dead is not None or not set_points:
            return self._dead
        if self._reference is None:
            self._reference = tuple(set_points)
        if not self._moved:
            moved, joint = max((abs(set_points[i] - self._reference[i]), name) for i, name in self._arm)
            self._moved = joint if moved > self._limits.joints_moved_rad else ""
        verdict = checks.sensor_repeats(self._same, self._moved, self._limits)
        self._dead = verdict if verdict.scale < 1.0 else None
        return self._dead

    def state(self) -> tuple[object, ...]:
        """Everything that the next verdicts depend on."""
        said = self._first_ns, self._says_rad_s, self._again
        return self._content, *said, self._same, self._moved, self._dead, self._reference


class ImuWatch:
    """Tilt and free fall from the low-passed acceleration, shock from single samples."""

    def __init__(self, limits: ImuLimits) -> None:
        self._limits = limits
        self._mean: tuple[float, float, float] | None = None
        self._last_ns = 0
        self._shock_m_s2 = 0.0

    def add(self, accel: tuple[float, float, float], received_ns: int) -> None:
        """Take one sample, (3,) m/s² in the IMU's frame with z up."""
        excess = abs(math.hypot(*accel) - STANDARD_GRAVITY_M_S2)
        self._shock_m_s2 = max(self._shock_m_s2, excess)
        if self._mean is None:
            self._mean = accel
        else:
            dt = min(max(received_ns - self._last_ns, 0) * 1e-9, self._limits.filter_s)
            share = dt / (self._limits.filter_s + dt)
            x, y, z = self._mean
            self._mean = x + share * (accel[0] - x), y + share * (accel[1] - y), z + share * (accel[2] - z)
        self._last_ns = received_ns

    def take(self) -> tuple[tuple[Check, Verdict], ...]:
        """Verdicts on tilt, shock and free fall. The largest shock since the last call counts, once."""
        shock, self._shock_m_s2 = self._shock_m_s2, 0.0
        if self._mean is None:
            return ()
        x, y, z = self._mean
        angle = math.atan2(math.hypot(x, y), z)
        return (
            (Check.TILT, checks.tilt(angle, self._limits)),
            (Check.SHOCK, checks.shock(shock, self._limits)),
            (Check.FREE_FALL, checks.free_fall(math.hypot(x, y, z), self._limits)),
        )

    def state(self) -> tuple[float, ...]:
        """Everything that the next verdicts depend on."""
        return (*(self._mean or (math.nan,) * 3), float(self._last_ns), self._shock_m_s2)
