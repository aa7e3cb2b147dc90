"""The teacher at run time, as a policy (an oracle) and as the one who labels a student's states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.contracts import (
    DECISION_NS,
    F32,
    F64,
    Estimate,
    FusedState,
    HybridAction,
    Primitive,
    Source,
    TruthSample,
)
from tether.models.session import Session
from tether.motion.kinematics import ArmKinematics
from tether.policy.stage import digest
from tether.robot.model import RobotModel
from tether.student.labels import MAX_PARAMS, Label, Scaling
from tether.teacher.model import TeacherNetwork, Verdict, spread_over_primitives
from tether.teacher.observation import TeacherMemory

_ALL = np.ones(len(Primitive), np.bool_)


@dataclass(frozen=True, eq=False)
class TeacherWord:
    """The teacher's answer to a state: what it would do, how sure it is, and the estimate that goes with it."""

    primitive: Primitive
    params: F64
    verdict: Verdict
    estimate: Estimate


def teacher_action(
    network: TeacherNetwork, memory: TeacherMemory, truth: TruthSample, now_ns: int, allowed: np.ndarray = _ALL
) -> TeacherWord:
    """The teacher's action on the true state at the decision at `now_ns`, with its distribution.

    Looks once into `memory`; tell that what was chosen in the end with `decided`. Works on any state, whoever acts.
    allowed: (len(Primitive),) bool of the task skill.
    """
    observation, estimate = memory.observe(truth, now_ns)
    verdict = network.judge(observation, allowed)
    return TeacherWord(network.choices[verdict.best].primitive, verdict.mean[verdict.best], verdict, estimate)


class TeacherPolicy:
    """See `tether.policy.protocol.Policy`. Takes the likeliest primitive and its mean parameters, and draws nothing."""

    source = Source.TEACHER
    is_oracle = True

    def __init__(self, robot: RobotModel, network: TeacherNetwork) -> None:
        self._network = network
        self._memory = TeacherMemory(ArmKinematics(robot))
        self._probability: F32 = np.zeros(len(Primitive), np.float32)

    @property
    def runtime(self) -> str:
        """What runs the model."""
        return self._network.session.runtime

    def sessions(self) -> tuple[Session, ...]:
        """See `tether.models.running.RunsModels`."""
        return (self._network.session,)

    def reset(self, seed: int) -> None:
        """Start over."""
        self._memory.reset()

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The likeliest primitive that the task skill allows, with its parameters."""
        if truth is None:
            raise ValueError("the teacher is an oracle and needs the truth channel")
        word = teacher_action(self._network, self._memory, truth, state.stamp_ns, state.skill.primitive_mask)
        self._memory.decided(word.primitive, state.stamp_ns)
        self._probability = spread_over_primitives(word.verdict.probability)
        return HybridAction(state.decision_id, state.stamp_ns, word.primitive, word.params, word.estimate, self.source)

    def primitive_probability(self) -> F32:
        """(len(Primitive),) of the last decision, for labels."""
        return self._probability

    def state_hash(self) -> str:
        """Digest of what it remembers."""
        return digest(self._memory.dump(), self._network.session.manifest.sha256.encode())

    def rng_hash(self) -> str:
        """Constant: nothing is drawn."""
        return "none"


class TeacherLabeller:
    """`tether.student.labels.Labeller`: the teacher's distribution on the states of a run in which others act.

    Labels come once a decision period; `last` is what ran until now, and tells the teacher what is under way.
    """

    def __init__(self, robot: RobotModel, network: TeacherNetwork, scaling: Scaling) -> None:
        self._network = network
        self._memory = TeacherMemory(ArmKinematics(robot))
        self._scaling = scaling

    def reset(self) -> None:
        """Start an episode."""
        self._memory.reset()

    def label(self, truth: TruthSample, last: Primitive | None) -> Label:
        """The distribution at a decision."""
        now_ns = truth.ref.stamp_ns
        if last is not None:
            self._memory.decided(last, now_ns - DECISION_NS)
        word = teacher_action(self._network, self._memory, truth, now_ns)
        shape = (len(Primitive), MAX_PARAMS)
        mean, spread = np.zeros(shape, np.float32), np.full(shape, _NARROW, np.float32)
        for choice, middle, std in zip(self._network.choices, word.verdict.mean, word.verdict.std, strict=True):
            n = len(middle)
            mean[choice.primitive] = self._scaling.scaled(choice.primitive, middle)
            spread[choice.primitive, :n] = std / self._scaling.half[choice.primitive, :n]
        return Label(spread_over_primitives(word.verdict.probability), mean, spread)


_NARROW = 0.05
"""Deviation given for parameters of primitives that the teacher never chooses."""
