"""The simulated robot of an agent: the core loop of `tether.rollout`, with skills in workers in the policy's place."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tether.agent.declaration import TaskSkill, Way
from tether.agent.facts import Facts
from tether.agent.injection import Injector
from tether.agent.observing import FactSense, Place
from tether.agent.robot import WorldEndedError
from tether.agent.workers import SkillRaisedError, Worker, WorkerLostError
from tether.assembly import make_stages, make_world, policy_kit, profile, robot, skill_of_task, skills, task
from tether.contracts import (
    TICKS_PER_DECISION,
    U8,
    EpisodeSpec,
    FusedState,
    HybridAction,
    ImageSample,
    Primitive,
    SkillContext,
    Source,
    TickDelivery,
    TruthSample,
)
from tether.errors import Fault, InvalidInputError, TetherError
from tether.fusion.classic_config import load_classic_config
from tether.pipeline import Pipeline
from tether.policy.stage import PolicyStage, digest
from tether.resources import resource_path
from tether.rollout import EPISODE_START_NS
from tether.safety.stage import for_world

ANSWER_S = 20.0
"""Steady time within which a worker must answer in lockstep, where the world waits; on a robot, one period."""
_LYING_M = 0.02
_AT_PLACE_M = 0.03


class SkillPolicy:
    """Stands where a policy stands; asks the running skill's worker, and holds where there is none or it fails."""

    source = Source.STUDENT
    is_oracle = False
    runtime = "worker"

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self.context: SkillContext | None = None
        self.fault: str | None = None

    def reset(self, seed: int) -> None:
        """No skill runs."""
        self.context = self.fault = None

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The skill's action. Whatever is wrong with it becomes `fault`, and the robot holds."""
        if self.worker is not None and self.context is not None and self.fault is None:
            try:
                action = self.worker.decide(replace(state, skill=self.context), ANSWER_S)
                self._check(action, self.context)
                return replace(action, estimate=state.estimate)
            except (WorkerLostError, SkillRaisedError, InvalidInputError) as error:
                self.fault = str(error)
        return HybridAction(
            state.decision_id, state.stamp_ns, Primitive.HOLD, np.zeros(0), state.estimate, Source.FALLBACK
        )

    def state_hash(self) -> str:
        """Digest of which skill runs."""
        return digest(repr(None if self.context is None else self.context.name).encode())

    def rng_hash(self) -> str:
        """Constant: nothing is drawn here."""
        return "none"

    @staticmethod
    def _check(action: HybridAction, context: SkillContext) -> None:
        skills().checked(action.primitive, action.params)
        if not context.primitive_mask[action.primitive]:
            fault = Fault("primitive", action.primitive.name.lower(), f"one that {context.name} declares")
            raise InvalidInputError("hybrid action", [fault])


