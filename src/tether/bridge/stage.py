"""The bridge's stage in the graph: proposals in, the one decision that the robot will follow out."""

from __future__ import annotations

from tether.contracts import Decision, PolicyOutput


class BridgeStage:
    """Arbiter over the proposals for a decision. With a single policy there is nothing to choose, and it says so."""

    def reset(self) -> None:
        """Start an episode."""

    def step(self, output: PolicyOutput) -> Decision:
        """The decision that the robot follows until the next one."""
        return Decision(
            action=output.action,
            used=output.used,
            age_ns=output.age_ns,
            reason=f"only policy: {output.action.source.value}",
            state_hash=output.state_hash,
            rng_hash=output.rng_hash,
            runtime=output.runtime,
            threads=output.threads,
            latency_ns=output.latency_ns,
        )
