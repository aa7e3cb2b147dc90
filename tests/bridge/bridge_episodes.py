"""Episodes of the core loop whose student goes wrong on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import numpy as np

from tether.assembly import make_stages, make_world, needs_truth, policy_kit, skill_of_task
from tether.bridge.arbiter import Arbitration
from tether.bridge.pairs import PairStage
from tether.contracts import EpisodeResult, EpisodeSpec, FusedState, SkillContext, TickDelivery
from tether.fusion.estimator import Arrivals
from tether.fusion.stage import FusionStage
from tether.pipeline import Pipeline, TickTrace
from tether.rollout import EPISODE_START_NS
from tether.safety.stage import for_world

Change = Callable[[FusedState], FusedState]


class ChangedFusion(FusionStage):
    """Fusion whose states are changed before anybody sees them."""

    def __init__(self, inner: FusionStage, change: Change) -> None:
        self._inner = inner
        self._change = change

    def reset(self, skill: SkillContext) -> None:
        self._inner.reset(skill)

    def step(self, decision_id: int, stamp_ns: int, arrivals: Arrivals) -> FusedState:
        return self._change(self._inner.step(decision_id, stamp_ns, arrivals))


def off_from(decision: int, shift_m: float, until: int = 10**9) -> Change:
    """From `decision` on the cube is taken to lie elsewhere, and predictions fail; before and after all is well."""

    def change(state: FusedState) -> FusedState:
        if not decision <= state.decision_id < until:
            return dataclasses.replace(state, prediction_error=0.02)
        e = state.estimate
        estimate = dataclasses.replace(e, p_base_cube=e.p_base_cube + np.array([0.0, shift_m, 0.0]))
        return dataclasses.replace(state, estimate=estimate, prediction_error=0.5)

    return change


def ticks(
    arbitration: Arbitration,
    change: Change,
    *,
    policy: str = "classic",
    task: str = "pick_moving",
    profile: str = "real",
    seed: int = 1,
    pairs: PairStage | None = None,
    ticks_max: int = 10**9,
) -> Iterator[tuple[TickDelivery, TickTrace | None]]:
    """The ticks of one episode; the last has a result and no trace, unless `ticks_max` ended it."""
    stages = make_stages(policy, profile, arbitration, pairs)
    pipeline = Pipeline(dataclasses.replace(stages, fusion=ChangedFusion(stages.fusion, change)))
    truth = needs_truth(policy, arbitration) or pairs is not None
    kit = policy_kit(policy)
    world = make_world(task, profile, truth_age_ns=0 if truth else None, pictures=kit.pictures)
    try:
        delivery = world.reset(EpisodeSpec(task, profile, seed), EPISODE_START_NS)
        pipeline.reset(skill_of_task(task), seed)
        while delivery.result is None and delivery.tick < ticks_max:
            trace = pipeline.tick(delivery)
            yield delivery, trace
            delivery = world.step(for_world(trace.gated))
        yield delivery, None
    finally:
        world.close()


def result_of(arbitration: Arbitration, change: Change, seed: int = 1) -> tuple[EpisodeResult, list[TickTrace]]:
    """A whole episode: how it ended, and the ticks at which decisions were made."""
    traces: list[TickTrace] = []
    for delivery, trace in ticks(arbitration, change, seed=seed):
        if trace is not None and trace.decision is not None:
            traces.append(trace)
        if delivery.result is not None:
            return delivery.result, traces
    raise AssertionError("an episode ends with a result")
