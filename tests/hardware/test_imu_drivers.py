"""IMU drivers against chips emulated register by register, through what stands for smbus2."""

from __future__ import annotations

import dataclasses
import errno
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tether.clock import ManualClock
from tether.errors import TetherError
from tether.hardware.build import make_imu
from tether.hardware.calibration import ImuCalibration
from tether.hardware.emulate.bno085 import EmulatedBno085
from tether.hardware.emulate.i2c import I2cServer, SMBus
from tether.hardware.emulate.mpu6050 import EmulatedMpu6050
from tether.hardware.imu import Imu, axis_matrix, bias_at_rest
from tether.hardware.imu_clock import CountedClock
from tether.hardware.imu_mpu6050 import FILTER_DELAY_NS
from tether.hardware.notices import Notices
from tether.hardware.settings import ImuKind, load_robot_settings

PERIOD_NS = 5_000_000
REST = ([0.0, 0.0, 0.0], [0.0, 0.0, 9.81])


class Bench:
    """A chip, its driver and a clock moved by hand."""

    def __init__(self, folder: Path, chip: EmulatedMpu6050 | EmulatedBno085, kind: ImuKind, address: int) -> None:
        self.chip, self.clock, self.notices = chip, ManualClock(1_000_000_000), Notices()
        self.server = I2cServer(folder / "i2c", {address: chip})
        settings = load_robot_settings("emulated").imu
        self.settings = dataclasses.replace(settings, kind=kind, bus=str(folder / "i2c"), address=address)
        self.imu = self.make(ImuCalibration())

    def make(self, calibration: ImuCalibration, **changes: object) -> Imu:
        settings = dataclasses.replace(self.settings, **changes)  # type: ignore[arg-type]
        return make_imu(settings, calibration, self.notices, self.clock)

    def run(self, samples: int, gyro=REST[0], accel=REST[1], imu: Imu | None = None) -> list:
        for _ in range(samples):
            self.clock.set_ns(self.clock.now_ns() + PERIOD_NS)
            if isinstance(self.chip, EmulatedBno085):
                self.chip.push(gyro, accel, [0.0, 0.0, 0.0, 1.0])
            else:
                self.chip.push(gyro, accel)
            (imu or self.imu).attend()
        return (imu or self.imu).take()


@pytest.fixture
def mpu(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, EmulatedMpu6050(), ImuKind.MPU6050, 0x68)
    yield bench
    bench.server.close()


@pytest.fixture
def bno(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, EmulatedBno085(), ImuKind.BNO085, 0x4A)
    yield bench
    bench.server.close()


def test_samples_of_the_mpu6050_have_their_scale_and_their_times(mpu):
    mpu.imu.attend()
    samples = mpu.run(200, [0.5, -1.0, 2.0], [1.0, -2.0, 9.81])
    assert len(samples) == 200
    assert samples[-1].gyro == pytest.approx([0.5, -1.0, 2.0], abs=3e-4)
    assert samples[-1].accel == pytest.approx([1.0, -2.0, 9.81], abs=2e-3)
    gaps = np.diff([sample.stamp_ns for sample in samples])
    assert (abs(gaps - PERIOD_NS) < 0.1 * PERIOD_NS).all()
    assert 0 <= mpu.clock.now_ns() - FILTER_DELAY_NS - samples[-1].stamp_ns <= PERIOD_NS


def test_samples_of_the_bno085_have_their_scale_and_their_orientation(bno):
    bno.imu.attend()
    samples = bno.run(100, [0.5, -1.0, 2.0], [1.0, -2.0, 9.81])
    assert len(samples) == 100
    assert samples[-1].gyro == pytest.approx([0.5, -1.0, 2.0], abs=2e-3)
    assert samples[-1].accel == pytest.approx([1.0, -2.0, 9.81], abs=4e-3)
    assert samples[-1].orientation_xyzw == pytest.approx([0.0, 0.0, 0.0, 1.0])


def test_a_report_of_the_bno085_that_was_lost_leaves_a_gap_of_its_length(bno):
    bno.imu.attend()
    bno.run(50)
    bno.chip.lose = 3
    samples = bno.run(20)
    assert len(samples) == 17
    assert samples[0].stamp_ns > 0
    assert bno.imu.failures == 0


def test_a_bno085_that_has_reset_itself_is_set_up_anew(bno):
    bno.imu.attend()
    bno.run(5)
    bno.chip.reset()
    assert len(bno.run(60)) > 20
    assert [notice.kind for notice in bno.notices.take()] == ["imu_fault", "imu_back"]


