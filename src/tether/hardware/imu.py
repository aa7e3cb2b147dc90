"""The IMU as the robot has it: a thread empties the chip's FIFO, turns samples into the frame of imu_link, takes the
calibrated bias off, and keeps trying when the bus fails. After a failure the chip is set up anew with an empty FIFO:
what lay in it is old, and old samples are never given as new.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tether.clock import Clock
from tether.contracts import F64
from tether.errors import TetherError
from tether.hardware.calibration import ImuCalibration
from tether.hardware.notices import BackOff, Level, Notices
from tether.hardware.settings import ImuSettings

_KEPT = 1000
_ARRIVALS = 8192
_HINTS = {
    errno.EREMOTEIO: "the chip does not acknowledge: its cable, address and supply",
    errno.EIO: "the chip does not acknowledge: its cable, address and supply",
    errno.ETIMEDOUT: "something holds the bus low: cut the sensors' power, and shorten the cable if it comes back",
    errno.ENOENT: "there is no such bus: dtparam=i2c_arm=on in config.txt",
    errno.EACCES: "no permission: add the user to group i2c",
}


class Chip(Protocol):
    """A kind of IMU."""

    def set_up(self) -> None:
        """Open the bus, reset and configure; OSError or TetherError where that fails."""

    def poll(self) -> list[tuple[int, F64, F64, F64 | None]]:
        """New samples, oldest first: steady time, gyro (rad/s), accel (m/s²), orientation x y z w or None."""


@dataclass(frozen=True, eq=False)
class ImuReadout:
    """One sample in imu_link. stamp_ns: time.monotonic_ns of its acquisition."""

    stamp_ns: int
    gyro: F64
    accel: F64
    orientation_xyzw: F64 | None


def axis_matrix(axes: tuple[str, str, str]) -> F64:
    """(3, 3): from the chip's axes to imu_link's. ValueError where the axes are left-handed, as no chip is mounted."""
    matrix = np.zeros((3, 3))
    for row, axis in enumerate(axes):
        matrix[row, "xyz".index(axis[-1])] = -1.0 if axis.startswith("-") else 1.0
    if np.linalg.det(matrix) < 0.0:
        raise ValueError(f"axes {list(axes)} make a mirror image; one of the signs is wrong")
    return matrix


class Imu:
    """Reads a chip from `start` to `close`; `take` gives what has come."""

    def __init__(
        self, chip: Chip, settings: ImuSettings, calibration: ImuCalibration, notices: Notices, clock: Clock
    ) -> None:
        self._clock = clock
        self._chip = chip
        self._settings = settings
        self._turn = axis_matrix(settings.axes)
        self._gyro_bias = np.array(calibration.gyro_bias_rad_s)
        self._accel_bias = np.array(calibration.accel_bias_m_s2)
        self._notices = notices
        self._lock = threading.Lock()
        self._samples: list[ImuReadout] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._well = False
        self._last_kind = ""
        self._back_off = BackOff(settings.retry_min_s, settings.retry_max_s)
        self.arrivals: deque[tuple[int, int]] = deque(maxlen=_ARRIVALS)
        """Stamps of the latest samples, and when each had been read, on the clock."""
        self.failures = 0

    def start(self) -> None:
        """Begin to read."""
        self._thread = threading.Thread(target=self._run, name="imu", daemon=True)
        self._thread.start()

    def take(self) -> list[ImuReadout]:
        """Samples since the last call, oldest first."""
        with self._lock:
            samples, self._samples = self._samples, []
        return samples

    def close(self, deadline_s: float = 2.0) -> None:
        """Stop reading. A bus that is stuck in the kernel keeps its thread, which ends with the process."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(deadline_s)

    def _run(self) -> None:
        period_s = self._settings.poll_ms * 1e-3
        next_s = time.monotonic()
        while not self._ended.wait(max(0.0, next_s - time.monotonic())):
            self.attend()
            next_s = max(next_s + period_s, time.monotonic() - period_s)

    def attend(self) -> None:
        """Poll once, or set up the chip where it is time for that."""
        now_s = self._now_s()
        if not self._well:
            if self._back_off.due(now_s):
                self._try(self._begin)
            return
        self._try(self._read)

    def _begin(self) -> None:
        self._chip.set_up()
        self._well = True
        self._new_s = self._now_s()

    def _read(self) -> None:
        samples = self._chip.poll()
        now_s = self._now_s()
        if not samples:
            if now_s - self._new_s > self._settings.stale_ms * 1e-3:
                raise TetherError(f"IMU: no new sample for {self._settings.stale_ms:g} ms; the chip is set up anew")
            return
        self._new_s = now_s
        if self._last_kind:
            self._notices.add(Level.INFO, "imu_back", "the IMU gives samples again")
        self._last_kind = ""
        self._back_off.reset()
        turned = [self._turned(*sample) for sample in samples]
        read_ns = self._clock.now_ns()
        self.arrivals.extend((sample.stamp_ns, read_ns) for sample in turned)
        with self._lock:
            self._samples += turned
            del self._samples[:-_KEPT]

    def _try(self, call: Callable[[], None]) -> None:
        try:
            call()
        except OSError as error:
            hint = _HINTS.get(error.errno or 0, "docs/hardware.md")
            self._fail(f"bus_{error.errno}", f"IMU: {error.strerror or error} ({error.errno}); {hint}")
        except TetherError as error:
            self._fail(str(error)[:40], str(error))

    def _fail(self, kind: str, text: str) -> None:
        self.failures += 1
        self._well = False
        self._back_off.failed(self._now_s())
        if kind != self._last_kind:  # the same trouble is said once, until it is over
            self._notices.add(Level.ERROR, "imu_fault", text)
        self._last_kind = kind

    def _now_s(self) -> float:
        return self._clock.now_ns() * 1e-9

    def _turned(self, stamp_ns: int, gyro: F64, accel: F64, orientation_xyzw: F64 | None) -> ImuReadout:
        return ImuReadout(
            stamp_ns, self._turn @ gyro - self._gyro_bias, self._turn @ accel - self._accel_bias, orientation_xyzw
        )


