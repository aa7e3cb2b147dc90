"""IMU ingest: readings as drivers publish them (REP 145) into believable `ImuSample`s or a named refusal."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tether.config import bounded
from tether.contracts import F64, ImuSample, SampleRef, Stream
from tether.errors import Fault, InvalidInputError
from tether.ingest.admission import AdmissionConfig, ClockJump, StampAdmission
from tether.ingest.imu_units import AccelerationUnit, AngularRateUnit, UnitCheck, UnitConfig, check_declared
from tether.ingest.imu_window import WINDOW, ImuWindow
from tether.ingest.rejection import Reason, Rejection

_ZERO9 = (0.0,) * 9
_ABSENT9 = (-1.0, *(0.0,) * 8)
Floats = Sequence[float]


@dataclass(frozen=True)
class ImuReading:
    """The fields of a sensor_msgs/Imu. Covariances: (9,), row major; [0] == -1: not measured."""

    stamp_ns: int
    angular_velocity: Floats
    linear_acceleration: Floats
    orientation_xyzw: Floats = (0.0, 0.0, 0.0, 0.0)
    angular_velocity_covariance: Floats = _ZERO9
    linear_acceleration_covariance: Floats = _ZERO9
    orientation_covariance: Floats = _ABSENT9

    @staticmethod
    def of(sample: ImuSample) -> ImuReading:
        """A world's sample as the reading its message would carry: core and graph judge the same."""
        gyro = sample.angular_velocity_rad_s.tolist()
        accel = sample.linear_acceleration_m_s2.tolist()
        if sample.orientation_xyzw is None:
            return ImuReading(sample.ref.stamp_ns, gyro, accel)
        orientation = sample.orientation_xyzw.tolist()
        return ImuReading(sample.ref.stamp_ns, gyro, accel, orientation, orientation_covariance=_ZERO9)


@dataclass(frozen=True)
class ImuConfig:
    """How the IMU stream is judged."""

    admission: AdmissionConfig = field(default_factory=AdmissionConfig)
    units: UnitConfig = field(default_factory=UnitConfig)
    declared_acceleration: AccelerationUnit = AccelerationUnit.M_S2
    declared_angular_rate: AngularRateUnit = AngularRateUnit.RAD_S
    window: int = bounded(1, 10_000, unit="samples", default=WINDOW)
    constant_after: int = bounded(
        3, 100_000, unit="samples", default=12, doc="whole readings equal in a row: device or driver is stuck"
    )
    sensor_constant_after: int = bounded(
        3, 100_000, unit="samples", default=250, doc="gyro or accelerometer alone equal in a row: it is stuck"
    )
    axis_constant_after: int = bounded(
        3, 100_000, unit="samples", default=1000, doc="one axis exactly equal in a row: it is dead or stuck"
    )
    flipping_after: int = bounded(
        3, 100_000, unit="samples", default=250, doc="whole readings of no more than two values in a row: stuck"
    )
    noiseless_world: bool = False
    """Named exception for noiseless simulators, where a resting IMU repeats itself. Refuse it on a robot."""

    def __post_init__(self) -> None:
        wrong = check_declared(self.declared_acceleration, self.declared_angular_rate)
        faults = [Fault("declared units", str(r.reason.value), r.detail) for r in wrong]
        if faults:
            raise InvalidInputError("IMU ingest", faults, "convert in the driver; ingest never rescales")


@dataclass(frozen=True)
class ImuResult:
    """What became of one reading: a sample, or a rejection.

    jump: time went back and the window was cleared before this reading. gap_ns: a drop-out before it.
    reordered: it is older than the newest. orientation_fault: why an orientation that was published is not in
    the sample.
    """

    ref: SampleRef
    sample: ImuSample | None
    rejection: Rejection | None
    jump: ClockJump | None = None
    gap_ns: int | None = None
    reordered: bool = False
    orientation_fault: str | None = None