@pytest.mark.parametrize("code", [errno.EREMOTEIO, errno.ETIMEDOUT])
def test_a_failing_bus_is_said_once_and_left_alone_for_longer_each_time(mpu, code: int):
    mpu.imu.attend()
    mpu.run(10)
    mpu.chip.failing = code
    before = mpu.chip.transfers
    assert mpu.run(400) == []
    assert mpu.chip.transfers - before < 20
    (notice,) = mpu.notices.take()
    assert f"({code})" in notice.text


def test_what_lay_in_the_fifo_during_a_failure_is_never_given_as_new(mpu):
    mpu.imu.attend()
    mpu.run(10)
    mpu.chip.failing = errno.EREMOTEIO
    mpu.run(40, [9.0, 0.0, 0.0])
    mpu.chip.failing = None
    samples = mpu.run(200)
    assert samples
    assert all(abs(sample.gyro[0]) < 0.01 for sample in samples)
    assert [notice.kind for notice in mpu.notices.take()] == ["imu_fault", "imu_back"]


def test_a_fifo_that_ran_over_is_emptied_and_its_samples_are_lost(mpu):
    mpu.imu.attend()
    for _ in range(120):
        mpu.chip.push([9.0, 0.0, 0.0], REST[1])
    samples = mpu.run(100)
    assert all(abs(sample.gyro[0]) < 0.01 for sample in samples)
    assert "ran over" in mpu.notices.take()[0].text


def test_a_chip_that_gives_nothing_any_more_is_set_up_anew(mpu):
    mpu.imu.attend()
    mpu.run(5)
    mpu.chip.power_cycle()  # asleep, as after a dip of its supply
    samples = mpu.run(200)
    assert samples
    assert "no new sample for 100 ms" in mpu.notices.take()[0].text


def test_another_chip_is_refused_by_its_identity(mpu):
    mpu.chip._registers[0x75] = 0x71
    mpu.imu.attend()
    assert "WHO_AM_I is 0x71, expected 0x68" in mpu.notices.take()[0].text


def test_axes_turn_the_chip_into_the_frame_of_the_robot_and_bias_is_taken_off(mpu):
    calibration = ImuCalibration((0.01, 0.0, 0.0), (0.0, 0.1, 0.0))
    imu = mpu.make(calibration, axes=("-y", "x", "z"))
    imu.attend()
    sample = mpu.run(10, [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], imu)[-1]
    assert sample.gyro == pytest.approx([-2.01, 1.0, 3.0], abs=1e-3)
    assert sample.accel == pytest.approx([-5.0, 3.9, 6.0], abs=3e-3)
    with pytest.raises(ValueError, match="mirror image"):
        axis_matrix(("y", "x", "z"))


def test_bias_at_rest_is_found_and_a_moving_robot_is_refused(mpu):
    mpu.imu.attend()
    gyro, accel = bias_at_rest(mpu.run(300, [0.01, -0.02, 0.0], [0.05, 0.0, 9.9]))
    assert gyro == pytest.approx([0.01, -0.02, 0.0], abs=5e-4)
    assert accel == pytest.approx([0.05, 0.0, 9.9 - 9.80665], abs=2e-3)
    shaken = [sample for i in range(300) for sample in mpu.run(1, [0.5 * (-1) ** i, 0.0, 0.0])]
    with pytest.raises(TetherError, match="leave the robot alone"):
        bias_at_rest(shaken)


def test_stamps_follow_a_chip_whose_clock_is_off_by_one_percent_through_late_reads():
    clock, rng = CountedClock(PERIOD_NS), np.random.default_rng(0)
    true_ns, taken, worst, gaps, last = 5_050_000, 0, 0.0, [], None
    for read in range(1, 3000):
        read_ns = read * 4_000_000 + int(rng.integers(0, 3_000_000))
        count = read_ns // true_ns - taken
        for stamp in clock.stamps(count, read_ns):
            taken += 1
            worst = max(worst, abs(stamp - taken * true_ns)) if read > 500 else worst
            gaps.append(stamp - last if last is not None else PERIOD_NS)
            last = stamp
    assert worst < PERIOD_NS
    assert min(gaps) > 0
    assert abs(clock.period_ns - true_ns) < 0.01 * PERIOD_NS


def test_a_client_of_the_emulated_bus_that_has_gone_leaves_no_open_file(tmp_path: Path):
    """An IMU that fails opens its bus anew each time: for hours, some hundred thousand times."""
    server = I2cServer(tmp_path / "i2c", {0x68: EmulatedMpu6050()})
    for _ in range(50):
        SMBus(str(tmp_path / "i2c")).close()
    deadline_s = time.monotonic() + 60.0
    while server._clients:
        assert time.monotonic() < deadline_s, f"{len(server._clients)} clients are still open"
        time.sleep(0.01)
    server.close()
