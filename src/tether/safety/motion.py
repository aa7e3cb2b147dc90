"""Set-points under way: the arm's joints and the base, moved on by one tick within every limit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tether.contracts import Verdict
from tether.safety import checks
from tether.safety.limiter import AxisLimits, AxisState, brake, follow, nearest, stopping_distance
from tether.safety.settings import TICK_S, BaseLimits, Check
from tether.safety.workspace import Depths, Workspace, largest_share, no_deeper

_PATH_POINTS_MAX = 16
_TURNS = 3
_LEAD_MAX_S = 0.2
"""Set-points further from the joints than full speed goes in this time are no lead of a servo's lag."""
_OVERSHOOT = 1.05
_STILL_TICKS = 2
_Found = tuple[float, int, list[float]]
"""Excess in m, index of the (link, zone), joint positions."""


class ArmMotion:
    """The joints' set-points. `advance` moves them by one tick; `anchor` puts them where the joints are.

    axes: limits in the gate's joint order. gripper: index of the joint that grips.
    """

    def __init__(self, axes: Sequence[AxisLimits], workspace: Workspace | None, gripper: int) -> None:
        self._axes = tuple(axes)
        self._workspace = workspace
        self._grips = gripper
        self._levers = workspace.levers if workspace is not None else ()
        self.goals: tuple[float, ...] | None = None
        self._hold: list[float] | None = None
        self._still_ticks = _STILL_TICKS
        # Where the room around the points was last looked at, and how much there was.
        self._looked_at: tuple[float, ...] | None = None
        self._room_m = 0.0
        self.states: list[AxisState] = []
        self.feed_forward: list[float] = []

    def anchor(self, position: Sequence[float]) -> None:
        """Start again at `position`, standing still."""
        self.states = [(q, 0.0, 0.0) for q in position]
        self.feed_forward = [0.0] * len(position)
        self.goals = self._hold = None
        self._still_ticks = _STILL_TICKS

    def settle(self) -> None:
        """No set-point was sent for so long that they have stood still: forget their velocities."""
        self.anchor([q for q, _, _ in self.states])

    def state(self) -> tuple[object, ...]:
        """Everything that future set-points depend on; its repr is exact."""
        return self.states, self.feed_forward, self.goals, self._hold, self._still_ticks

    def standstill(self) -> bool:
        """True if no set-point moves; not already at the instant at which one turns back."""
        return self._still_ticks >= _STILL_TICKS

    def brake(self) -> None:
        """One tick of the hardest admissible braking; afterwards the set-points stand."""
        self.goals = None
        self.states = [brake(state, lim) for state, lim in zip(self.states, self._axes, strict=True)]
        for i, (_, v, _) in enumerate(self.states):
            self.feed_forward[i] = _towards(self.feed_forward[i], v, self._axes[i].a_max * TICK_S)

    def stop(self, measured: Sequence[float] | None) -> None:
        """One tick of the controlled stop: brake, and go back to where the joints were when the stop began.

        Set-points lead the joints by the servos' lag. Held where they are, they would draw the arm on, into the
        ground it was coming down to. The gripper keeps its grip. measured: (n,) joints now, None where that is not
        known; the set-points then stand where braking ends.
        """
        if not self.states:
            return
        if self._hold is None:
            self._hold, self.goals = self._where_to_hold(measured), None
        verdicts = self._move(self._hold, self._hold, 1.0)
        self._feed([0.0] * len(self.states), 1.0)
        if any(verdict.check == Check.WORKSPACE.value for verdict in verdicts):
            self._hold = self._where_to_hold(None)
        still = all(v == 0.0 for _, v, _ in self.states)
        self._still_ticks = min(self._still_ticks + 1, _STILL_TICKS) if still else 0

    def _where_to_hold(self, measured: Sequence[float] | None) -> list[float]:
        """Braking's end, or where the joints are if that is nearer than a lead can be."""
        out = []
        for i, (lim, (q, v, a)) in enumerate(zip(self._axes, self.states, strict=True)):
            at = q + stopping_distance(v, a, lim)
            if measured is not None and i != self._grips and abs(measured[i] - q) <= lim.v_max * _LEAD_MAX_S:
                at = measured[i]
            out.append(min(max(at, min(lim.lower, q)), max(lim.upper, q)))
        return out

    def advance(
        self, asked: Sequence[float], velocity: Sequence[float], share: float, may_close: bool
    ) -> list[Verdict]:
        """One tick towards `asked` (n,) with feed-forward `velocity` (n,) at `share` of full speed.

        Returns the verdicts that restricted the motion. Where none did, the set-points are exactly as asked.
        """
        if self._hold is not None:
            self._hold = self.goals = None
        self._still_ticks = 0
        goals = [min(max(q, lim.lower), lim.upper) for q, lim in zip(asked, self._axes, strict=True)]
        if not may_close:
            goals[self._grips] = max(goals[self._grips], self.states[self._grips][0])
        verdicts = self._move(asked, goals, share)
        self._feed(velocity, share)
        return verdicts

    def _move(self, asked: Sequence[float], goals: list[float], share: float) -> list[Verdict]:
        """The set-points one tick on towards `goals`, which are `asked` within the position limits."""
        before = self.goals or goals
        candidates = []
        for i, lim in enumerate(self._axes):
            cap = share * lim.v_max
            rate = min(max((goals[i] - before[i]) / TICK_S, -cap), cap)
            candidates.append(follow(self.states[i], goals[i], rate, cap, lim))
        self.goals = tuple(goals)
        verdicts = self._explain(asked, goals, candidates, share) if self._differs(asked, candidates) else []
        if self._workspace is not None:
            candidates, verdict = self._inside_workspace(candidates, self._workspace, share)
            if verdict is not None:
                verdicts.append(verdict)
        self.states = candidates
        return verdicts

    def _differs(self, asked: Sequence[float], candidates: Sequence[AxisState]) -> bool:
        return any(state[0] != q for q, state in zip(asked, candidates, strict=True))

    def _feed(self, velocity: Sequence[float], share: float) -> None:
        """Feed-forward within the velocity limit, and braking before the position limit."""
        for i, (lim, (q, _, _)) in enumerate(zip(self._axes, self.states, strict=True)):
            if velocity[i] == 0.0 == self.feed_forward[i]:
                continue
            cap = share * lim.v_max
            up = min(cap, math.sqrt(2.0 * lim.a_max * max(lim.upper - q, 0.0)))
            down = min(cap, math.sqrt(2.0 * lim.a_max * max(q - lim.lower, 0.0)))
            wanted = _towards(self.feed_forward[i], velocity[i], lim.a_max * TICK_S)
            self.feed_forward[i] = min(max(wanted, -down), up)

    def _inside_workspace(
        self, candidates: list[AxisState], workspace: Workspace, share: float
    ) -> tuple[list[AxisState], Verdict | None]:
        """Candidates if they and all of their braking path are no deeper in forbidden space than now.

        Otherwise they are turned aside, so that motion along the boundary goes on; where that does not help, the
        largest share of the way from braking to them. Braking itself always may be: its path was judged when the
        present set-points were admitted.
        """
        if self._has_room(candidates, workspace):
            return candidates, None
        allowed = self._allowed(workspace)
        found = self._deepest(candidates, workspace, allowed)
        if found is None:
            return candidates, None
        link, zone = workspace.name(found[1])
        reason = f"{link} would be {found[0] * 1e3:.1f} mm inside forbidden space: {zone}"
        asked = candidates
        for _ in range(_TURNS):
            candidates = self._turned_aside(candidates, workspace, share, found)
            found = self._deepest(candidates, workspace, allowed)
            if found is None:
                return candidates, Verdict(Check.WORKSPACE.value, self._common_share(candidates, asked), reason)
        braking = [brake(state, lim) for state, lim in zip(self.states, self._axes, strict=True)]

        def between(part: float) -> list[AxisState]:
            out = []
            for (q, v, _), (_, slow, _), (_, fast, _) in zip(self.states, braking, candidates, strict=True):
                v1 = slow + part * (fast - slow)
                out.append((q + v1 * TICK_S, v1, (v1 - v) / TICK_S))
            return out

        part = largest_share(lambda s: self._deepest(between(s), workspace, allowed) is None)
        candidates = between(part) if part > 0.0 else braking
        return candidates, Verdict(Check.WORKSPACE.value, self._common_share(candidates, asked), reason)

    def _turned_aside(
        self, candidates: list[AxisState], workspace: Workspace, share: float, found: _Found
    ) -> list[AxisState]:
        """Candidates moved, to first order, out of the zone that they enter, along its gradient over the joints."""
        excess, zone, where = found
        gradient = workspace.gradient(where, zone)
        square = sum(g * g for g in gradient)
        if square == 0.0:
            return candidates
        push = _OVERSHOOT * excess / square
        out = []
        for i, lim in enumerate(self._axes):
            _, v1, _ = candidates[i]
            # A change of velocity moves the end of the braking path by this long.
            reach_s = TICK_S + abs(v1) / lim.a_max
            out.append(nearest(self.states[i], v1 - push * gradient[i] / reach_s, share * lim.v_max, lim))
        return out

    def _common_share(self, candidates: list[AxisState], asked: list[AxisState]) -> float:
        """How much of the asked step was taken, along it; joints count by their lever on the tool."""
        along = whole = 0.0
        for lever, (q, _, _), (q1, _, _), (q2, _, _) in zip(self._levers, self.states, candidates, asked, strict=True):
            along += lever * lever * (q1 - q) * (q2 - q)
            whole += lever * lever * (q2 - q) * (q2 - q)
        return min(max(along / whole, 0.0), 1.0) if whole > 0.0 else 0.0

    def _deepest(self, candidates: list[AxisState], workspace: Workspace, allowed: Depths) -> _Found | None:
        """Where candidates and the braking that would follow are deepest over what is allowed; None if nowhere."""
        worst: _Found | None = None
        for q in self._path(candidates):
            depths = workspace.depths(q)
            if no_deeper(depths, allowed):
                continue
            excess, zone = workspace.excess(depths, allowed)
            if worst is None or excess > worst[0]:
                worst = excess, zone, q
        return worst

    def _has_room(self, candidates: list[AxisState], workspace: Workspace) -> bool:
        """True if the points cannot reach forbidden space on the way to the candidates and on to standstill.

        A bound instead of the path: what `_path` would find is free anyway, at a tenth of the cost.
        """
        for looked_again in (False, True):
            if looked_again or self._looked_at is None:
                self._looked_at = tuple(q for q, _, _ in self.states)
                self._room_m = workspace.room(self._looked_at)
            reach = 0.0
            for lever, start, (q, v, a), lim in zip(self._levers, self._looked_at, candidates, self._axes, strict=True):
                reach += lever * (abs(q - start) + abs(stopping_distance(v, a, lim)))
            if reach < self._room_m:
                return True
        return False

    def _allowed(self, workspace: Workspace) -> Depths:
        """How deep set-points may lie: as deep as they do now or will while braking."""
        allowed = workspace.depths([q for q, _, _ in self.states])
        braking = [brake(state, lim) for state, lim in zip(self.states, self._axes, strict=True)]
        for q in self._path(braking):
            allowed = tuple(map(max, allowed, workspace.depths(q)))
        return allowed

    def _path(self, states: list[AxisState]) -> list[list[float]]:
        """Joint positions at `states` and along the braking that would follow, tick by tick, the last first."""
        path = [[q for q, _, _ in states]]
        while any(v != 0.0 for _, v, _ in states):
            states = [brake(state, lim) for state, lim in zip(states, self._axes, strict=True)]
            path.append([q for q, _, _ in states])
        # Long braking (low accelerations) is sampled: neighbouring ticks are then close to each other.
        return path[:: -(1 + len(path) // _PATH_POINTS_MAX)]

    def _explain(
        self, asked: Sequence[float], goals: Sequence[float], candidates: Sequence[AxisState], share: float
    ) -> list[Verdict]:
        """Which limits changed the set-points: the worst verdict of each kind."""
        found: dict[str, Verdict] = {}
        for i, lim in enumerate(self._axes):
            if candidates[i][0] == asked[i]:
                continue
            q, v, a = self.states[i]
            rate = (goals[i] - q) / TICK_S
            accel = (rate - v) / TICK_S
            for verdict in (
                checks.joint_position(asked[i], q, lim),
                checks.joint_velocity(rate, share * lim.v_max, lim),
                checks.joint_acceleration(accel, lim),
                checks.joint_jerk(accel - a, TICK_S, lim),
            ):
                if verdict.scale < found.get(verdict.check, checks.PASSED[Check.JOINT_POSITION]).scale:
                    found[verdict.check] = verdict
        if not found:
            reason = "slowed so that braking ends where it was asked to, without overshoot"
            found[""] = Verdict(Check.JOINT_ACCELERATION.value, self._passed(asked, candidates), reason)
        return list(found.values())

    def _passed(self, asked: Sequence[float], candidates: Sequence[AxisState]) -> float:
        """The smallest share of any joint's asked step that was taken."""
        shares = [
            (candidate[0] - state[0]) / (q - state[0])
            for q, state, candidate in zip(asked, self.states, candidates, strict=True)
            if q != state[0]
        ]
        return min(max(min(shares, default=0.0), 0.0), 1.0)


class BaseMotion:
    """The base's twist, moved on by one tick. Linear and angular are limited apart."""

    def __init__(self, limits: BaseLimits) -> None:
        self._limits = limits
        self.twist = (0.0, 0.0, 0.0)

    def anchor(self, twist: tuple[float, float, float]) -> None:
        """Start again at `twist`, the twist that is known to be under way."""
        vx, vy, wz = twist
        speed = math.hypot(vx, vy)
        share = min(1.0, self._limits.linear_max_m_s / speed) if speed > 0.0 else 1.0
        top = self._limits.angular_max_rad_s
        self.twist = (vx * share, vy * share, min(max(wz, -top), top))

    def standstill(self) -> bool:
        """True if the base is told to stand."""
        return self.twist == (0.0, 0.0, 0.0)

    def stop(self) -> None:
        """One tick of the controlled stop."""
        self._approach(0.0, 0.0, 0.0)

    def advance(self, asked: tuple[float, float, float], share: float) -> list[Verdict]:
        """One tick towards `asked` (vx, vy, wz) at `share` of full speed; the verdicts that restricted it."""
        vx, vy, wz = asked
        linear_max, angular_max = share * self._limits.linear_max_m_s, share * self._limits.angular_max_rad_s
        speed = math.hypot(vx, vy)
        verdicts = []
        if speed > linear_max:
            verdicts.append(checks.base_linear(speed, linear_max))
            # Scaled first, so that a finite pair whose length is not finite cannot become NaN.
            largest = max(abs(vx), abs(vy))
            vx, vy = vx / largest, vy / largest
            length = math.hypot(vx, vy)
            vx, vy = vx / length * linear_max, vy / length * linear_max
        if abs(wz) > angular_max:
            verdicts.append(checks.base_angular(wz, angular_max))
            wz = math.copysign(angular_max, wz)
        self._approach(vx, vy, wz)
        return verdicts

    def _approach(self, vx: float, vy: float, wz: float) -> None:
        x, y, w = self.twist
        dx, dy = vx - x, vy - y
        change, most = math.hypot(dx, dy), self._limits.linear_acceleration_m_s2 * TICK_S
        if change > most:
            vx, vy = x + dx * (most / change), y + dy * (most / change)
        self.twist = (vx, vy, _towards(w, wz, self._limits.angular_acceleration_rad_s2 * TICK_S))


def _towards(value: float, wanted: float, most: float) -> float:
    """`wanted`, or as near as a change of at most `most` gets."""
    if abs(wanted - value) <= most:
        return wanted
    return value + math.copysign(most, wanted - value)
