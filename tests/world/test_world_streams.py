"""Delays, drops and noise of the sensors, each from a random stream of its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.contracts import ImuSample, SampleRef, Stream
from tether.errors import InvalidInputError
from tether.world.profile import Delay, ImuProfile
from tether.world.streams import DelayDraw, DelayQueue, Draw, ImuError, generator


def _sample(sequence: int) -> ImuSample:
    return ImuSample(SampleRef(Stream.IMU, sequence, sequence), np.zeros(3), np.zeros(3))


@settings(deadline=None)
@given(st.lists(st.integers(0, 10_000), max_size=60), st.integers(1, 997))
def test_every_sample_comes_once_when_due_and_in_order_of_delivery(times: list[int], stride: int) -> None:
    queue = DelayQueue()
    for i, t in enumerate(times):
        queue.send(t, _sample(i))
    came: list[int] = []
    for now in range(0, 11_000, stride):
        due = [s.ref.sequence for s in queue.due(now)]
        assert all(now - stride < times[i] <= now or now == 0 for i in due)
        came += due
    came += [s.ref.sequence for s in queue.due(20_000)]
    assert came == sorted(range(len(times)), key=lambda i: (times[i], i))


def test_delays_spread_evenly_around_the_latency_and_drop_at_the_given_rate() -> None:
    draw = DelayDraw(Delay(0.120, 0.020, 0.10), generator(5, Draw.CAMERA_DELAY))
    values = [draw.next_ns() for _ in range(4000)]
    arrived = np.array([v for v in values if v is not None]) * 1e-9
    assert arrived.min() >= 0.100 and arrived.max() <= 0.140
    assert arrived.mean() == pytest.approx(0.120, abs=0.001)
    assert arrived.std() == pytest.approx(0.020 / np.sqrt(3), rel=0.05)
    assert 1.0 - len(arrived) / len(values) == pytest.approx(0.10, abs=0.02)


def test_streams_of_one_seed_differ_and_repeat() -> None:
    first = [generator(7, draw).random() for draw in Draw]
    assert len(set(first)) == len(first)
    assert first == [generator(7, draw).random() for draw in Draw]


def test_imu_error_has_the_noise_and_the_wandering_bias_of_the_profile() -> None:
    still = Delay(0.0, 0.0, 0.0)
    noisy = ImuError(ImuProfile(still, 0.01, 0.1, 0.0, 0.0, 0.0, 0.0), 0.005, generator(1, Draw.IMU_NOISE))
    rows = np.array([noisy.next() for _ in range(3000)])
    np.testing.assert_allclose(rows.std(axis=0), [0.01] * 3 + [0.1] * 3, rtol=0.1)
    biases = []
    for seed in range(300):
        error = ImuError(ImuProfile(still, 0.0, 0.0, 0.02, 0.05, 0.0, 0.0), 0.005, generator(seed, Draw.IMU_NOISE))
        biases.append(error.next())
    np.testing.assert_allclose(np.std(biases, axis=0), [0.02] * 3 + [0.05] * 3, rtol=0.2)
    walk = ImuError(ImuProfile(still, 0.0, 0.0, 0.0, 0.0, 0.01, 0.1), 0.005, generator(1, Draw.IMU_NOISE))
    path = np.array([walk.next() for _ in range(8000)])
    steps = np.diff(path, axis=0)
    np.testing.assert_allclose(steps.std(axis=0), np.sqrt(0.005) * np.array([0.01] * 3 + [0.1] * 3), rtol=0.1)


def test_jitter_beyond_the_latency_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="jitter_s"):
        Delay(0.01, 0.02, 0.0)
