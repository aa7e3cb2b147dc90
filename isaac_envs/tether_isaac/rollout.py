"""Episodes of a policy through the whole pipeline in Isaac Lab, several at once in one batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tether.assembly import make_pipeline, needs_truth, policy_kit, profile, skill_of_task, task
from tether.bridge.arbiter import Arbitration
from tether.contracts import EpisodeResult, EpisodeSpec
from tether.rollout import EPISODE_START_NS
from tether.safety.stage import for_world
from tether.world.mujoco_world import TruthChannel
from tether_isaac.files import robot_urdf
from tether_isaac.mirror import MirrorWorld
from tether_isaac.world import Batch


class Episodes:
    """One environment's own part: its mirror world, its pipeline and the delivery that is to be acted on."""

    def __init__(self, policy: str, task_name: str, profile_name: str, substeps: int) -> None:
        self._task_name = task_name
        self._spec = (task(task_name).name, profile(profile_name).name)
        self._pipeline = make_pipeline(policy, profile_name)
        truth = TruthChannel() if needs_truth(policy, Arbitration.STUDENT_ALONE) else None
        self.world = MirrorWorld(
            robot_urdf(),
            task(task_name),
            profile(profile_name),
            truth=truth,
            pictures=policy_kit(policy).pictures,
            substeps=substeps,
        )

    def begin(self, seed: int) -> None:
        """Start an episode; the engine has to be given the state that it starts from."""
        self.delivery = self.world.reset(EpisodeSpec(*self._spec, seed), EPISODE_START_NS)
        self._pipeline.reset(skill_of_task(self._task_name), seed)

    def plan(self) -> np.ndarray:
        """What the pipeline makes of the delivery: set-points of each engine step of the tick, (substeps, nu)."""
        return self.world.plan(for_world(self._pipeline.tick(self.delivery).gated))

    def finish(self) -> EpisodeResult | None:
        """End the tick; the result where the episode ended with it."""
        self.delivery = self.world.finish()
        return self.delivery.result


def play(batch: Batch, policy: str, task_name: str, profile_name: str, seeds: Sequence[int]) -> Iterator[EpisodeResult]:
    """Play an episode of each seed, as many at once as the batch has environments; results as they come.

    An episode is what `tether.rollout.Rollout` plays in the MuJoCo world: same pipeline, same draws of the seed.
    """
    waiting = list(reversed(seeds))
    rows = np.zeros((len(batch.scene.env_origins), batch.substeps, batch.actuators))
    lanes = [Episodes(policy, task_name, profile_name, batch.substeps) for _ in rows[: len(waiting)]]
    active = dict(enumerate(lanes))
    _begin(batch, {i: (lane, waiting.pop()) for i, lane in active.items()})
    try:
        while active:
            for i, lane in active.items():
                rows[i] = lane.plan()
            for step in range(batch.substeps):
                batch.exchange.command(rows[:, step])
                states = batch.step()
                for i, lane in active.items():
                    lane.world.mirror(step, states[i])
            results = {i: lane.finish() for i, lane in active.items()}
            over = [i for i, result in results.items() if result is not None]
            yield from (result for result in results.values() if result is not None)
            _begin(batch, {i: (active[i], waiting.pop()) for i in over[: len(waiting)]})
            for i in over:
                if active[i].delivery.result is not None:
                    del active[i]
    finally:
        for lane in lanes:
            lane.world.close()


def _begin(batch: Batch, starting: dict[int, tuple[Episodes, int]]) -> None:
    """Start episodes in some environments of the batch; the others go on."""
    for lane, seed in starting.values():
        lane.begin(seed)
    batch.start(list(starting), [lane.world for lane, _ in starting.values()])
