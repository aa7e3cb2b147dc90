"""The student's policy at run time: features and its own memory in, one hybrid action out. It draws nothing."""

from __future__ import annotations

import numpy as np

from tether.contracts import FusedState, HybridAction, Primitive, Source, TruthSample
from tether.errors import Fault, InvalidInputError
from tether.models.session import Session
from tether.policy.stage import digest
from tether.skills import SkillTable
from tether.student.labels import Scaling
from tether.student.memory import PolicyMemory


class StudentPolicy:
    """See `tether.policy.protocol.Policy`."""

    source = Source.STUDENT
    is_oracle = False

    def __init__(self, skills: SkillTable, session: Session) -> None:
        self._scaling = Scaling(skills)
        self._memory = PolicyMemory()
        self._session = session

    def use(self, session: Session) -> None:
        """Run another model from the next decision on; what is remembered stays."""
        self._session = session

    @property
    def runtime(self) -> str:
        """What runs the model."""
        return self._session.runtime

    def sessions(self) -> tuple[Session, ...]:
        """See `tether.models.running.RunsModels`."""
        return (self._session,)

    def reset(self, seed: int) -> None:
        """Start over."""
        self._memory.reset()

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The likeliest primitive that the task skill allows, with its parameters.

        Raises InvalidInputError where it is given the truth, or a state without features.
        """
        if truth is not None:
            fault = Fault("truth", "a sample of the world's true state", "nothing: this policy acts on sensors")
            raise InvalidInputError("student", [fault], "turn the truth channel off")
        if len(state.features) == 0:
            fault = Fault("features", "none", "those of the student's fusion model")
            raise InvalidInputError("student", [fault], "run fusion with policy:=student, too")
        remembered = self._memory.before(state.stamp_ns, state.joints)
        out = self._session.run({"features": state.features[None], "memory": remembered[None]})
        allowed = np.where(state.skill.primitive_mask, out["logits"][0], -np.inf)
        primitive = Primitive(int(np.argmax(allowed)))
        params = self._scaling.params(primitive, out["params"][0, primitive])
        self._memory.after(state.stamp_ns, primitive)
        return HybridAction(state.decision_id, state.stamp_ns, primitive, params, state.estimate, self.source)

    def state_hash(self) -> str:
        """Digest of what it remembers."""
        return digest(self._memory.dump(), self._session.manifest.sha256.encode())

    def rng_hash(self) -> str:
        """Constant: nothing is drawn."""
        return "none"