class ImuIngest:
    """Judges one IMU stream and keeps its window. Deterministic in the sequence of readings and `now_ns`."""

    def __init__(self, config: ImuConfig | None = None) -> None:
        self.config = config or ImuConfig()
        self.admission = StampAdmission(self.config.admission)
        self.rejected: Counter[Reason] = Counter()
        self.orientation_faults = 0
        self.received = 0
        self._units = UnitCheck(self.config.units)
        self._window = ImuWindow(self.config.window)
        self._forget_repeats()
        self._sequence = 0

    @property
    def window(self) -> ImuWindow:
        """The newest accepted readings."""
        return self._window

    @property
    def units_refused(self) -> Rejection | None:
        """The standing verdict against the sensor's units, or None."""
        return self._units.refused

    def reset(self) -> None:
        """Forget all but the counters: an episode starts, and with it start-up checks and numbering."""
        self.admission.reset()
        self._units.reset()
        self._sequence = 0
        self._forget()

    def ingest(self, reading: ImuReading, now_ns: int, sequence: int | None = None) -> ImuResult:
        """Judge one reading that came at `now_ns`. sequence: its number, counted here where None."""
        self.received += 1
        ref = SampleRef(Stream.IMU, reading.stamp_ns, self._sequence if sequence is None else sequence)
        self._sequence = ref.sequence + 1
        admission = self.admission.admit(reading.stamp_ns, now_ns)
        if admission.jump is not None:
            self._forget()
        rejection = admission.rejection or self._content(reading) or self._behaviour(reading, admission.reordered)
        if rejection is not None:
            self.rejected[rejection.reason] += 1
            return ImuResult(ref, None, rejection, admission.jump)
        orientation, fault = _orientation(reading)
        self.orientation_faults += fault is not None
        sample = ImuSample(
            ref,
            np.array(reading.angular_velocity, dtype=np.float64),
            np.array(reading.linear_acceleration, dtype=np.float64),
            orientation,
        )
        self._window.insert(reading.stamp_ns, reading.angular_velocity, reading.linear_acceleration)
        return ImuResult(ref, sample, None, admission.jump, admission.gap_ns, admission.reordered, fault)

    def _content(self, reading: ImuReading) -> Rejection | None:
        """Faults that one reading shows by itself."""
        return _not_finite(reading) or _covariance(reading) or _all_zero(reading)

    def _behaviour(self, reading: ImuReading, reordered: bool) -> Rejection | None:
        """Faults that show over time. A reordered reading is not part of the run, and is let through."""
        if reordered:
            return self._units.verdict()
        gyro = self._gyro_repeats.count(reading.angular_velocity)
        accel = self._accel_repeats.count(reading.linear_acceleration)
        axes = [
            repeats.count((value,))
            for repeats, value in zip(
                self._axis_repeats, (*reading.angular_velocity, *reading.linear_acceleration), strict=True
            )
        ]
        flips = self._flips.count((*reading.angular_velocity, *reading.linear_acceleration))
        verdict = self._units.check(reading.stamp_ns, reading.angular_velocity, reading.linear_acceleration)
        # Wrong units are the graver fault and stay; a stuck sensor may come back.
        return self._units.refused or self._stuck(gyro, accel, axes, flips) or verdict

    def _stuck(self, gyro: int, accel: int, axes: Sequence[int], flips: int) -> Rejection | None:
        """A coarse gyro of a standing robot may repeat itself for a while; both sensors together never do.

        Recorded sensors repeat one axis up to 4 times, and stay within two values of it up to 6 times.
        """
        if self.config.noiseless_world:
            return None
        both, longest = min(gyro, accel), max(gyro, accel)
        if both >= self.config.constant_after:
            what, n = "the whole reading", both
        elif longest >= self.config.sensor_constant_after:
            what, n = "angular_velocity" if gyro >= accel else "linear_acceleration", longest
        elif max(axes) >= self.config.axis_constant_after:
            n = max(axes)
            what = _AXES[axes.index(n)]
        elif flips >= self.config.flipping_after:
            detail = f"the reading had no more than two values in {flips} samples, expected noise; it is stuck"
            return Rejection(Reason.CONSTANT, detail)
        else:
            return None
        return Rejection(Reason.CONSTANT, f"{what} is the same for {n} samples, expected noise; it is stuck")

    def _forget(self) -> None:
        self._window.clear()
        self._forget_repeats()

    def _forget_repeats(self) -> None:
        self._gyro_repeats = _Repeats()
        self._accel_repeats = _Repeats()
        self._axis_repeats = tuple(_Repeats() for _ in _AXES)
        self._flips = _Flips()


