"""The simulated robot of an agent: the core loop of `tether.rollout`, with skills in workers in the policy's place."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tether.agent.calls import Call
from tether.agent.declaration import TaskSkill
from tether.agent.facts import Facts
from tether.agent.injection import Injector
from tether.agent.observing import FactSense, Place, judged
from tether.agent.orders import context_of
from tether.agent.robot import WorldEndedError
from tether.agent.skill_policy import SkillPolicy
from tether.assembly import make_stages, make_world, policy_kit, profile, robot, skill_of_task, skills, task
from tether.contracts import (
    TICKS_PER_DECISION,
    U8,
    EpisodeSpec,
    ImageSample,
    TickDelivery,
)
from tether.fusion.classic_config import load_classic_config
from tether.pipeline import Pipeline
from tether.policy.stage import PolicyStage
from tether.resources import resource_path
from tether.rollout import EPISODE_START_NS
from tether.safety.stage import for_world


class SimRobot:
    """See `tether.agent.robot.Robot`. Use as a context manager: it owns the world and the worker.

    policy: whose fusion and eyes are used; `student`, or `classic`, which leaves the learned ways out.
    """

    def __init__(
        self, policy: str, task_name: str, profile_name: str, folder: Path, skill_policy: SkillPolicy | None = None
    ) -> None:
        """skill_policy: who chooses while a skill runs; one that has a worker of its own where None."""
        self.episode = EpisodeSpec(task(task_name).name, profile(profile_name).name, 0)
        self._context = skill_of_task(task_name)
        self._policy = skill_policy or SkillPolicy(folder)
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
        self._policy.kill()
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

    def start(self, call: Call, skill: TaskSkill, way: str, step: tuple[int, int]) -> None:
        """See `Robot.start`. What keeps a worker from starting becomes the skill's fault at its first decision."""
        self._sense.look_at(call.parameters)
        self.running = skill.name
        context = context_of(skill, call.parameters, step, self._context.skill_id)
        self._policy.start(skill.ways[way], call.parameters, context)

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
                self._sense.take(trace.state, trace.gated.mode)
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
        self.running = None
        self._policy.stop(kill=kill)

    def kill_worker(self) -> bool:
        """Kill the running skill's worker behind the agent's back; whether one was running."""
        return self._kill(self._policy.worker_pid)

    def kill_agent(self) -> bool:
        """Kill the process of the agent that runs a skill; whether there was one."""
        return self._kill(self._policy.agent_pid)

    def _kill(self, pid: int) -> bool:
        if not pid or self.running is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        return True

    def judged(self) -> Mapping[str, bool]:
        """Whether the cube is held, and lies at the place, in truth."""
        return judged(self.world.measure(), self._sense.place)

    def picture(self) -> U8 | None:
        """The newest picture."""
        return self._picture

    def _require(self) -> TickDelivery:
        if self._delivery is None:
            raise RuntimeError("no episode: call begin first")
        return self._delivery