class SimRobot:
    """See `tether.agent.robot.Robot`. Use as a context manager: it owns the world and the worker.

    policy: whose fusion and eyes are used; `student`, or `classic`, which leaves the learned ways out.
    """

    def __init__(self, policy: str, task_name: str, profile_name: str, folder: Path) -> None:
        self.episode = EpisodeSpec(task(task_name).name, profile(profile_name).name, 0)
        self._context = skill_of_task(task_name)
        self._folder = folder
        self._policy = SkillPolicy()
        stages = make_stages(policy, profile_name)
        self._pipeline = Pipeline(replace(stages, policy=PolicyStage(self._policy, skills(), threads=1)))
        self._sense = FactSense(robot(), load_classic_config(resource_path("config", "classic.yaml")))
        pictures = policy_kit(policy).pictures
        self.world = make_world(task_name, profile_name, truth_age_ns=None, pictures=pictures, measures=True)
        self._delivery: TickDelivery | None = None
        self._picture: U8 | None = None
        self.injector: Injector | None = None
        self.running: str | None = None

    def __enter__(self) -> SimRobot:
        return self

    def __exit__(self, *exc: object) -> None:
        self._drop_worker()
        self.world.close()

    def begin(self, seed: int, place: Place, injector: Injector | None = None) -> None:
        """Start an episode: everything is forgotten."""
        self.episode = replace(self.episode, seed=seed)
        self._delivery = self.world.reset(self.episode, EPISODE_START_NS)
        self.injector = injector
        if injector is not None:
            injector.begin(self.world)
        self._pipeline.reset(self._context, seed)
        self._sense.reset()
        self._sense.place = place
        self._picture = None
        self._fresh = True
        self.running = None

    @property
    def facts(self) -> Facts:
        """What the sensors say now."""
        return self._sense.facts

    @property
    def evidence(self) -> Mapping[str, float]:
        """The numbers behind the facts."""
        return self._sense.evidence

    @property
    def fault(self) -> str | None:
        """What became of the running skill's worker."""
        return self._policy.fault

    def now_ns(self) -> int:
        """World time."""
        return self._require().stamp_ns

    def start(self, skill: TaskSkill, way: str, parameters: Mapping[str, float], step: tuple[int, int]) -> None:
        """See `Robot.start`. What keeps a worker from starting becomes the skill's fault at its first decision."""
        mask = np.zeros(len(Primitive), np.bool_)
        mask[[Primitive[name.upper()] for name in skill.primitives]] = True
        params = np.array([parameters[p.name] for p in skill.parameters])
        if {"x", "y"} <= parameters.keys():
            self._sense.place = Place(parameters["x"], parameters["y"])
        self._policy.fault = None
        self._policy.context = SkillContext(self._context.skill_id, skill.name, params, *step, mask)
        self.running = skill.name
        try:
            self._begin_worker(skill.ways[way], parameters)
        except TetherError as error:
            self._policy.fault = str(error)

    def advance(self) -> None:
        """See `Robot.advance`."""
        while True:
            delivery = self._require()
            if delivery.result is not None:
                raise WorldEndedError(delivery.result.failure or "the task's own success")
            is_decision = delivery.tick % TICKS_PER_DECISION == 0
            for sample in delivery.samples:
                if isinstance(sample, ImageSample):
                    self._picture = sample.rgb
            trace = self._pipeline.tick(delivery)
            if is_decision and trace.state is not None:
                self._sense.take(trace.state, trace.gated)
            if self.injector is not None:
                self.injector.before_step(self, delivery.stamp_ns - EPISODE_START_NS)
            following = self.world.step(for_world(trace.gated))
            if self.injector is not None:
                following = self.injector.delivered(following, EPISODE_START_NS)
            self._delivery = following
            if is_decision:
                return

    def stop(self, *, kill: bool) -> None:
        """See `Robot.stop`."""
        self._policy.context = None
        self._policy.fault = None
        self.running = None
        if kill:
            self._drop_worker()

    def kill_worker(self) -> bool:
        """Kill the running skill's worker behind the agent's back; whether one was running."""
        worker = self._policy.worker
        if worker is None or self.running is None:
            return False
        worker.kill()
        return True

    def judged(self) -> Mapping[str, bool]:
        """Whether the cube is held, and lies at the place, in truth."""
        truth = self.world.measure()
        place = self._sense.place
        off = math.hypot(truth.p_base_cube[0] - place.x, truth.p_base_cube[1] - place.y)
        lying = truth.cube_height_m < _LYING_M and not truth.held
        return {"holding": truth.held, "placed": bool(lying and off < _AT_PLACE_M)}

    def picture(self) -> U8 | None:
        """The newest picture."""
        return self._picture

    def _require(self) -> TickDelivery:
        if self._delivery is None:
            raise RuntimeError("no episode: call begin first")
        return self._delivery

    def _begin_worker(self, way: Way, parameters: Mapping[str, float]) -> None:
        worker = self._policy.worker
        if worker is None or not worker.alive:
            self._drop_worker()
            worker = self._policy.worker = Worker()
        worker.begin(
            way.entry,
            self._folder / "skills",
            parameters,
            keep=way.remembers,
            fresh=self._fresh,
            seed=self.episode.seed,
        )
        self._fresh = False

    def _drop_worker(self) -> None:
        if self._policy.worker is not None:
            self._policy.worker.kill()
            self._policy.worker = None
