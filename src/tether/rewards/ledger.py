"""The ledger: which subgoals have been reached, each paid once an episode, in order, on a hard threshold.

There is no soft term: nothing is paid for being near, for a motion towards, or for time. The sum of an episode is the
sum of a prefix of the table of values, whatever the robot does.
"""

from __future__ import annotations

from dataclasses import dataclass

from tether.contracts import Command, TruthSample
from tether.errors import Fault, InvalidInputError
from tether.motion.kinematics import ArmKinematics
from tether.rewards.config import ORDER, RewardConfig, Subgoal
from tether.rewards.measured import Measured, measured_of_truth
from tether.world.task import SuccessSpec


@dataclass(frozen=True)
class Payment:
    """A subgoal reached. stamp_ns: the time it belongs to; task_return: paid in this episode, this included."""

    subgoal: Subgoal
    value: float
    stamp_ns: int
    task_return: float


class _Dwell:
    """For how long a condition has held. Each measurement vouches for the time since the one before it."""

    def __init__(self) -> None:
        self._held_ns = 0

    def take(self, holds: bool, step_ns: int | None) -> int:
        """The time after a measurement that came `step_ns` after the one before; None where that is too long ago."""
        self._held_ns = 0 if not holds or step_ns is None else self._held_ns + step_ns
        return self._held_ns


class Ledger:
    """Judges one episode after another. A function of the measurements since `reset`, and of nothing else."""

    def __init__(self, config: RewardConfig, rules: SuccessSpec, kinematics: ArmKinematics) -> None:
        """rules: the task's, whose lift and hold are those of the last two subgoals."""
        self._config = config
        self._rules = rules
        self._kinematics = kinematics
        self._gap_ns = round(config.gap_s * 1e9)
        self._for_ns = {
            Subgoal.ALIGNED: round(config.aligned.for_s * 1e9),
            Subgoal.TOUCHED: 0,
            Subgoal.HELD: round(config.held.for_s * 1e9),
            Subgoal.LIFTED: 0,
            Subgoal.KEPT: round(rules.hold_s * 1e9),
        }
        self.reset()

    def reset(self) -> None:
        """Start an episode: nothing has been paid."""
        self._paid = 0
        self._return = 0.0
        self._last_ns: int | None = None
        self._dwells = {subgoal: _Dwell() for subgoal in ORDER}

    @property
    def paid(self) -> tuple[Subgoal, ...]:
        """What has been reached in this episode."""
        return ORDER[: self._paid]

    def take(self, truth: TruthSample, executed: Command | None) -> tuple[Payment, ...]:
        """What is to be paid on a world state and the command executed up to it."""
        return self.judge(measured_of_truth(truth, executed, self._kinematics))

    def judge(self, measured: Measured) -> tuple[Payment, ...]:
        """What is to be paid on a measurement; raises InvalidInputError where it is not newer than the last."""
        if self._last_ns is not None and measured.stamp_ns <= self._last_ns:
            fault = Fault("stamp_ns", str(measured.stamp_ns), f"later than {self._last_ns}")
            raise InvalidInputError(
                "reward ledger", [fault], "hand over measurements once and in order of their stamps"
            )
        step_ns = None if self._last_ns is None else measured.stamp_ns - self._last_ns
        if step_ns is not None and step_ns > self._gap_ns:
            step_ns = None
        self._last_ns = measured.stamp_ns
        reached = {s: self._reached(s, self._holds(s, measured), step_ns) for s in ORDER}
        payments: list[Payment] = []
        while self._paid < len(ORDER) and reached[ORDER[self._paid]]:
            subgoal = ORDER[self._paid]
            value = self._config.value.of(subgoal)
            self._paid += 1
            self._return += value
            payments.append(Payment(subgoal, value, measured.stamp_ns, self._return))
        return tuple(payments)

    def _reached(self, subgoal: Subgoal, holds: bool, step_ns: int | None) -> bool:
        dwelt_ns = self._dwells[subgoal].take(holds, step_ns)
        return holds and dwelt_ns >= self._for_ns[subgoal]

    def _holds(self, subgoal: Subgoal, m: Measured) -> bool:
        """Whether the condition of a subgoal, its dwell aside, holds at this moment."""
        config = self._config
        if subgoal is Subgoal.ALIGNED:
            low, high = config.aligned.above_m
            return (
                self._at_most(m.flat_m, config.aligned.flat_m)
                and self._at_most(m.above_m, high)
                and self._at_least(m.above_m, low)
                and self._at_least(m.opening_m, config.aligned.opening_m)
            )
        gripped = m.gripping and self._at_most(m.commanded_opening_m, config.touched.closing_m)
        if subgoal is Subgoal.TOUCHED:
            return gripped
        up = self._at_least(m.cube_height_m, self._rules.lift_m)
        if subgoal is Subgoal.KEPT:
            return up
        return gripped and (up if subgoal is Subgoal.LIFTED else self._within(m))

    def _within(self, m: Measured) -> bool:
        if m.flat_m is None or m.above_m is None:
            return False
        return self._at_most((m.flat_m**2 + m.above_m**2) ** 0.5, self._config.held.within_m)

    def _at_most(self, value: float | None, limit: float) -> bool:
        return value is not None and value <= limit + self._config.tolerance_m

    def _at_least(self, value: float | None, limit: float) -> bool:
        return value is not None and value >= limit - self._config.tolerance_m
