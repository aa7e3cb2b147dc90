"""IMUs that others recorded: what must pass passes whole, what is not in SI is refused with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tether.ingest.imu import ImuConfig, ImuIngest, ImuReading
from tether.ingest.imu_units import UnitConfig
from tether.ingest.rejection import Reason

DATA = Path(__file__).parents[1] / "data" / "ingest"
MS = 1_000_000
G = 9.80665
DEG = np.pi / 180.0
Timed = tuple[ImuReading, int]


def recorded(name: str, own_clock: bool = False) -> Iterator[Timed]:
    """Messages of a bag with the time they were recorded at, or with their own stamps for the clock."""
    with np.load(DATA / f"{name}.npz") as file:
        covariance = file["covariances"][0].tolist()
        for log_ns, stamp_ns, row in zip(
            file["log_ns"].tolist(), file["stamp_ns"].tolist(), file["values"].tolist(), strict=True
        ):
            reading = ImuReading(
                stamp_ns, row[:3], row[3:6], row[6:], covariance[:9], covariance[9:18], covariance[18:]
            )
            yield reading, stamp_ns + 3 * MS if own_clock else log_ns


def table(name: str, gyro: slice, accel: slice, gyro_scale: float, accel_scale: float) -> Iterator[Timed]:
    for row in np.genfromtxt(DATA / name, delimiter=",", skip_header=1):
        stamp_ns = round((row[0] + 10.0) * 1e9)
        yield (
            ImuReading(stamp_ns, (row[gyro] * gyro_scale).tolist(), (row[accel] * accel_scale).tolist()),
            stamp_ns,
        )


def mpu6050(gyro_scale: float, accel_scale: float) -> Iterator[Timed]:
    return table("mpu6050.csv", slice(4, 7), slice(1, 4), gyro_scale, accel_scale)


def xio(gyro_scale: float, accel_scale: float) -> Iterator[Timed]:
    return table("xio_first_4000.csv", slice(1, 4), slice(4, 7), gyro_scale, accel_scale)


def outcome(stream: Iterator[Timed], config: ImuConfig | None = None) -> tuple[Counter[str], ImuIngest, int]:
    """How often each outcome came, the ingest, and how many drop-outs were flagged."""
    ingest, found, gaps = ImuIngest(config), Counter[str](), 0
    for reading, now_ns in stream:
        result = ingest.ingest(reading, now_ns)
        found["accepted" if result.rejection is None else result.rejection.reason.value] += 1
        gaps += result.gap_ns is not None
    return found, ingest, gaps


def test_husky_passes_whole() -> None:
    found, ingest, gaps = outcome(recorded("husky_imu"))
    assert found == {"accepted": 3000} and gaps == 0 and ingest.orientation_faults == 0


def test_simulated_robot_in_simulation_time_passes_whole_on_its_own_clock() -> None:
    found, ingest, _ = outcome(recorded("abitobot_imu", own_clock=True))
    assert found == {"accepted": 4712} and ingest.orientation_faults == 0


def test_headers_in_simulation_time_under_a_wall_clock_are_refused_with_the_hint() -> None:
    found, ingest, _ = outcome(recorded("abitobot_imu"))
    assert found == {"late_stamp": 4712}
    reading, now_ns = next(recorded("abitobot_imu"))
    rejection = ImuIngest().ingest(reading, now_ns).rejection
    assert rejection is not None and "use_sim_time" in rejection.detail
    assert len(ingest.window) == 0


SENSORS = pytest.mark.parametrize("sensor", [mpu6050, xio], ids=["mpu6050", "xio"])


@SENSORS
def test_recorded_g_is_refused_before_any_sample_passes(
    sensor: Callable[[float, float], Iterator[Timed]],
) -> None:
    found, ingest, _ = outcome(sensor(DEG, 1.0))
    assert set(found) == {"units_unproven", "units_acceleration"}
    assert ingest.units_refused is not None and "gravity in g" in ingest.units_refused.detail


@SENSORS
def test_recording_as_it_is_is_refused_with_both_reasons(
    sensor: Callable[[float, float], Iterator[Timed]],
) -> None:
    found, ingest, _ = outcome(sensor(1.0, 1.0))
    assert set(found) == {"units_unproven", "units_acceleration"} and found["units_unproven"] < 20
    refused = ingest.units_refused
    assert refused is not None and "gravity in g" in refused.detail and "expected rad/s" in refused.detail


@SENSORS
def test_recorded_degrees_are_refused_in_the_start_up_window(
    sensor: Callable[[float, float], Iterator[Timed]],
) -> None:
    found, ingest, _ = outcome(sensor(1.0, G))
    assert found["accepted"] < 20
    assert ingest.units_refused is not None and ingest.units_refused.reason is Reason.UNITS_GYRO


@SENSORS
def test_the_same_recording_converted_to_si_passes_whole(
    sensor: Callable[[float, float], Iterator[Timed]],
) -> None:
    found, _, _ = outcome(sensor(DEG, G))
    assert set(found) == {"accepted"}


def test_recorded_degrees_are_refused_by_range_where_the_noise_check_is_wide_open() -> None:
    found, ingest, _ = outcome(xio(1.0, G), ImuConfig(units=UnitConfig(gyro_noise_max_rad_s=1.0)))
    assert found["units_gyro"] > 2000
    assert ingest.units_refused is not None and "17.5" in ingest.units_refused.detail


def test_gap_of_30_ms_in_the_xio_recording_is_flagged_where_the_bound_says_so() -> None:
    config = ImuConfig()
    tight = replace(config, admission=replace(config.admission, gap_ns=25 * MS))
    assert outcome(xio(DEG, G), tight)[2] >= 1


def test_recorded_dead_imu_is_refused() -> None:
    """The one Imu of rosbag2.js's sample.db3: orientation and covariances filled in, all readings zero."""
    orientation = (-0.00303694183385077, -0.821769774654061, 0.569725663340332, -0.009893582805554232)
    diagonal = (0.02, 0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0, 0.02)
    zero = (0.0, 0.0, 0.0)
    reading = ImuReading(1553411909072940288, zero, zero, orientation, diagonal, diagonal, diagonal)
    rejection = ImuIngest().ingest(reading, 1553411909073353785).rejection
    assert rejection is not None and rejection.reason is Reason.DEAD
