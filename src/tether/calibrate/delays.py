"""How late things are: a joint behind its command, a sample behind its stamp, a picture behind what moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.signal import lfilter

from tether.contracts import F64, U8
from tether.errors import TetherError

_STEP_S = 0.001
_LAGS_S = np.arange(-0.10, 0.50, 0.002)
_SHRINK = 4
_LEAST_CORRELATION = 0.8


@dataclass(frozen=True)
class ActuatorLag:
    """A joint follows gain · command of `dead_time_s` ago through a first-order lag. rms: of what that leaves, rad."""

    dead_time_s: float
    time_constant_s: float
    gain: float
    rms: float

    @property
    def total_s(self) -> float:
        """How far a slow motion lags behind its command."""
        return self.dead_time_s + self.time_constant_s


@dataclass(frozen=True)
class SampleDelay:
    """From a sample's stamp to its being read. jitter_s: half of the middle 98 %. drop: share that never came."""

    latency_s: float
    jitter_s: float
    drop: float
    n: int


@dataclass(frozen=True)
class SeenLag:
    """How much later than the joint a picture shows a motion, by the pictures' stamps and by when they were there.

    stamp_s: an error of the stamps, about 0 where they are right. arrival_s: motion to photon to memory.
    correlation: of the seen with the measured motion.
    """

    stamp_s: float
    arrival_s: float
    correlation: float


def steps(amplitude: float, seconds: float, tick_s: float, seed: int = 0) -> F64:
    """(n,) of ±amplitude, held for 0.15 to 0.45 s each: it has all frequencies that tell dead time from lag."""
    rng = np.random.default_rng(seed)
    values: list[float] = []
    sign = 1.0
    while len(values) < round(seconds / tick_s):
        values += [sign * amplitude] * round(rng.uniform(0.15, 0.45) / tick_s)
        sign = -sign
    return np.array(values[: round(seconds / tick_s)])


def actuator_lag(goal_s: F64, goal: F64, joint_s: F64, joint: F64) -> ActuatorLag:
    """Fit by least squares; times in seconds of one clock, (n,) and (m,). TetherError where it does not follow."""
    if len(goal_s) < 50 or len(joint_s) < 50 or float(np.ptp(goal)) == 0.0:
        found = f"{len(goal_s)} goals over {float(np.ptp(goal)) if len(goal) else 0.0:g} rad, {len(joint_s)} readings"
        raise TetherError(f"lag of a joint: {found}; expected at least 50 of each and a goal that moves")

    def left(parameters: F64) -> tuple[float, float]:
        modelled = _response(goal_s, goal, joint_s, *np.abs(parameters).tolist())
        columns = np.stack([modelled, np.ones_like(modelled)], axis=1)
        solution = np.linalg.lstsq(columns, joint, rcond=None)[0]
        return float(np.sqrt(np.mean((columns @ solution - joint) ** 2))), float(solution[0])

    starts = [(d, tau) for d in (0.01, 0.04, 0.1) for tau in (0.03, 0.1, 0.25)]
    best = min(starts, key=lambda start: left(np.array(start))[0])
    found_at = minimize(lambda p: left(p)[0], best, method="Nelder-Mead", options={"xatol": 1e-5, "fatol": 1e-9})
    rms, gain = left(found_at.x)
    if not 0.5 < gain < 1.5 or rms > 0.25 * float(np.std(joint)):
        raise TetherError(
            f"lag of a joint: it follows its command with gain {gain:.2f}, {rms:.4f} rad RMS are left, expected about "
            f"1 and below {0.25 * float(np.std(joint)):.4f}; fix: nothing may block the arm, and no limit be in its way"
        )
    dead_s, constant_s = np.abs(found_at.x).tolist()
    return ActuatorLag(dead_s, constant_s, gain, rms)


