"""What stands where a policy stands while an agent is at work: it asks the running skill's worker, or holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tether.agent.declaration import Way
from tether.agent.workers import SkillRaisedError, Worker, WorkerLostError
from tether.assembly import skills
from tether.contracts import FusedState, HybridAction, Primitive, SkillContext, Source, TruthSample
from tether.errors import Fault, InvalidInputError, TetherError
from tether.policy.stage import digest

ANSWER_S = 20.0
"""Steady time within which a worker must answer where the world waits for it."""


class SkillPolicy:
    """Asks the running skill's worker; holds where there is none or it fails. Owns the worker: `close` it."""

    source = Source.STUDENT
    is_oracle = False
    runtime = "worker"

    def __init__(self, folder: Path, answer_s: float = ANSWER_S) -> None:
        """folder: of the domain, where skills that come as files lie. A worker silent for `answer_s` is killed."""
        self._folder = folder
        self._answer_s = answer_s
        self._worker: Worker | None = None
        self._seed = 0
        self._fresh = True
        self.context: SkillContext | None = None
        self.fault: str | None = None
        """What became of the running skill's worker, None while it is well."""
        self.busy = False
        """Set while another thread starts a skill; decisions hold."""
        self.agent_pid = 0
        """Process of the agent that runs the skill, 0 where it is this one."""

    @property
    def worker_pid(self) -> int:
        """Process id of the worker, 0 where there is none."""
        return self._worker.pid if self._worker is not None and self._worker.alive else 0

    def reset(self, seed: int) -> None:
        """No skill runs, and whatever skills remember is forgotten."""
        self.context = self.fault = None
        self._seed, self._fresh = seed, True

    def start(self, way: Way, parameters: Mapping[str, float], context: SkillContext) -> None:
        """Let this way of a skill choose. What keeps a worker from starting becomes the skill's fault."""
        self.fault, self.context = None, context
        try:
            worker = self._worker
            if worker is None or not worker.alive:
                self.kill()
                worker = self._worker = Worker()
            place = self._folder / "skills"
            worker.begin(way.entry, place, parameters, keep=way.remembers, fresh=self._fresh, seed=self._seed)
            self._fresh = False
        except (TetherError, OSError) as error:  # OSError: the system makes no more processes
            self.fault = str(error)

    def refuse(self, context: SkillContext, why: str) -> None:
        """A skill that cannot be started: it holds, and why is its fault."""
        self.context, self.fault = context, why

    def stop(self, *, kill: bool) -> None:
        """No skill chooses any more. kill: its worker with it."""
        self.context = self.fault = None
        if kill:
            self.kill()

    def kill(self) -> None:
        """Kill the worker, and everything that it started."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The skill's action. Whatever is wrong with it becomes `fault`, and the robot holds."""
        ready = not self.busy and self.context is not None and self.fault is None
        if ready and self._worker is not None and self.context is not None:
            try:
                action = self._worker.decide(replace(state, skill=self.context), self._answer_s)
                return fitting(action, state, self.context)
            except (WorkerLostError, SkillRaisedError, InvalidInputError) as error:
                self.fault = str(error)
        return hold(state)

    def state_hash(self) -> str:
        """Digest of which skill runs."""
        return skill_digest(None if self.busy else self.context)

    def rng_hash(self) -> str:
        """Constant: nothing is drawn here."""
        return "none"


def hold(state: FusedState) -> HybridAction:
    """What is decided where no skill chooses."""
    none = np.zeros(0)
    return HybridAction(state.decision_id, state.stamp_ns, Primitive.HOLD, none, state.estimate, Source.FALLBACK)


def fitting(action: HybridAction, state: FusedState, context: SkillContext) -> HybridAction:
    """The action, on the estimate that it was made on. InvalidInputError where skill table or mask do not allow it."""
    skills().checked(action.primitive, action.params)
    if not context.primitive_mask[action.primitive]:
        fault = Fault("primitive", action.primitive.name.lower(), f"one that {context.name} declares")
        raise InvalidInputError("hybrid action", [fault])
    return replace(action, estimate=state.estimate)


def skill_digest(context: SkillContext | None) -> str:
    """Digest of which skill runs, for `state_hash`."""
    return digest(repr(None if context is None else context.name).encode())