class _Repeats:
    """Counts how often the same value came in a row."""

    def __init__(self) -> None:
        self._value: tuple[float, ...] | None = None
        self._n = 0

    def count(self, value: Floats) -> int:
        key = tuple(value)
        self._n = self._n + 1 if key == self._value else 1
        self._value = key
        return self._n


class _Flips:
    """Counts how many values in a row were one of the same two."""

    def __init__(self) -> None:
        self._last: tuple[float, ...] | None = None
        self._other: tuple[float, ...] | None = None
        self._same = 0
        self._n = 0

    def count(self, value: tuple[float, ...]) -> int:
        if value == self._last:
            self._same += 1
            self._n += 1
            return self._n
        # a third value: it and the run of the one just before are what is left
        self._n = self._n + 1 if value == self._other else self._same + 1
        self._last, self._other, self._same = value, self._last, 1
        return self._n


_AXES = tuple(f"{what}.{axis}" for what in ("angular_velocity", "linear_acceleration") for axis in "xyz")
_FIELDS = (
    "angular_velocity",
    "linear_acceleration",
    "orientation_xyzw",
    "angular_velocity_covariance",
    "linear_acceleration_covariance",
    "orientation_covariance",
)


def _not_finite(reading: ImuReading) -> Rejection | None:
    no_orientation = reading.orientation_covariance[0] == -1.0
    bad = []
    for name in _FIELDS:
        if name == "orientation_xyzw" and no_orientation:
            continue  # declared meaningless, and not used
        values = getattr(reading, name)
        if math.isfinite(sum(values)):
            continue  # a sum is finite only if all its terms are
        bad += [f"{name}[{i}] = {v}" for i, v in enumerate(values) if not math.isfinite(v)]
    return Rejection(Reason.NOT_FINITE, ", ".join(bad) + ", expected finite numbers") if bad else None


def _covariance(reading: ImuReading) -> Rejection | None:
    """REP 145: all zero is unknown, [0] == -1 not measured, anything else has variances on its diagonal."""
    for name in ("angular_velocity_covariance", "linear_acceleration_covariance", "orientation_covariance"):
        covariance = getattr(reading, name)
        if covariance[0] == -1.0:
            if name == "orientation_covariance":
                continue
            return Rejection(Reason.NOT_MEASURED, f"{name}[0] is -1: the source does not measure it")
        diagonal = (covariance[0], covariance[4], covariance[8])
        if min(diagonal) < 0.0:
            return Rejection(Reason.BAD_COVARIANCE, f"{name} has {diagonal} on its diagonal, expected variances")
    return None


def _all_zero(reading: ImuReading) -> Rejection | None:
    """Exactly zero acceleration on all axes is a sensor that does not answer, not free fall."""
    if any(reading.linear_acceleration):
        return None
    what = "acceleration" if any(reading.angular_velocity) else "acceleration and angular velocity"
    return Rejection(Reason.DEAD, f"{what} exactly zero on all axes, expected gravity; the sensor does not answer")


def _orientation(reading: ImuReading) -> tuple[F64 | None, str | None]:
    """The unit quaternion, or None with the reason where one was claimed but is none."""
    if reading.orientation_covariance[0] == -1.0:
        return None, None
    q = np.array(reading.orientation_xyzw, dtype=np.float64)
    norm = float(np.sqrt(q @ q))
    if norm < 1e-6:
        return None, "zero quaternion without orientation_covariance[0] = -1 (REP 145)"
    if abs(norm - 1.0) > 0.01:
        return None, f"quaternion of norm {norm:.4g}, expected 1"
    return q / norm, None