def bias_at_rest(samples: list[ImuReadout], gravity_m_s2: float = 9.80665) -> tuple[F64, F64]:
    """Bias of gyro (rad/s) and accelerometer (m/s²), (3,) each, of samples of a robot that stands still and level.

    Raises TetherError where it did not stand still, or not upright. What a tilt of the ground adds to the horizontal
    axes cannot be told from bias; a spirit level on the deck keeps it below 0.02 m/s².
    """
    if len(samples) < 200:
        raise TetherError(f"IMU bias: {len(samples)} samples, expected at least 200 (1 s)")
    gyro = np.array([sample.gyro for sample in samples])
    accel = np.array([sample.accel for sample in samples])
    still = float(gyro.std(axis=0).max()), float(accel.std(axis=0).max())
    if still[0] > 0.02 or still[1] > 0.3:
        found = f"spread {still[0]:.3f} rad/s and {still[1]:.2f} m/s²"
        raise TetherError(f"IMU bias: {found}, expected at most 0.02 and 0.3; fix: leave the robot alone")
    upright = np.array([0.0, 0.0, gravity_m_s2])
    bias = gyro.mean(axis=0), accel.mean(axis=0) - upright
    if float(np.abs(bias[1]).max()) > 1.5 or float(np.abs(bias[0]).max()) > 0.35:
        found = f"{bias[0].round(3).tolist()} rad/s, {accel.mean(axis=0).round(2).tolist()} m/s²"
        raise TetherError(
            f"IMU bias: the mean is {found}, expected about 0 and [0, 0, 9.81]; fix: level it, check `axes`"
        )
    return bias
