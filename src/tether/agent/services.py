"""The agent for those who call it from outside, the gateway and the action server: an executor and a catalogue.

`tether.agent.services:simulated` is what `tether gateway --services` takes. The robot is the simulated one, inside the
process that executes, so a gateway over it has one worker, and nobody can verify effects after that worker has died.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from tether.agent.calls import Call, Feedback, Outcome, Value
from tether.agent.declaration import AgentTask, TaskSkill
from tether.agent.desk import CallDesk, world_ended
from tether.agent.domain import Domain, lacking, load_domain, misfits
from tether.agent.edges import EdgeBreakers
from tether.agent.machine import Machine, pruned
from tether.agent.observing import Place
from tether.agent.proof import require_proved
from tether.agent.running import TaskRunner
from tether.agent.search import broken_at, quickest_plan
from tether.agent.sim import SimRobot
from tether.config import load
from tether.errors import Fault, InvalidInputError
from tether.gateway.services import ParameterInfo, Services, SkillInfo, Step
from tether.signing.policy import Trust, required_trust

SETTLE_DECISIONS = 20


class SimulatedAgent:
    """Runs skills and whole tasks by name on a simulated robot. See `tether.agent.calls.Executor`.

    One thread owns world and renderer, as OpenGL wants it; calls wait their turn there. The robot is made at the first
    call, and a world that has ended begins anew with the next seed. Deadlines are of the steady clock.
    """

    def __init__(
        self, domain: Domain, policy: str = "student", world_task: str = "fetch", profile: str = "real"
    ) -> None:
        excluded = () if policy.startswith("student") else ("student",)
        self._domain = domain
        self._ways = pruned(domain, Machine.here(camera=True), excluded).ways
        self._settings = (policy, world_task, profile)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="robot")
        self._robot: SimRobot | None = None
        self._runner: TaskRunner | None = None
        self._breakers = EdgeBreakers(domain.spec.edges, time.monotonic_ns)
        self._seed = 0
        self._desk = CallDesk(domain)

    def execute(self, call: Call, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]) -> Outcome:
        """See `Executor.execute`. For a task, the failure of its outcome names why a person is needed."""
        self._desk.require_known(call)
        return self._thread.submit(self._execute, call, on_feedback, cancelled).result()

    def close(self) -> None:
        """End the worker and free the world, once the running call has ended."""
        self._thread.submit(self._drop).result()
        self._thread.shutdown()

    def _execute(self, call: Call, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]) -> Outcome:
        outcome = self._desk.run(call, self._ready, on_feedback, cancelled)
        if world_ended(outcome):
            self._begin()
        return outcome

    def _ready(self) -> TaskRunner:
        if self._robot is None:
            policy, world_task, profile = self._settings
            self._robot = SimRobot(policy, world_task, profile, self._domain.folder)
            self._begin()
        if self._runner is None:
            raise AssertionError("made with the episode")
        return self._runner

    def _begin(self) -> None:
        """A new episode, until the sensors have come."""
        if self._robot is None:
            raise AssertionError("a robot is there")
        self._robot.begin(self._seed, Place(0.215, -0.085))
        self._seed += 1
        self._runner = TaskRunner(self._domain, self._robot, self._ways, breakers=self._breakers)
        for _ in range(SETTLE_DECISIONS):
            self._robot.advance()

    def _drop(self) -> None:
        if self._robot is not None:
            self._robot.__exit__()
            self._robot = None


class DomainCatalogue:
    """See `tether.gateway.services.Catalogue`. What is registered lives as long as the process."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._lock = threading.Lock()

    @property
    def domain(self) -> Domain:
        """The domain with what was registered."""
        return self._domain

    def skills(self) -> Sequence[SkillInfo]:
        """Those that were proved."""
        return tuple(_info(skill) for skill in self._domain.skills.values())

    def register(self, declaration: str) -> SkillInfo:
        """Prove a declaration (YAML) within the domain and add it. Where $TETHER_TRUST asks for signatures, what comes
        without a file to sign is refused. Raises InvalidInputError with the proof's reason."""
        if required_trust() is not Trust.ANY:
            fault = Fault("declaration", "a text without a signature", "a signed file in the domain's folder")
            raise InvalidInputError("skill", [fault], "sign the file with `tether sign` and restart")
        with TemporaryDirectory(prefix="tether-skill-") as folder:
            path = Path(folder) / "declaration.yaml"
            path.write_text(declaration, encoding="utf-8")
            skill = load(path, TaskSkill)
        with self._lock:
            old = self._domain.skills.get(skill.name)
            if old is not None and skill.version <= old.version:
                fault = Fault("version", str(skill.version), f"above {old.version}, which is registered")
                raise InvalidInputError(f"skill {skill.name!r}", [fault])
            grown = replace(self._domain, skills={**self._domain.skills, skill.name: skill})
            faults = list(misfits(grown.spec, grown.skills, grown.tasks, frozenset()))
            if faults:
                raise InvalidInputError(f"skill {skill.name!r}", faults)
            require_proved(grown)
            self._domain = grown
        return _info(skill)

    def deadline_s(self, task: str) -> float:
        """As its file in tasks/ declares it."""
        return self._declared(task).deadline_s

    def _declared(self, task: str) -> AgentTask:
        declared = self._domain.tasks.get(task)
        if declared is None:
            raise InvalidInputError("task", [Fault("task", repr(task), f"one of {', '.join(self._domain.tasks)}")])
        return declared

    def plan(self, task: str, facts: Mapping[str, Value]) -> Sequence[Step]:
        """The task's own method where it goes through from `facts`, else the quickest plan; those of no effect none."""
        domain = self._domain
        declared = self._declared(task)
        unknown = [name for name in facts if name not in domain.spec.facts]
        if unknown:
            known = ", ".join(domain.spec.facts)
            raise InvalidInputError("plan", [Fault("facts", name, f"one of {known}") for name in unknown])
        state = {name: value for name, value in facts.items() if isinstance(value, bool)}
        if not lacking(declared.wants, state):
            return ()
        method = domain.method(declared, state)
        steps: Sequence[str] | None = () if method is None else domain.flattened(declared, method)
        if not steps or broken_at(domain, state, steps)[0]:
            steps = quickest_plan(domain, state, declared.wants)
        if steps is None:
            known = ", ".join(name if value else f"not {name}" for name, value in sorted(state.items()))
            raise InvalidInputError(
                "plan", [Fault(task, f"no plan from [{known}]", "facts that a plan can begin with")]
            )
        values = {parameter.name: parameter.default for parameter in declared.parameters}
        return tuple(
            Step(name, {p.name: values.get(p.name, p.default) for p in domain.skills[name].parameters})
            for name in steps
        )


def simulated() -> Services:
    """The shipped domain on a simulated robot, for `tether gateway --services tether.agent.services:simulated`."""
    domain = load_domain()
    require_proved(domain)
    catalogue = DomainCatalogue(domain)
    return Services(SimulatedAgent(domain), catalogue, None, lambda: catalogue.domain)


def _info(skill: TaskSkill) -> SkillInfo:
    parameters = tuple(ParameterInfo(p.name, p.low, p.high, p.unit) for p in skill.parameters)
    return SkillInfo(skill.name, skill.version, skill.doc, parameters, skill.limit_s)