def _response(goal_s: F64, goal: F64, joint_s: F64, dead_s: float, constant_s: float) -> F64:
    """The model's position at `joint_s`; goals are held until the next."""
    grid = np.arange(goal_s[0], max(goal_s[-1], joint_s[-1]) + _STEP_S, _STEP_S)
    held = goal[np.clip(np.searchsorted(goal_s, grid - dead_s, side="right") - 1, 0, len(goal) - 1)]
    a = np.exp(-_STEP_S / max(constant_s, 1e-4))
    modelled = lfilter([1.0 - a], [1.0, -a], held, zi=[a * held[0]])[0]
    result: F64 = np.interp(joint_s, grid, modelled)
    return result


def sample_delay(arrivals: Sequence[tuple[int, int]], period_s: float) -> SampleDelay:
    """Of (stamp, arrival) in ns, in order. TetherError for fewer than 20."""
    if len(arrivals) < 20:
        raise TetherError(f"delay of a sensor: {len(arrivals)} samples, expected at least 20; fix: is it connected?")
    late_s = np.array([arrival - stamp for stamp, arrival in arrivals]) * 1e-9
    gaps = np.diff([stamp for stamp, _ in arrivals]) * 1e-9
    missing = int(np.maximum(np.rint(gaps / period_s) - 1.0, 0.0).sum())
    low, middle, high = np.percentile(late_s, (1, 50, 99)).tolist()
    latency_s = max(middle, 0.0)
    jitter_s = min(max(0.5 * (high - low), 0.0), latency_s)
    return SampleDelay(latency_s, jitter_s, missing / (len(arrivals) + missing), len(arrivals))


def motion_in(pictures: Sequence[U8]) -> F64:
    """(n,) how far along the main change between pictures (h, w, 3) each one is: their first principal component."""
    small = np.stack([_small(picture) for picture in pictures])
    centred = small - small.mean(axis=0)
    rows = centred.reshape(len(pictures), -1)
    _, vectors = np.linalg.eigh(rows @ rows.T)
    result: F64 = vectors[:, -1]
    return result


def _small(picture: U8) -> F64:
    grey = picture.astype(np.float64).mean(axis=2)
    height, width = (n // _SHRINK * _SHRINK for n in grey.shape)
    blocks = grey[:height, :width].reshape(height // _SHRINK, _SHRINK, width // _SHRINK, _SHRINK)
    result: F64 = blocks.mean(axis=(1, 3))
    return result


def seen_lag(stamp_s: F64, arrival_s: F64, seen: F64, joint_s: F64, joint: F64) -> SeenLag:
    """Cross-correlate what pictures show with what the encoder said; times in seconds of one clock.

    TetherError where the two do not resemble each other: then the camera did not see the arm move.
    """
    by_stamp, correlation = _best_lag(stamp_s, seen, joint_s, joint)
    by_arrival, _ = _best_lag(arrival_s, seen, joint_s, joint)
    if correlation < _LEAST_CORRELATION:
        raise TetherError(
            f"latency: seen and measured motion correlate with {correlation:.2f}, expected at least "
            f"{_LEAST_CORRELATION:g}; fix: the arm in the picture, light, nothing else that moves, a larger amplitude"
        )
    return SeenLag(by_stamp, by_arrival, correlation)


def _best_lag(time_s: F64, seen: F64, joint_s: F64, joint: F64) -> tuple[float, float]:
    values = []
    for lag in _LAGS_S:
        moved = np.interp(time_s - lag, joint_s, joint)
        spread = float(np.std(moved) * np.std(seen))
        values.append(
            0.0 if spread == 0.0 else abs(float(np.mean((moved - moved.mean()) * (seen - seen.mean())))) / spread
        )
    i = int(np.argmax(values))
    if not 0 < i < len(values) - 1:
        return float(_LAGS_S[i]), values[i]
    left, top, right = values[i - 1 : i + 2]
    bend = left - 2.0 * top + right
    shift = 0.5 * (left - right) / bend if bend else 0.0
    return float(_LAGS_S[i] + shift * (_LAGS_S[1] - _LAGS_S[0])), top
