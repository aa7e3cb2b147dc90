"""How well the robot's own sensors verify the subgoals: against the world's state, episode by episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tether.assembly import make_pipeline, make_world, policy_kit, profile, skill_of_task, task
from tether.contracts import (
    CameraModel,
    EpisodeResult,
    EpisodeSpec,
    FusedState,
    ImageFeature,
    ImageSample,
    JointSample,
    Stream,
    TickDelivery,
)
from tether.pipeline import Pipeline
from tether.rewards.build import make_ledger, make_sensed_state
from tether.rewards.config import ORDER, Subgoal
from tether.rewards.ledger import Payment
from tether.rewards.measured import measured_of_truth
from tether.rewards.sensed import SensedState
from tether.rollout import EPISODE_START_NS
from tether.safety.stage import for_world
from tether.world.mujoco_world import MujocoWorld

_AFTER_TICKS = 30
"""A robot does not vanish when the world's judge has seen enough: so long it goes on for the sensors' judgement."""


@dataclass(frozen=True)
class Verdicts:
    """One episode's payments by the world's state and by the sensors."""

    result: EpisodeResult
    world: tuple[Payment, ...]
    sensors: tuple[Payment, ...]


@dataclass(frozen=True)
class Agreement:
    """Of one subgoal over episodes. late_ms: of the sensors against the world, where both paid."""

    both: int
    neither: int
    only_world: int
    only_sensors: int
    late_ms: tuple[float, ...]

    @property
    def share(self) -> float:
        """Share of episodes in which both say the same."""
        n = self.both + self.neither + self.only_world + self.only_sensors
        return (self.both + self.neither) / n if n else 1.0


def judge_episodes(policy: str, task_name: str, profile_name: str, seeds: Sequence[int]) -> list[Verdicts]:
    """Run a policy that acts on sensors, and let both judge. The truth goes to the world's judge and nowhere else."""
    kit = policy_kit(policy)
    truth_age_ns = 0 if kit.is_oracle else None
    world = make_world(task_name, profile_name, truth_age_ns=truth_age_ns, pictures=True, measures=True)
    try:
        pipeline, sensed = make_pipeline(policy, profile_name), make_sensed_state(task_name)
        return [_episode(world, pipeline, sensed, task_name, profile_name, seed) for seed in seeds]
    finally:
        world.close()


def agreements(verdicts: Sequence[Verdicts]) -> dict[Subgoal, Agreement]:
    """Counted for each subgoal."""
    return {subgoal: _agreement(subgoal, verdicts) for subgoal in ORDER}


def _agreement(subgoal: Subgoal, verdicts: Sequence[Verdicts]) -> Agreement:
    pairs = [(_stamp(v.world, subgoal), _stamp(v.sensors, subgoal)) for v in verdicts]
    return Agreement(
        both=sum(a is not None and b is not None for a, b in pairs),
        neither=sum(a is None and b is None for a, b in pairs),
        only_world=sum(a is not None and b is None for a, b in pairs),
        only_sensors=sum(a is None and b is not None for a, b in pairs),
        late_ms=tuple((b - a) * 1e-6 for a, b in pairs if a is not None and b is not None),
    )


def _stamp(payments: Sequence[Payment], subgoal: Subgoal) -> int | None:
    return next((p.stamp_ns for p in payments if p.subgoal is subgoal), None)


def _episode(
    world: MujocoWorld, pipeline: Pipeline, sensed: SensedState, task_name: str, profile_name: str, seed: int
) -> Verdicts:
    by_world, by_sensors = make_ledger(task_name), make_ledger(task_name)
    paid: tuple[list[Payment], list[Payment]] = ([], [])
    sensed.reset()
    camera: CameraModel | None = None
    result: EpisodeResult | None = None
    after = 0
    spec = EpisodeSpec(task(task_name).name, profile(profile_name).name, seed)
    delivery = world.reset(spec, EPISODE_START_NS)
    pipeline.reset(skill_of_task(task_name), seed)
    while True:
        executed = None if delivery.executed is None else delivery.executed.command
        paid[0].extend(by_world.judge(measured_of_truth(world.measure(), executed, sensed.kinematics)))
        camera = _take(sensed, delivery, camera)
        result = result or delivery.result
        after += result is not None
        for measured in sensed.ready(delivery.stamp_ns):
            paid[1].extend(by_sensors.judge(measured))
        if result is not None and after > _AFTER_TICKS:
            return Verdicts(result, tuple(paid[0]), tuple(paid[1]))
        trace = pipeline.tick(delivery)
        if trace.state is not None:
            sensed.take_estimate(trace.state.estimate)
            feature = newest_picture(trace.state, camera)
            if feature is not None:
                sensed.take_picture(feature)
        delivery = world.step(for_world(trace.gated))


def _take(sensed: SensedState, delivery: TickDelivery, camera: CameraModel | None) -> CameraModel | None:
    """Hand over what came with a tick; returns the camera's model once a picture has come."""
    for sample in delivery.samples:
        if isinstance(sample, JointSample):
            sensed.take_joints(sample)
        elif isinstance(sample, ImageSample):
            camera = sample.camera
    if delivery.executed is not None:
        sensed.take_executed(delivery.executed)
    return camera


def newest_picture(state: FusedState, camera: CameraModel | None) -> ImageFeature | None:
    """The newest picture that went into a state, with its detections; None where none did."""
    refs = [ref for ref in state.used if ref.stream is Stream.CAMERA]
    if not refs or camera is None:
        return None
    return ImageFeature(max(refs), camera, state.detections)
