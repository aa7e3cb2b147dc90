"""What a policy is to the rest of Tether."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from tether.contracts import FusedState, HybridAction, Source, TruthSample


class Policy(Protocol):
    """Chooses a hybrid action from the fused state. `truth` is None unless the policy declares itself an oracle."""

    source: Source
    is_oracle: bool

    def reset(self, seed: int) -> None:
        """Forget everything; `seed` starts the policy's own random stream."""

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The action for this decision. Deterministic given reset seed and the sequence of inputs."""

    def state_hash(self) -> str:
        """Hex digest of the recurrent state, for replay's bit-for-bit comparison."""

    def rng_hash(self) -> str:
        """Hex digest of the random state; constant for a policy that draws nothing."""


@runtime_checkable
class LearnedPolicy(Protocol):
    """A policy that a model computes, or whoever else is not NumPy."""

    @property
    def runtime(self) -> str:
        """What computes its decisions at present, with its version; recorded with each of them."""
