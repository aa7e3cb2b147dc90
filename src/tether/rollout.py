"""Episodes in the core loop: a world and a pipeline in lockstep, without ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tether.assembly import make_pipeline, make_world, needs_truth, policy_kit, profile, skill_of_task, task
from tether.bridge.arbiter import Arbitration
from tether.bridge.pairs import PairStage
from tether.contracts import EpisodeResult, EpisodeSpec, TickDelivery
from tether.pipeline import TickTrace
from tether.safety.stage import for_world

EPISODE_START_NS = 1_000_000_000
"""World time at the start of an episode: not zero, since a stamp of zero is what a broken driver sends."""

Watcher = Callable[[TickDelivery, TickTrace], None]


class Rollout:
    """Runs episodes of one policy, task and profile. Use as a context manager; it owns the world."""

    def __init__(
        self,
        policy: str,
        task_name: str,
        profile_name: str,
        *,
        truth_age_ms: float = 0.0,
        arbitration: Arbitration = Arbitration.STUDENT_ALONE,
        pairs: PairStage | None = None,
    ) -> None:
        """pairs: takes what online training learns from; its labels need the truth, which the policy does not see."""
        kit = policy_kit(policy)
        self._task_name = task_name
        self._spec = (task(task_name).name, profile(profile_name).name)
        self._pipeline = make_pipeline(policy, profile_name, arbitration, pairs)
        truth = needs_truth(policy, arbitration) or pairs is not None
        truth_age_ns = round(truth_age_ms * 1e6) if truth else None
        self.world = make_world(task_name, profile_name, truth_age_ns=truth_age_ns, pictures=kit.pictures)

    def __enter__(self) -> Rollout:
        return self

    def __exit__(self, *exc: object) -> None:
        self.world.close()

    def episode(self, seed: int, watch: Watcher | None = None, start_ns: int = EPISODE_START_NS) -> EpisodeResult:
        """Run one episode to its end. `watch` sees every tick's delivery and what the pipeline made of it."""
        for delivery, trace in self.ticks(seed, start_ns):
            if watch is not None and trace is not None:
                watch(delivery, trace)
            if delivery.result is not None:
                return delivery.result
        raise AssertionError("a world ends every episode with a result")

    def ticks(self, seed: int, start_ns: int = EPISODE_START_NS) -> Iterator[tuple[TickDelivery, TickTrace | None]]:
        """The ticks of one episode that starts at `start_ns`; the last has a result and no trace."""
        spec = EpisodeSpec(*self._spec, seed)
        delivery = self.world.reset(spec, start_ns)
        self._pipeline.reset(skill_of_task(self._task_name), seed)
        while delivery.result is None:
            trace = self._pipeline.tick(delivery)
            yield delivery, trace
            delivery = self.world.step(for_world(trace.gated))
        yield delivery, None
