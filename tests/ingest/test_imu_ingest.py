"""IMU ingest against the sins of real sensors, on made-up streams whose truth is known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.contracts import ImuSample, SampleRef, Stream
from tether.errors import InvalidInputError
from tether.ingest.admission import JumpKind
from tether.ingest.imu import ImuConfig, ImuIngest, ImuReading
from tether.ingest.imu_units import AccelerationUnit, AngularRateUnit
from tether.ingest.imu_window import ImuWindow
from tether.ingest.rejection import Reason

MS = 1_000_000
G = 9.80665
DEG = 180.0 / math.pi
NOT_MEASURED = (-1.0, *(0.0,) * 8)
NAN, INF = float("nan"), float("inf")


def readings(
    n: int,
    *,
    accel_scale: float = 1.0,
    gyro_scale: float = 1.0,
    gyro_noise: float = 0.003,
    gravity: Sequence[float] = (0.0, 0.0, G),
    period_ns: int = 5 * MS,
    seed: int = 0,
    start: int = 0,
) -> Iterator[ImuReading]:
    """A resting MEMS IMU at 200 Hz: 0.003 rad/s and 0.02 m/s² of noise, 0.01 rad/s of bias."""
    rng = np.random.default_rng(seed)
    for i in range(start, start + n):
        gyro = (rng.normal(0.01, gyro_noise, 3)) * gyro_scale
        accel = (rng.normal(0.0, 0.02, 3) + gravity) * accel_scale
        yield ImuReading(i * period_ns, gyro.tolist(), accel.tolist())


def reasons(ingest: ImuIngest, stream: Iterator[ImuReading]) -> list[Reason | None]:
    results = [ingest.ingest(r, r.stamp_ns + 2 * MS) for r in stream]
    return [None if r.rejection is None else r.rejection.reason for r in results]


def started(config: ImuConfig | None = None) -> ImuIngest:
    """An ingest whose start-up window has passed; the next reading is number 60."""
    ingest = ImuIngest(config)
    assert set(reasons(ingest, readings(60))) == {None}
    return ingest


def next_reading(i: int = 60, **fields: object) -> ImuReading:
    base: dict[str, object] = {
        "stamp_ns": i * 5 * MS,
        "angular_velocity": (0.01, 0.011, 0.012),
        "linear_acceleration": (0.1, 0.2, 9.8),
    }
    return ImuReading(**{**base, **fields})  # type: ignore[arg-type]


def one_reason(reading: ImuReading) -> tuple[Reason | None, str]:
    result = started().ingest(reading, reading.stamp_ns + 2 * MS)
    return (None, "") if result.rejection is None else (result.rejection.reason, result.rejection.detail)


def test_good_stream_passes_from_the_first_sample_and_fills_the_window() -> None:
    ingest = ImuIngest()
    assert set(reasons(ingest, readings(150))) == {None}
    assert ingest.window.values().shape == (6, 100)
    assert list(ingest.window.stamps_ns()) == [i * 5 * MS for i in range(50, 150)]


def test_window_rows_are_gyro_then_acceleration_newest_last() -> None:
    ingest = started()
    ingest.ingest(next_reading(), 301 * MS)
    assert ingest.window.values()[:, -1].tolist() == [0.01, 0.011, 0.012, 0.1, 0.2, 9.8]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize(
    ("name", "length"),
    [
        ("angular_velocity", 3),
        ("linear_acceleration", 3),
        ("angular_velocity_covariance", 9),
        ("linear_acceleration_covariance", 9),
    ],
)
def test_number_that_is_not_finite_is_refused_with_the_name_of_the_field(name: str, length: int, bad: float) -> None:
    values = [0.1] * length
    values[1] = bad
    found, detail = one_reason(next_reading(**{name: values}))
    assert found is Reason.NOT_FINITE and f"{name}[1]" in detail


def test_nan_orientation_is_refused_unless_declared_absent() -> None:
    q = (NAN, NAN, NAN, NAN)
    assert one_reason(next_reading(orientation_xyzw=q, orientation_covariance=(0.0,) * 9))[0] is Reason.NOT_FINITE
    assert one_reason(next_reading(orientation_xyzw=q, orientation_covariance=NOT_MEASURED))[0] is None


def test_orientation_covariance_minus_one_means_no_orientation() -> None:
    reading = next_reading(orientation_xyzw=(0.0, 0.0, 0.0, 1.0), orientation_covariance=NOT_MEASURED)
    result = started().ingest(reading, 301 * MS)
    assert result.sample is not None and result.sample.orientation_xyzw is None and result.orientation_fault is None


def test_zero_quaternion_gives_a_sample_without_orientation_and_is_counted() -> None:
    ingest = started()
    result = ingest.ingest(next_reading(orientation_covariance=(0.0,) * 9), 301 * MS)
    assert result.sample is not None and result.sample.orientation_xyzw is None
    assert result.orientation_fault is not None and "zero quaternion" in result.orientation_fault
    assert ingest.orientation_faults == 1


def test_quaternion_far_from_unit_length_is_not_taken_for_an_orientation() -> None:
    reading = next_reading(orientation_xyzw=(0.0, 0.0, 0.0, 2.0), orientation_covariance=(0.0,) * 9)
    result = started().ingest(reading, 301 * MS)
    assert result.sample is not None and result.sample.orientation_xyzw is None
    assert result.orientation_fault is not None and "norm 2" in result.orientation_fault


def test_orientation_is_normalised_and_kept() -> None:
    reading = next_reading(orientation_xyzw=(0.0, 0.6, 0.0, 0.799), orientation_covariance=(0.0,) * 9)
    result = started().ingest(reading, 301 * MS)
    assert result.sample is not None and result.sample.orientation_xyzw is not None
    assert np.linalg.norm(result.sample.orientation_xyzw) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("name", ["angular_velocity_covariance", "linear_acceleration_covariance"])
def test_quantity_declared_not_measured_is_refused(name: str) -> None:
    found, detail = one_reason(next_reading(**{name: NOT_MEASURED}))
    assert found is Reason.NOT_MEASURED and name in detail


def test_negative_variance_is_refused() -> None:
    covariance = (0.1, 0, 0, 0, -0.1, 0, 0, 0, 0.1)
    assert one_reason(next_reading(angular_velocity_covariance=covariance))[0] is Reason.BAD_COVARIANCE


def test_unknown_covariance_of_all_zeros_is_accepted() -> None:
    assert one_reason(next_reading(angular_velocity_covariance=(0.0,) * 9))[0] is None


def test_dead_imu_of_all_zeros_never_passes_a_sample() -> None:
    stream = (ImuReading(i * 5 * MS, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)) for i in range(200))
    assert set(reasons(ImuIngest(), stream)) == {Reason.DEAD}


def test_imu_that_dies_while_running_is_refused_from_its_first_zero_reading() -> None:
    zero = (0.0, 0.0, 0.0)
    assert one_reason(next_reading(angular_velocity=zero, linear_acceleration=zero))[0] is Reason.DEAD


def test_dead_accelerometer_beside_a_living_gyro_is_refused() -> None:
    assert one_reason(next_reading(linear_acceleration=(0.0, 0.0, 0.0)))[0] is Reason.DEAD


def test_constant_imu_is_refused_once_it_has_repeated_itself_often_enough() -> None:
    found = reasons(ImuIngest(), (next_reading(i) for i in range(200)))
    assert found[:11] == [None] * 11 and set(found[11:]) == {Reason.CONSTANT}


def half_stuck(stuck: str, n: int) -> Iterator[ImuReading]:
    for reading in readings(n, start=60):
        fields = {
            "angular_velocity": reading.angular_velocity,
            "linear_acceleration": reading.linear_acceleration,
        }
        fields[stuck] = (0.01, 0.0, 9.8)
        yield ImuReading(reading.stamp_ns, **fields)


@pytest.mark.parametrize("stuck", ["angular_velocity", "linear_acceleration"])
def test_one_stuck_sensor_beside_a_living_one_is_refused_by_name(stuck: str) -> None:
    ingest = started()
    results = [ingest.ingest(r, r.stamp_ns + 2 * MS) for r in half_stuck(stuck, 260)]
    last = results[-1].rejection
    assert last is not None and last.reason is Reason.CONSTANT and stuck in last.detail


def test_coarse_gyro_of_a_standing_robot_may_repeat_itself_for_a_second() -> None:
    assert set(reasons(started(), half_stuck("angular_velocity", 200))) == {None}


def test_stuck_imu_that_comes_back_to_life_is_accepted_again() -> None:
    ingest = started()
    assert reasons(ingest, (next_reading(i) for i in range(60, 160)))[-1] is Reason.CONSTANT
    assert set(reasons(ingest, readings(50, start=160))) == {None}


def test_constant_readings_pass_in_a_world_declared_noiseless() -> None:
    ingest = ImuIngest(ImuConfig(noiseless_world=True))
    assert set(reasons(ingest, (next_reading(i) for i in range(200)))) == {None}


def test_acceleration_in_g_never_passes_a_sample_and_is_refused_for_good() -> None:
    ingest = ImuIngest()
    found = reasons(ingest, readings(200, accel_scale=1 / G))
    assert None not in found
    assert found[-1] is Reason.UNITS_ACCELERATION
    assert ingest.units_refused is not None and "in g" in ingest.units_refused.detail


def test_noiseless_g_is_named_a_wrong_unit_rather_than_a_stuck_sensor() -> None:
    stream = (ImuReading(i * 5 * MS, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0)) for i in range(100))
    found = reasons(ImuIngest(), stream)
    assert None not in found and found[-1] is Reason.UNITS_ACCELERATION


def test_acceleration_in_milli_g_is_refused() -> None:
    found = reasons(ImuIngest(), readings(100, accel_scale=1000 / G))
    assert None not in found and found[-1] is Reason.UNITS_ACCELERATION


def test_gravity_taken_out_is_refused_by_name() -> None:
    found = reasons(ImuIngest(), readings(100, gravity=(0.0, 0.0, 0.0)))
    assert None not in found and found[-1] is Reason.GRAVITY_MISSING


@pytest.mark.parametrize("noise_deg_s", [0.08, 0.2, 0.6])
def test_gyro_in_degrees_is_refused_within_the_start_up_window(noise_deg_s: float) -> None:
    ingest = ImuIngest()
    found = reasons(ingest, readings(200, gyro_scale=DEG, gyro_noise=noise_deg_s / DEG))
    assert found[-1] is Reason.UNITS_GYRO
    assert found.count(None) < 40


@pytest.mark.parametrize("noise_deg_s", [0.0, 0.05, 0.5, 1.0])
def test_gyro_in_radians_passes_at_any_noise_of_a_mems_part(noise_deg_s: float) -> None:
    ingest = ImuIngest()
    assert set(reasons(ingest, readings(400, gyro_noise=max(noise_deg_s, 1e-6) / DEG))) == {None}


def test_turning_in_degrees_is_refused_by_range_even_without_noise() -> None:
    stream = readings(400, gyro_noise=1e-7)
    turning = (
        ImuReading(r.stamp_ns, (0.0, 0.0, 90.0 * math.sin(i / 60)), r.linear_acceleration) for i, r in enumerate(stream)
    )
    assert reasons(ImuIngest(), turning)[-1] is Reason.UNITS_GYRO


def test_one_glitch_out_of_range_costs_one_sample_not_the_sensor() -> None:
    ingest = started()
    assert reasons(ingest, iter([next_reading(60, angular_velocity=(500.0, 0.0, 0.0))])) == [Reason.OUT_OF_RANGE]
    assert reasons(ingest, iter([next_reading(61, linear_acceleration=(0.0, 1e6, 0.0))])) == [Reason.OUT_OF_RANGE]
    assert set(reasons(ingest, readings(50, start=62))) == {None}


def test_reordered_sample_does_not_slip_past_units_that_are_not_proven() -> None:
    stream = list(readings(100, accel_scale=1 / G))
    stream[3], stream[4] = stream[4], stream[3]
    ingest = ImuIngest()
    assert all(ingest.ingest(r, 600 * MS).sample is None for r in stream)


def rocking(n: int, in_degrees: bool) -> Iterator[ImuReading]:
    """A noiseless gyro on a base that slowly rolls by ±0.5 rad: at most 14 deg/s."""
    for i in range(n):
        t = i * 0.005
        roll, rate = 0.5 * math.sin(t / 2), 0.25 * math.cos(t / 2)
        accel = (0.001 * math.sin(7 * t), G * math.sin(roll), G * math.cos(roll))
        yield ImuReading(i * 5 * MS, (rate * (DEG if in_degrees else 1.0), 0.0, 0.0), accel)


def test_quiet_gyro_in_degrees_is_found_out_when_gravity_turns() -> None:
    ingest = ImuIngest()
    assert reasons(ingest, rocking(6000, in_degrees=True))[-1] is Reason.UNITS_GYRO
    assert ingest.units_refused is not None and "degrees" in ingest.units_refused.detail


def test_quiet_gyro_in_radians_passes_when_gravity_turns() -> None:
    ingest = ImuIngest(ImuConfig(noiseless_world=True))
    assert set(reasons(ingest, rocking(6000, in_degrees=False))) == {None}


def test_shaken_robot_in_si_units_passes() -> None:
    rng = np.random.default_rng(3)
    stream = (
        ImuReading(i * 5 * MS, rng.normal(0, 0.5, 3).tolist(), (rng.normal(0, 2.0, 3) + np.array([0, 0, G])).tolist())
        for i in range(2000)
    )
    assert set(reasons(ImuIngest(), stream)) <= {None, Reason.UNITS_UNPROVEN}


def test_one_spike_near_gravity_does_not_buy_acceptance_for_g() -> None:
    stream = list(readings(100, accel_scale=1 / G))
    stream[3] = ImuReading(stream[3].stamp_ns, stream[3].angular_velocity, (0.0, 0.0, 9.8))
    assert set(reasons(ImuIngest(), iter(stream))[40:]) == {Reason.UNITS_ACCELERATION}


def test_units_verdict_outlives_a_clock_jump_and_ends_with_reset() -> None:
    ingest = ImuIngest()
    reasons(ingest, readings(200, accel_scale=1 / G))
    assert reasons(ingest, readings(5, start=10)) == [Reason.UNITS_ACCELERATION] * 5
    ingest.reset()
    assert reasons(ingest, readings(5)) == [None] * 5


@pytest.mark.parametrize(
    ("acceleration", "rate", "expected"),
    [
        (AccelerationUnit.G, AngularRateUnit.RAD_S, "units_acceleration"),
        (AccelerationUnit.M_S2, AngularRateUnit.DEG_S, "units_gyro"),
    ],
)
def test_declared_units_other_than_si_are_refused_before_the_first_sample(
    acceleration: AccelerationUnit, rate: AngularRateUnit, expected: str
) -> None:
    with pytest.raises(InvalidInputError, match=expected):
        ImuConfig(declared_acceleration=acceleration, declared_angular_rate=rate)


def test_clock_going_back_clears_the_window_once() -> None:
    ingest = started()
    results = [ingest.ingest(r, r.stamp_ns + 2 * MS) for r in readings(20)]
    assert [r.jump is not None for r in results] == [True] + [False] * 19
    assert results[0].jump is not None and results[0].jump.kind is JumpKind.CLOCK
    assert len(ingest.window) == 20


def test_reordered_sample_lands_in_its_place_in_the_window() -> None:
    ingest = ImuIngest()
    stream = list(readings(30))
    shuffled = [*stream[:20], stream[21], stream[22], stream[20], *stream[23:]]
    results = [ingest.ingest(r, 29 * 5 * MS) for r in shuffled]
    assert [r.reordered for r in results].index(True) == 22
    assert ingest.window.values().T.tolist() == [[*r.angular_velocity, *r.linear_acceleration] for r in stream]


def test_drop_out_is_flagged_on_the_sample_after_it() -> None:
    result = started().ingest(next_reading(100), 502 * MS)
    assert result.sample is not None and result.gap_ns == 41 * 5 * MS


def test_refused_samples_keep_their_sequence_numbers() -> None:
    ingest = started()
    ingest.ingest(next_reading(60, angular_velocity=(NAN, 0.0, 0.0)), 302 * MS)
    result = ingest.ingest(next_reading(61), 307 * MS)
    assert result.ref == SampleRef(Stream.IMU, 305 * MS, 61)


def test_world_sample_and_message_are_judged_alike() -> None:
    sample = ImuSample(SampleRef(Stream.IMU, 7, 3), np.array([0.1, 0.2, 0.3]), np.array([0.0, 0.1, 9.8]))
    result = ImuIngest().ingest(ImuReading.of(sample), 10, sample.ref.sequence)
    assert result.sample is not None and result.sample.ref == sample.ref
    assert result.sample.angular_velocity_rad_s.tolist() == [0.1, 0.2, 0.3]
    assert result.sample.orientation_xyzw is None


def test_same_calls_give_the_same_window_bit_for_bit() -> None:
    def run() -> bytes:
        ingest = ImuIngest()
        reasons(ingest, readings(333, seed=5))
        return ingest.window.values().tobytes()

    assert run() == run()


@settings(deadline=None)
@given(st.lists(st.integers(0, 400), unique=True, max_size=120), st.integers(1, 30))
def test_window_holds_the_newest_readings_sorted_in_whatever_order_they_came(order: list[int], capacity: int) -> None:
    window = ImuWindow(capacity)
    held: list[int] = []
    for stamp in order:
        kept = window.insert(stamp, (stamp, 0.0, 0.0), (0.0, 0.0, float(-stamp)))
        assert kept == (len(held) < capacity or stamp > held[0])
        held = sorted([*held, stamp])[-capacity:]
        assert window.stamps_ns().tolist() == held
        assert window.values()[0].tolist() == held and window.values()[5].tolist() == [-s for s in held]


def test_one_dead_axis_is_refused_after_a_while_but_not_in_a_noiseless_world() -> None:
    def dead() -> Iterator[ImuReading]:
        for r in readings(1100):
            (_, gy, gz), (ax, ay, az) = r.angular_velocity, r.linear_acceleration
            yield ImuReading(r.stamp_ns, (0.0, gy, gz), (ax, ay, az))

    ingest = ImuIngest()
    found = reasons(ingest, dead())
    assert found[:999] == [None] * 999 and set(found[999:]) == {Reason.CONSTANT}
    assert set(reasons(ImuIngest(ImuConfig(noiseless_world=True)), dead())) == {None}


def test_sensor_that_flips_between_two_readings_is_refused() -> None:
    flipping = [
        ImuReading(i * 5 * MS, (0.01 + 0.001 * (i % 2),) * 3, (0.0, 0.0, G + 0.01 * (i % 2))) for i in range(400)
    ]
    found = reasons(ImuIngest(), iter(flipping))
    assert found[:249] == [None] * 249 and set(found[249:]) == {Reason.CONSTANT}


@pytest.mark.parametrize(
    ("scale", "reason"), [(1 / G, Reason.UNITS_ACCELERATION), (0.001, Reason.GRAVITY_MISSING)], ids=["g", "none"]
)
def test_driver_that_changes_its_unit_in_mid_stream_is_refused(scale: float, reason: Reason) -> None:
    ingest = started()
    assert set(reasons(ingest, readings(99, start=60, accel_scale=scale))) == {None}
    assert set(reasons(ingest, readings(100, start=159, accel_scale=scale))) == {reason}


def test_fall_that_ends_is_no_change_of_the_unit() -> None:
    ingest = started()
    for start in (60, 170):
        assert set(reasons(ingest, readings(99, start=start, accel_scale=0.2))) == {None}
        assert set(reasons(ingest, readings(11, start=start + 99))) == {None}
