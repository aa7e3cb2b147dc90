"""The bridge's stage in the graph: proposals in, the one decision that the robot will follow out.

The three ways of coming to a decision are classes of one face; `Arbitration` names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tether.bridge.arbiter import Arbiter, Arbitration, Evidence, InCharge, Ruling
from tether.bridge.fallback import held, slowed
from tether.bridge.twin import KinematicTwin, TwinView
from tether.contracts import (
    Decision,
    FusedState,
    HybridAction,
    PolicyOutput,
    Primitive,
    SampleRef,
    SkillContext,
    Source,
    Stream,
    TruthSample,
)
from tether.errors import Fault, InvalidInputError, TetherError
from tether.fusion.estimator import Arrivals
from tether.fusion.stage import canonical
from tether.lockstep import in_order
from tether.models.running import runtimes_of
from tether.policy.protocol import Policy
from tether.policy.stage import digest
from tether.skills import SkillTable

SINCE_BEFORE = "since_before"
"""Among a decision's latencies, in real time: steady time since the decision before it in the episode."""


@dataclass(frozen=True, eq=False)
class Around:
    """What lies around one decision besides the policy's proposal.

    arrivals: what came since the decision before. truth: None unless something of the bridge is called an oracle.
    """

    state: FusedState
    arrivals: Arrivals
    truth: TruthSample | None = None


class BridgeStage(Protocol):
    """One decision out of the proposals for it. Deterministic in what it was given since `reset`."""

    @property
    def arbitration(self) -> Arbitration:
        """Which way of deciding this is."""

    @property
    def runtimes(self) -> dict[str, str]:
        """Of the models of whoever else decides, see `tether.models.running.runtimes_of`."""

    def reset(self, skill: SkillContext, threshold: float | None = None) -> None:
        """Start an episode. threshold: of the arbiter, its configured one where None."""

    def step(self, output: PolicyOutput, around: Around | None = None) -> Decision:
        """The decision that the robot follows until the next one.

        Raises InvalidInputError where something it needs of `around` is missing.
        """


class StudentAlone:
    """The policy's proposal, whatever it is: with a single policy there is nothing to choose, and it says so."""

    arbitration = Arbitration.STUDENT_ALONE

    @property
    def runtimes(self) -> dict[str, str]:
        """None: nobody else decides."""
        return {}

    def reset(self, skill: SkillContext, threshold: float | None = None) -> None:
        """Nothing is remembered."""

    def step(self, output: PolicyOutput, around: Around | None = None) -> Decision:
        """The proposal."""
        return _decision(output, output.action, f"only policy: {output.action.source.value}")


class OracleTeacher:
    """The teacher on the world's true state; the policy runs along, so that what it would have done is recorded."""

    arbitration = Arbitration.ORACLE_TEACHER

    def __init__(self, teacher: Policy) -> None:
        self._teacher = _an_oracle(teacher)

    @property
    def runtimes(self) -> dict[str, str]:
        """Of the teacher's models."""
        return runtimes_of(self._teacher)

    def reset(self, skill: SkillContext, threshold: float | None = None) -> None:
        """Start an episode."""
        self._teacher.reset(0)

    def step(self, output: PolicyOutput, around: Around | None = None) -> Decision:
        """The teacher's action."""
        if around is None or around.truth is None:
            fault = Fault("truth", "nothing", "a WorldTruth sample for this decision")
            raise InvalidInputError("oracle teacher", [fault], "run it only in a world that publishes the truth")
        action = replace(self._teacher.decide(around.state, around.truth), source=Source.TEACHER)
        decision = _decision(output, action, f"oracle teacher; the policy proposed {_word(output.action)}")
        refs = {ref for ref in output.used if ref.stream is not Stream.TRUTH}
        ages = {**output.age_ns, Stream.TRUTH: around.state.stamp_ns - around.truth.ref.stamp_ns}
        return replace(
            decision,
            used=in_order([*refs, around.truth.ref]),
            age_ns=ages,
            state_hash=digest(output.state_hash.encode(), self._teacher.state_hash().encode()),
            prediction_error=around.state.prediction_error,
        )


