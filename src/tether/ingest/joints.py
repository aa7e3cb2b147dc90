"""Joint ingest: a sensor_msgs/JointState into a `JointSample` in the robot's order, or a named refusal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from tether.contracts import F64, JointSample, SampleRef, Stream
from tether.errors import Fault, InvalidInputError
from tether.ingest.admission import AdmissionConfig, ClockJump, StampAdmission
from tether.ingest.rejection import Reason, Rejection

_LARGEST = 1e6
"""rad, m, rad/s, m/s, N or N·m: nothing a joint has comes near it; beyond, differences lose their digits."""


class MissingVelocity(str, Enum):
    """What to do with a message whose velocity array is empty, as sensor_msgs/JointState allows."""

    REFUSE = "refuse"
    """Refuse it: nothing downstream works with a made-up velocity."""
    DIFFERENCE = "difference"
    """Take the difference of positions to the last accepted sample over the difference of stamps; the first
    sample and one after a drop-out are refused, since a velocity cannot be told from them."""


class ExtraNames(str, Enum):
    """What to do with joints that the robot does not have."""

    REFUSE = "refuse"
    IGNORE = "ignore"
    """Leave them out: for bodies whose other joints are published on the same topic."""


@dataclass(frozen=True)
class JointReading:
    """The fields of a sensor_msgs/JointState. Each array is empty or as long as `names`."""

    stamp_ns: int
    names: Sequence[str]
    position: Sequence[float]
    velocity: Sequence[float] = ()
    effort: Sequence[float] = ()

    @staticmethod
    def of(sample: JointSample) -> JointReading:
        """A world's sample as the reading that its message would carry."""
        return JointReading(sample.ref.stamp_ns, sample.names, sample.position.tolist(), sample.velocity.tolist())


@dataclass(frozen=True)
class JointConfig:
    """Which joints make up the robot, and how the stream is judged."""

    names: tuple[str, ...]
    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    missing_velocity: MissingVelocity = MissingVelocity.REFUSE
    extra_names: ExtraNames = ExtraNames.REFUSE

    def __post_init__(self) -> None:
        repeated = sorted(name for name, n in Counter(self.names).items() if n > 1)
        if not self.names or repeated:
            fault = Fault("names", f"{list(self.names)}", "one or more names, each once")
            raise InvalidInputError("joint ingest", [fault])


@dataclass(frozen=True)
class JointResult:
    """What became of one reading: a sample, or a rejection. The rest is as in `imu.ImuResult`."""

    ref: SampleRef
    sample: JointSample | None
    rejection: Rejection | None
    jump: ClockJump | None = None
    gap_ns: int | None = None
    reordered: bool = False


