"""The policy stage: one decision in, one checked proposal out, with what is needed to rebuild it."""

from __future__ import annotations

import hashlib

from tether.contracts import FusedState, PolicyOutput, SampleRef, Stream, TruthSample
from tether.errors import Fault, InvalidInputError
from tether.lockstep import in_order
from tether.models.running import runtimes_of
from tether.policy.protocol import LearnedPolicy, Policy
from tether.skills import SkillTable


class PolicyStage:
    """Runs a policy and holds its actions to the skill table and the task skill's mask."""

    def __init__(self, policy: Policy, skills: SkillTable, threads: int) -> None:
        """threads: what the policy's numerical library may use; recorded with every decision."""
        self._policy = policy
        self._skills = skills
        self.threads = threads

    @property
    def policy(self) -> Policy:
        """The policy that it runs."""
        return self._policy

    @property
    def is_oracle(self) -> bool:
        """Whether the policy acts on the world's truth."""
        return self._policy.is_oracle

    @property
    def runtime(self) -> str:
        """What computes decisions at present: a model's runtime, which may fall back to another, or NumPy."""
        return self._policy.runtime if isinstance(self._policy, LearnedPolicy) else "numpy"

    @property
    def runtimes(self) -> dict[str, str]:
        """Of the policy's models, see `runtimes_of`."""
        return runtimes_of(self._policy)

    def reset(self, seed: int) -> None:
        """Start an episode."""
        self._policy.reset(seed)

    def step(self, state: FusedState, truth: TruthSample | None) -> PolicyOutput:
        """The proposal for this decision.

        Raises InvalidInputError where the truth is given to a policy that is no oracle or is missing for one, and
        where the action breaks the skill table's bounds or the task skill's mask.
        """
        self._check_truth(truth)
        action = self._policy.decide(state, truth)
        self._skills.checked(action.primitive, action.params)
        if not state.skill.primitive_mask[action.primitive]:
            fault = Fault("primitive", action.primitive.name.lower(), f"one that task skill {state.skill.name} allows")
            raise InvalidInputError("hybrid action", [fault], "respect SkillContext.primitive_mask")
        refs: list[SampleRef] = list(state.used)
        ages = dict(state.age_ns)
        if truth is not None:
            refs.append(truth.ref)
            ages[Stream.TRUTH] = state.stamp_ns - truth.ref.stamp_ns
        return PolicyOutput(
            action=action,
            used=in_order(refs),
            age_ns=ages,
            state_hash=self._policy.state_hash(),
            rng_hash=self._policy.rng_hash(),
            runtime=self.runtime,
            threads=self.threads,
        )

    def _check_truth(self, truth: TruthSample | None) -> None:
        if self._policy.is_oracle and truth is None:
            fault = Fault("truth", "nothing", "a WorldTruth sample for this decision")
            raise InvalidInputError("oracle policy", [fault], "run oracles only in a world that publishes the truth")
        if not self._policy.is_oracle and truth is not None:
            fault = Fault("truth", "a WorldTruth sample", "nothing: this policy is no oracle")
            raise InvalidInputError("policy", [fault], "turn the truth channel off")


def digest(*parts: bytes) -> str:
    """Short hex digest of a recurrent state given as bytes, for `state_hash`."""
    return hashlib.sha256(b"\x00".join(parts)).hexdigest()[:16]
