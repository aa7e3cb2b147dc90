"""Motion limits of one axis, tick by tick: position, velocity, acceleration and jerk at once, never locking.

Everything acts on set-points in a time base of one tick (D seconds): v[k] = (q[k] - q[k-1]) / D and a[k] =
(v[k] - v[k-1]) / D. A set-point is admissible if |v| ≤ V, |a| ≤ A, |Δa| ≤ J·D, and if from it the axis can
still brake to standstill inside [lower, upper]. Because J·D ≥ A (settings refuse less), braking can always
begin at the next tick, so the set of admissible states is invariant: from each there is an admissible next
one. That is the argument of invariance behind reference governors (Gilbert and Kolmanovsky, 2002), in its
simplest form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tether.safety.settings import TICK_S

_BISECTIONS = 24


@dataclass(frozen=True)
class AxisLimits:
    """Limits of one axis in rad or m. j_step: largest change of acceleration within a tick (J·D)."""

    name: str
    lower: float
    upper: float
    v_max: float
    a_max: float
    j_step: float


AxisState = tuple[float, float, float]
"""Set-point q, its velocity v and acceleration a over the last tick."""


def stopping_distance(v: float, a: float, lim: AxisLimits) -> float:
    """Signed distance from a state with velocity v and acceleration a to standstill under hardest braking.

    Exact in discrete time: the first tick may brake only as hard as jerk allows, the following ones by a_max.
    """
    if v < 0.0:
        return -stopping_distance(-v, -a, lim)
    first = v + max(-lim.a_max, a - lim.j_step) * TICK_S
    if first <= 0.0:
        return 0.0
    step = lim.a_max * TICK_S
    ticks = math.floor(first / step)
    return TICK_S * (first + ticks * first - step * ticks * (ticks + 1) / 2.0)


def velocity_window(v: float, a: float, v_cap: float, lim: AxisLimits) -> tuple[float, float]:
    """Velocities that acceleration and jerk allow next, within ±v_cap as far as braking gets there."""
    low = v + max(-lim.a_max, a - lim.j_step) * TICK_S
    high = v + min(lim.a_max, a + lim.j_step) * TICK_S
    return min(max(low, -v_cap), high), max(min(high, v_cap), low)


def brake(state: AxisState, lim: AxisLimits) -> AxisState:
    """The next set-point of the hardest admissible braking."""
    q, v, a = state
    low, high = velocity_window(v, a, lim.v_max, lim)
    v1 = min(max(0.0, low), high)
    return q + v1 * TICK_S, v1, (v1 - v) / TICK_S


def follow(state: AxisState, goal: float, goal_rate: float, v_cap: float, lim: AxisLimits) -> AxisState:
    """The next set-point on the way to `goal`, which moves at `goal_rate`; `goal` itself where admissible.

    goal: within [lower, upper]. v_cap: at most v_max, smaller where speed is reduced. A goal that jumped is
    approached as fast as the limits allow and without overshoot.
    """
    q, v, a = state
    error = goal - goal_rate * TICK_S - q
    wanted = (goal - q) / TICK_S
    if abs(error) <= lim.a_max * TICK_S * TICK_S:
        accel = (wanted - v) / TICK_S
        within = abs(wanted) <= v_cap and abs(accel) <= lim.a_max and abs(accel - a) <= lim.j_step
        if within and lim.lower <= goal + stopping_distance(wanted, accel, lim) <= lim.upper:
            return goal, wanted, accel
    else:
        slack = 1.5 * TICK_S
        approach = lim.a_max * (math.sqrt(slack * slack + 2.0 * abs(error) / lim.a_max) - slack)
        wanted = goal_rate + math.copysign(max(lim.a_max * TICK_S, approach), error)
    return nearest(state, wanted, v_cap, lim)


def nearest(state: AxisState, wanted: float, v_cap: float, lim: AxisLimits) -> AxisState:
    """The admissible next set-point whose velocity is nearest to `wanted`."""
    q, v, a = state
    low, high = velocity_window(v, a, v_cap, lim)
    v1 = _within_position(state, min(max(wanted, low), high), min(max(0.0, low), high), lim)
    return q + v1 * TICK_S, v1, (v1 - v) / TICK_S


def _within_position(state: AxisState, wanted: float, braking: float, lim: AxisLimits) -> float:
    """The velocity nearest to `wanted` from which braking ends inside, or no further outside than now."""

    def end(v1: float) -> float:
        return state[0] + v1 * TICK_S + stopping_distance(v1, (v1 - state[1]) / TICK_S, lim)

    at_best = end(braking)
    low, high = min(lim.lower, at_best), max(lim.upper, at_best)
    if low <= end(wanted) <= high:
        return wanted
    good, bad = braking, wanted
    for _ in range(_BISECTIONS):
        middle = 0.5 * (good + bad)
        if low <= end(middle) <= high:
            good = middle
        else:
            bad = middle
    return good