class JointIngest:
    """Judges one stream of joint states. Deterministic in the sequence of readings and `now_ns`."""

    def __init__(self, config: JointConfig) -> None:
        self.config = config
        self.admission = StampAdmission(config.admission)
        self.rejected: Counter[Reason] = Counter()
        self.received = 0
        self._known = frozenset(config.names)
        self._last: JointSample | None = None
        self._sequence = 0

    def reset(self) -> None:
        """Forget stamps, numbering and the last sample (start of an episode); counters stay."""
        self.admission.reset()
        self._last = None
        self._sequence = 0

    def ingest(self, reading: JointReading, now_ns: int, sequence: int | None = None) -> JointResult:
        """Judge one reading that came at `now_ns`. sequence: its number, counted here where None."""
        self.received += 1
        ref = SampleRef(Stream.JOINTS, reading.stamp_ns, self._sequence if sequence is None else sequence)
        self._sequence = ref.sequence + 1
        admission = self.admission.admit(reading.stamp_ns, now_ns)
        if admission.jump is not None:
            self._last = None
        made = admission.rejection or self._content(reading) or self._sample(ref, reading, admission.gap_ns)
        if isinstance(made, Rejection):
            self.rejected[made.reason] += 1
            return JointResult(ref, None, made, admission.jump)
        if self._last is None or made.ref.stamp_ns > self._last.ref.stamp_ns:
            self._last = made
        return JointResult(ref, made, None, admission.jump, admission.gap_ns, admission.reordered)

    def _content(self, reading: JointReading) -> Rejection | None:
        return self._names(reading) or _lengths(reading) or _not_finite(reading) or _absurd(reading)

    def _names(self, reading: JointReading) -> Rejection | None:
        repeated = sorted(name for name, n in Counter(reading.names).items() if n > 1)
        if repeated:
            return Rejection(Reason.NAMES_REPEATED, f"{', '.join(repeated)} given twice, expected each joint once")
        missing = [name for name in self.config.names if name not in set(reading.names)]
        if missing:
            return Rejection(Reason.NAMES_MISSING, f"without {', '.join(missing)}, expected all of the robot's joints")
        extra = [name for name in reading.names if name not in self._known]
        if extra and self.config.extra_names is ExtraNames.REFUSE:
            return Rejection(Reason.NAMES_EXTRA, f"with {', '.join(extra)}, which the robot does not have")
        return None

    def _sample(self, ref: SampleRef, reading: JointReading, gap_ns: int | None) -> JointSample | Rejection:
        index = {name: i for i, name in enumerate(reading.names)}
        order = [index[name] for name in self.config.names]
        position = np.array([reading.position[i] for i in order], dtype=np.float64)
        if len(reading.velocity):
            velocity = np.array([reading.velocity[i] for i in order], dtype=np.float64)
            return JointSample(ref, self.config.names, position, velocity)
        differenced = self._differenced(ref.stamp_ns, position, gap_ns)
        if isinstance(differenced, Rejection):
            return differenced
        return JointSample(ref, self.config.names, position, differenced)

    def _differenced(self, stamp_ns: int, position: F64, gap_ns: int | None) -> F64 | Rejection:
        if self.config.missing_velocity is MissingVelocity.REFUSE:
            return Rejection(Reason.VELOCITY_MISSING, "velocity is empty, expected one value a joint")
        if self._last is None or gap_ns is not None or stamp_ns <= self._last.ref.stamp_ns:
            # The position still counts as the base of the next difference.
            if self._last is None or stamp_ns > self._last.ref.stamp_ns:
                unknown = np.zeros_like(position)
                self._last = JointSample(SampleRef(Stream.JOINTS, stamp_ns, 0), self.config.names, position, unknown)
            return Rejection(
                Reason.VELOCITY_MISSING,
                "velocity is empty and there is no sample just before to tell it from",
            )
        step_s = (stamp_ns - self._last.ref.stamp_ns) * 1e-9
        velocity: F64 = (position - self._last.position) / step_s
        if not float(np.abs(velocity).max()) <= _LARGEST:
            fastest = self.config.names[int(np.abs(velocity).argmax())]
            detail = f"the positions of {fastest} make a velocity beyond {_LARGEST:g}, expected less"
            return Rejection(Reason.OUT_OF_RANGE, detail)
        return velocity


def _lengths(reading: JointReading) -> Rejection | None:
    n = len(reading.names)
    wrong = [f"position has {len(reading.position)}"] if len(reading.position) != n else []
    for name in ("velocity", "effort"):
        length = len(getattr(reading, name))
        if length not in (0, n):
            wrong.append(f"{name} has {length}")
    return Rejection(Reason.BAD_LENGTH, f"{', '.join(wrong)}, expected {n}, one a name") if wrong else None


def _not_finite(reading: JointReading) -> Rejection | None:
    bad = [
        f"{field_name}[{name}] = {value}"
        for field_name in ("position", "velocity", "effort")
        for name, value in zip(reading.names, getattr(reading, field_name), strict=False)
        if not math.isfinite(value)
    ]
    return Rejection(Reason.NOT_FINITE, ", ".join(bad) + ", expected finite numbers") if bad else None


def _absurd(reading: JointReading) -> Rejection | None:
    bad = [
        f"{field_name}[{name}] = {value:g}"
        for field_name in ("position", "velocity", "effort")
        for name, value in zip(reading.names, getattr(reading, field_name), strict=False)
        if abs(value) > _LARGEST
    ]
    return Rejection(Reason.OUT_OF_RANGE, f"{', '.join(bad)}, expected within ±{_LARGEST:g}") if bad else None