class WithFallback:
    """The arbiter's choice between the policy's proposal and the fallback."""

    arbitration = Arbitration.WITH_FALLBACK

    def __init__(self, arbiter: Arbiter, twin: KinematicTwin, teacher: Policy, skills: SkillTable) -> None:
        self.arbiter = arbiter
        self._twin = twin
        self._teacher = _an_oracle(teacher)
        self._skills = skills
        self.ruling: Ruling | None = None
        """The newest ruling."""

    @property
    def runtimes(self) -> dict[str, str]:
        """Of the teacher's models."""
        return runtimes_of(self._teacher)

    def reset(self, skill: SkillContext, threshold: float | None = None) -> None:
        """Start an episode."""
        self.arbiter.reset(self.arbiter.config.threshold if threshold is None else threshold)
        self._twin.reset(skill)
        self._teacher.reset(0)
        self.ruling = None

    def step(self, output: PolicyOutput, around: Around | None = None) -> Decision:
        """The action of whoever the arbiter puts in charge."""
        if around is None:
            fault = Fault("around", "nothing", "the fused state and what arrived for it")
            raise InvalidInputError("bridge with a fallback", [fault], "give it what lies around the decision")
        state, arrivals = around.state, canonical(around.arrivals)
        view = self._twin.update(state.decision_id, state.stamp_ns, arrivals)
        teacher, says = self._proposal_of_teacher(state, view)
        evidence = Evidence(
            error=state.prediction_error,
            student=output.action.primitive,
            teacher=None if teacher is None else teacher.primitive,
            twin_passes=view.passes,
            twin_says=says,
        )
        ruling = self.ruling = self.arbiter.rule(evidence)
        decision = _decision(output, self._action(ruling, output.action, teacher, state.skill), _reason(ruling))
        return replace(
            decision,
            used=in_order(_refs(arrivals)),
            state_hash=digest(
                output.state_hash.encode(), self._twin.dump(), self._teacher.state_hash().encode(), self.arbiter.dump()
            ),
            prediction_error=state.prediction_error,
        )

    def _proposal_of_teacher(self, state: FusedState, view: TwinView) -> tuple[HybridAction | None, str]:
        """The teacher acts along on every state that the twin has, so that it knows what has happened when it must."""
        if view.state is None:
            return None, view.says
        try:
            action = self._teacher.decide(state, view.state)
            self._skills.checked(action.primitive, action.params)
        except (TetherError, ValueError) as error:
            return None, f"the teacher refused the twin: {error}"
        if not state.skill.primitive_mask[action.primitive]:
            return None, f"the teacher's {action.primitive.name.lower()} is not allowed by the task skill"
        return replace(action, source=Source.TEACHER), view.says

    def _action(
        self, ruling: Ruling, student: HybridAction, teacher: HybridAction | None, skill: SkillContext
    ) -> HybridAction:
        if ruling.in_charge is InCharge.STUDENT:
            return student
        if ruling.in_charge is InCharge.TWIN and teacher is not None:
            return teacher
        if ruling.in_charge is InCharge.HOLD and skill.primitive_mask[Primitive.HOLD]:
            return held(student)
        return slowed(student, self._skills, self.arbiter.config.slow_share)


def _decision(output: PolicyOutput, action: HybridAction, reason: str) -> Decision:
    return Decision(
        action=action,
        used=output.used,
        age_ns=output.age_ns,
        reason=reason,
        state_hash=output.state_hash,
        rng_hash=output.rng_hash,
        runtime=output.runtime,
        threads=output.threads,
        latency_ns=output.latency_ns,
    )


def _refs(arrivals: Arrivals) -> Sequence[SampleRef]:
    refs = [sample.ref for batch in arrivals.imu for sample in batch.samples]
    refs += [item.ref for items in (arrivals.pictures, arrivals.joints, arrivals.executed) for item in items]
    return refs


def _reason(ruling: Ruling) -> str:
    came = f" (from {ruling.switched_from.value})" if ruling.switched_from is not None else ""
    return f"{ruling.reason}{came}"


def _word(action: HybridAction) -> str:
    return action.primitive.name.lower()


def _an_oracle(teacher: Policy) -> Policy:
    if not teacher.is_oracle:
        fault = Fault("teacher", f"{teacher.source.value}, which acts on sensors", "a policy that is an oracle")
        raise InvalidInputError("bridge", [fault], "name one in config/arbiter.yaml")
    return teacher
