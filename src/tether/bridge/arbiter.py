"""Who decides: the student, or the fallback while the student's predictions of its own sensors are wrong.

The arbiter looks at one number, the error of what the student predicted about the samples that then came
(`FusedState.prediction_error`), and holds it against a threshold. The truth plays no part. It hands over after several
errors in a row above the threshold, and back after more of them well below it, so that an error that sways about the
threshold changes nobody. Every ruling says why.

The fallback is the teacher on a digital twin, but only while the twin passes a check of its own; otherwise the student
with slow motions, and where its error is beyond all bounds, standing still. A grasp or a lift that is under way is not
taken out of one hand and put into the other unless both would go on with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tether.bridge.threshold import ThresholdConfig
from tether.bridge.twin_config import TwinConfig
from tether.config import bounded, load
from tether.contracts import Primitive
from tether.errors import Fault, InvalidInputError


class Arbitration(str, Enum):
    """How the bridge comes to its decision; evaluations keep the three apart."""

    STUDENT_ALONE = "student_alone"
    """The policy's proposal, whatever it is."""
    WITH_FALLBACK = "student_with_fallback"
    """The arbiter chooses between the policy's proposal and the fallback."""
    ORACLE_TEACHER = "oracle_teacher"
    """The teacher on the world's true state; the policy runs along and decides nothing."""


class InCharge(str, Enum):
    """Whose action the robot follows."""

    STUDENT = "student"
    TWIN = "teacher on the twin"
    SLOW = "slow student"
    HOLD = "hold"


@dataclass(frozen=True)
class ArbiterConfig:
    """See config/arbiter.yaml. Counts are of decisions (20 a second)."""

    threshold: float = bounded(0.001, 10.0, doc="normalised prediction error above which the student is off")
    release_share: float = bounded(0.1, 0.95, doc="share of the threshold below which it is back")
    take_over: int = bounded(1, 100, doc="errors above the threshold in a row that hand over")
    hand_back: int = bounded(1, 1000, doc="errors below the release in a row that hand back")
    dwell: int = bounded(1, 1000, doc="the student keeps the robot at least so long after a hand-back")
    unknown: int = bounded(1, 10_000, doc="decisions without an error, once there was one, that hand over")
    hold_error: float = bounded(0.01, 100.0, doc="error at which even slow motions are not to be trusted")
    hold_after: int = bounded(1, 1000, doc="such errors in a row that make the robot stand still")
    twin_trust: int = bounded(1, 1000, doc="passed checks in a row before the twin is followed")
    defer: int = bounded(0, 1000, doc="a hand-over waits at most so long for a grasp or lift to end")
    slow_share: float = bounded(0.05, 1.0, doc="share of a speed's range that the slow student may use")
    teacher: str = bounded(doc="policy that is the teacher, an oracle")
    tighten: ThresholdConfig = field(default_factory=ThresholdConfig)
    twin: TwinConfig = field(default_factory=TwinConfig)

    def __post_init__(self) -> None:
        if self.hold_error <= self.threshold:
            fault = Fault("hold_error", f"{self.hold_error:g}", f"more than threshold = {self.threshold:g}")
            raise InvalidInputError("arbiter", [fault])


def load_arbiter_config(path: Path) -> ArbiterConfig:
    """Read and check config/arbiter.yaml."""
    return load(path, ArbiterConfig)


@dataclass(frozen=True)
class Evidence:
    """What the arbiter judges by at one decision.

    error: the state's prediction error, None while unknown. student, teacher: primitives that they propose; teacher is
    None where the twin has no state for it to act on. twin_passes, twin_says: the twin's check of itself.
    """

    error: float | None
    student: Primitive
    teacher: Primitive | None
    twin_passes: bool
    twin_says: str


@dataclass(frozen=True)
class Ruling:
    """The arbiter's word on one decision. switched_from: who was in charge before, None where nobody took over."""

    in_charge: InCharge
    reason: str
    switched_from: InCharge | None = None


COMMITTED = frozenset({Primitive.GRASP, Primitive.LIFT, Primitive.PLACE})
"""Motions that are worse broken off than finished."""


@dataclass
class _Runs:
    """Decisions in a row, up to now, of which something held."""

    over: int = 0
    under: int = 0
    unknown: int = 0
    wild: int = 0
    calm: int = 0
    twin: int = 0


class Arbiter:
    """Deterministic in the sequence of evidence since `reset`."""

    def __init__(self, config: ArbiterConfig) -> None:
        self.config = config
        self.reset(config.threshold)

    def reset(self, threshold: float) -> None:
        """Start an episode with the student in charge and a threshold that stands until the next one."""
        self.threshold = threshold
        self._now = InCharge.STUDENT
        self._since = self.config.dwell  # nobody has just handed back
        self._runs = _Runs()
        self._known = False
        self._deferred = 0

    @property
    def in_charge(self) -> InCharge:
        """Who decided last."""
        return self._now

    def dump(self) -> bytes:
        """The memory as bytes, for hashes."""
        return repr((self.threshold, self._now.value, self._since, self._runs, self._known, self._deferred)).encode()

    def rule(self, evidence: Evidence) -> Ruling:
        """Who decides now, and why."""
        self._count(evidence)
        before = self._now
        wanted, why = self._from_student(evidence) if before is InCharge.STUDENT else self._from_fallback(evidence)
        reason = f"{wanted.value}: {why}"
        if wanted is before:
            return Ruling(wanted, reason)
        self._now, self._since, self._deferred = wanted, 0, 0
        return Ruling(wanted, reason, before)

    # -- one after the other ----------------------------------------------------------------------------------------

    def _from_student(self, e: Evidence) -> tuple[InCharge, str]:
        why = self._over(e)
        if why is None or self._since < self.config.dwell:
            return InCharge.STUDENT, self._error_text(e)
        if not self._twin_trusted(e):
            return InCharge.SLOW, f"hand-over, {why}; no twin: {e.twin_says}"
        if self._breaks_off(e.student, e) and self._deferred < self.config.defer:
            self._deferred += 1
            return InCharge.STUDENT, f"{why}; hand-over waits for the end of {e.student.name.lower()}"
        return InCharge.TWIN, f"hand-over, {why}; {e.twin_says}"

    def _from_fallback(self, e: Evidence) -> tuple[InCharge, str]:
        now, runs, config = self._now, self._runs, self.config
        if now is InCharge.TWIN and not (e.twin_passes and e.teacher is not None):
            return InCharge.SLOW, f"the twin is not to be followed: {e.twin_says}"
        if runs.under >= config.hand_back:
            if now is not InCharge.TWIN or not self._breaks_off(e.teacher, e):
                text = f"{runs.under} errors in a row below {config.release_share * self.threshold:.3f}"
                return InCharge.STUDENT, f"hand-back, {text}"
            return now, f"hand-back waits for the end of {_name(e.teacher)}"
        if now is InCharge.TWIN:
            return now, f"{self._error_text(e)}; {e.twin_says}"
        if self._twin_trusted(e) and (now is InCharge.HOLD or not self._breaks_off(e.student, e)):
            return InCharge.TWIN, f"the twin can be followed: {e.twin_says}"
        if now is InCharge.SLOW and runs.wild >= config.hold_after:
            return InCharge.HOLD, f"{runs.wild} errors in a row of {config.hold_error:g} or more"
        if now is InCharge.HOLD and runs.calm >= config.hand_back:
            return InCharge.SLOW, f"{runs.calm} errors in a row below {config.hold_error:g}"
        return now, f"{self._error_text(e)}; no twin: {e.twin_says}"

    # -- small things -----------------------------------------------------------------------------------------------

    def _count(self, e: Evidence) -> None:
        runs, error = self._runs, _worst_if_senseless(e.error)
        self._since += 1
        runs.twin = runs.twin + 1 if e.twin_passes and e.teacher is not None else 0
        if error is None:
            runs.unknown += 1 if self._known else 0
            runs.over = runs.under = runs.wild = runs.calm = 0
            return
        self._known, runs.unknown = True, 0
        runs.over = runs.over + 1 if error > self.threshold else 0
        runs.under = runs.under + 1 if error < self.config.release_share * self.threshold else 0
        runs.wild = runs.wild + 1 if error >= self.config.hold_error else 0
        runs.calm = runs.calm + 1 if error < self.config.hold_error else 0

    def _over(self, e: Evidence) -> str | None:
        """Why the student is off; None where it is not."""
        if self._runs.over >= self.config.take_over:
            return f"{self._error_text(e)}, {self._runs.over} in a row"
        if self._runs.unknown >= self.config.unknown:
            return f"prediction error unknown for {self._runs.unknown} decisions"
        return None

    def _twin_trusted(self, e: Evidence) -> bool:
        return e.twin_passes and e.teacher is not None and self._runs.twin >= self.config.twin_trust

    def _breaks_off(self, running: Primitive | None, e: Evidence) -> bool:
        """Whether changing hands now would break off a motion that is better finished."""
        return running in COMMITTED and e.student is not e.teacher

    def _error_text(self, e: Evidence) -> str:
        if e.error is None:
            return "prediction error unknown"
        sign = ">" if (_worst_if_senseless(e.error) or 0.0) > self.threshold else "<="
        return f"prediction error {e.error:.3f} {sign} {self.threshold:.3f}"


def _worst_if_senseless(error: float | None) -> float | None:
    """An error that is not a number, or negative, is no good news."""
    if error is None or (math.isfinite(error) and error >= 0.0):
        return error
    return math.inf


def _name(primitive: Primitive | None) -> str:
    return "nothing" if primitive is None else primitive.name.lower()
