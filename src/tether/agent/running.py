"""A task from its declared start to its goal: a state machine over verified facts, with recoveries and a person at its
end instead of a loop without one."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tether.agent.calls import Call, Feedback, Outcome, Status
from tether.agent.deadline import DeadlineWatch
from tether.agent.declaration import OPERATOR, AgentTask, TaskSkill
from tether.agent.domain import Domain, State, parameters_of
from tether.agent.edges import BreakerState, EdgeBreakers, EdgeEvent, edge_key
from tether.agent.execution import AGENT_OFFLINE, CANCELLED, DEADLINE, GATE_HOLDS, LOST, SkillExecutor
from tether.agent.experience import RECALLED, Experience, Recalled
from tether.agent.facts import Condition, Literal, unmet
from tether.agent.graph import Edge, Node, RunGraph
from tether.agent.robot import Robot, WorldEndedError
from tether.agent.search import quickest_plan
from tether.errors import Fault, InvalidInputError, TetherError

_LOG = logging.getLogger(__name__)
NEEDS_OPERATOR = "needs_operator"
SETTLE_NS = 1_000_000_000
"""How long the declared start of a task may take to be seen in lockstep."""
RETRY = "retry the task"
EDGE_OPEN = "edge_open"
DETOURS_MAX = 3
"""Detours to the unmet precondition of one skill; past it a person is asked."""


@dataclass(frozen=True)
class OperatorRequest:
    """What a person is asked. reason: a failure by its name; options: what may be done now, the first preferred."""

    task_id: str
    reason: str
    detail: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class TaskRun:
    """How a task ended. request: where a person is needed. retries: attempts of skills beyond their first.

    decisions: how often the agent chose what to do next by search or recovery; recalled: the chain it began with.
    """

    graph: RunGraph
    outcome: Outcome
    retries: int
    request: OperatorRequest | None = None
    decisions: int = 0
    recalled: Recalled | None = None


@dataclass(frozen=True)
class _Step:
    skill: str
    why: str
    optional: bool
    """Left out where its effect is there already."""


class TaskRunner:
    """Runs tasks of a proved domain on one robot. ways: as for SkillExecutor.

    memory: what a task begins with where it worked before, in place of taking it apart; it is told how each run went.
    """

    def __init__(
        self,
        domain: Domain,
        robot: Robot,
        ways: Mapping[str, str],
        memory: Experience | None = None,
        settle_ns: int = SETTLE_NS,
        clock_ns: Callable[[], int] | None = None,
        breakers: EdgeBreakers | None = None,
        executor: SkillExecutor | None = None,
    ) -> None:
        """settle_ns: how long the declared start of a task may take to be seen. clock_ns: that the deadlines of tasks
        are of; the robot's where None. breakers: those that outlive this runner; its own where None.
        executor: of the same domain, robot and ways; its own where None."""
        self._settle_ns = settle_ns
        self.clock_ns = clock_ns or robot.now_ns
        self.breakers = breakers or EdgeBreakers(domain.spec.edges, self.clock_ns)
        self.domain = domain
        self.robot = robot
        self.ways = ways
        self.memory = memory
        self.usable = {name: skill for name, skill in domain.skills.items() if name in ways}
        self.executor = executor or SkillExecutor(domain, robot, ways)

    def run(
        self,
        task_name: str,
        task_id: str,
        parameters: Mapping[str, float],
        on_feedback: Callable[[Feedback], None] = lambda feedback: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> TaskRun:
        """Run a task to its end. Raises InvalidInputError for an unknown task or parameters out of bounds."""
        task = self.domain.tasks.get(task_name)
        if task is None:
            known = ", ".join(self.domain.tasks)
            raise InvalidInputError("task", [Fault("name", repr(task_name), f"one of {known}")])
        values = parameters_of(task.parameters, parameters, f"task {task_name}")
        run = _Run(self, task, task_id, values)
        ended = run.to_the_end(self._settle_ns, on_feedback, cancelled)
        if self.memory is not None:
            try:
                self.memory.learn(ended.graph, ended.recalled)
            except (OSError, TetherError) as error:  # the task is done, or not, all the same
                _LOG.error("task %s: not learnt from: %s", task_id, error)
        return ended


class _Run:
    """One run; see TaskRunner."""

    def __init__(self, runner: TaskRunner, task: AgentTask, task_id: str, values: Mapping[str, float]) -> None:
        self._memory, self._decisions = runner.memory, 0
        self._recalled: Recalled | None = None
        self._domain, self._robot, self._ways, self._usable = runner.domain, runner.robot, runner.ways, runner.usable
        self._executor, self._task, self._values = runner.executor, task, values
        self._breakers = runner.breakers
        self._breakers.begin_run()
        self._graph = RunGraph(task.name, task_id, values)
        self._todo: deque[_Step] = deque()
        self._attempts: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._detours: Counter[str] = Counter()
        self._deadline = DeadlineWatch(task.deadline_s, runner.clock_ns)

    def to_the_end(
        self, settle_ns: int, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]
    ) -> TaskRun:
        """From the declared start to the goal, a person, or a cancellation."""
        try:
            ended = self._begin(settle_ns)
            while ended is None:
                ended = self._advance(on_feedback, cancelled)
        except WorldEndedError as error:
            ended = self._ask("world_ended", str(error))
        return ended

    def _begin(self, settle_ns: int) -> TaskRun | None:
        """Wait until the declared start is seen, then take the task apart."""
        until_ns = self._robot.now_ns() + settle_ns
        while True:
            self._robot.advance()
            method = self._domain.method(self._task, self._state())
            late = self._robot.now_ns() >= until_ns or self._deadline.over()
            if not self._unmet(self._task.begins) or (late and method is not None and method.when):
                break
            if late:
                self._node()
                if self._deadline.over():
                    return self._late("before its start was seen")
                return self._ask("start_not_met", "; ".join(map(str, self._unmet_text(self._task.begins))))
        self._node()
        if self._memory is not None:
            try:
                self._recalled = self._memory.recall(self._task, self._state(), self._values, self._ways)
            except (OSError, TetherError) as error:  # the task can be taken apart all the same
                _LOG.error("task %s: nothing recalled: %s", self._graph.task_id, error)
        if self._recalled is not None:
            why = f"{RECALLED} {self._recalled.sha256[:12]}"
            self._todo.extend(_Step(name, why, True) for name in self._recalled.steps)
            return None
        self._decisions += 1
        if method is None:
            return self._ask("no_method", "no way of taking the task apart fits the facts")
        self._todo.extend(_Step(name, "task", False) for name in self._domain.flattened(self._task, method))
        return None

    def _advance(self, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]) -> TaskRun | None:
        """One step of the state machine; the run where it has ended."""
        if cancelled():
            return self._ended(Status.CANCELLED, CANCELLED)
        guards = tuple(Literal(name) for name in self._domain.spec.guards)
        if self._unmet(guards):
            return self._ask(GATE_HOLDS, "; ".join(self._unmet_text(guards)))
        if self._deadline.over():
            return self._late("between skills")
        if not self._todo:
            return self._arrived()
        step = self._todo[0]
        skill = self._domain.skills[step.skill]
        if step.optional and not self._unmet(skill.achieves):
            self._todo.popleft()
            return None
        if self._unmet(skill.requires):
            return self._detour(skill)
        before = self._state()
        if self._breakers.is_open(skill, before):
            return self._around(skill, before)
        if self._breakers.state(skill, before) is BreakerState.HALF_OPEN:
            self._event(skill, before, "trial")
        return self._call(skill, step, on_feedback, cancelled)

    def _arrived(self) -> TaskRun | None:
        if not self._unmet(self._task.wants):
            return self._ended(Status.DONE, None)
        return self._towards(self._task.wants, "goal")

    def _detour(self, skill: TaskSkill) -> TaskRun | None:
        """The skill is not attempted: its precondition is not met. Bring it about."""
        return self._towards(skill.requires, skill.name)

    def _towards(self, wanted: Condition, what: str) -> TaskRun | None:
        lacks = "; ".join(self._unmet_text(wanted))
        self._detours[what] += 1
        if self._detours[what] > DETOURS_MAX:
            return self._ask("precondition_not_met", f"{what}: {lacks}")
        self._decisions += 1
        state = self._state()
        plan = quickest_plan(self._domain, state, wanted, self._usable, self._breakers.is_open)
        if not plan:
            barred = quickest_plan(self._domain, state, wanted, self._usable)
            return self._ask(EDGE_OPEN if barred else "no_plan", f"{what}: {lacks}")
        self._todo.extendleft(_Step(name, f"detour to {what}: {lacks}", True) for name in reversed(plan))
        return None

    def _around(self, skill: TaskSkill, state: State) -> TaskRun | None:
        """The edge from `state` is open: go to the goal another way, or ask a person; never again and again."""
        self._event(skill, state, "avoided")
        self._detours[EDGE_OPEN] += 1
        self._decisions += 1
        plan = quickest_plan(self._domain, state, self._task.wants, self._usable, self._breakers.is_open)
        if not plan or self._detours[EDGE_OPEN] > DETOURS_MAX:
            wait_s = self._breakers.half_open_in_s(skill, state)
            return self._ask(EDGE_OPEN, f"{self._graph.breakers[-1]}; it may be tried again in {wait_s:.1f} s")
        self._todo = deque(_Step(name, f"around {skill.name}, whose edge is open", True) for name in plan)
        return None

    def _call(
        self,
        skill: TaskSkill,
        step: _Step,
        on_feedback: Callable[[Feedback], None],
        cancelled: Callable[[], bool],
    ) -> TaskRun | None:
        name = skill.name
        self._attempts[name] += 1
        attempt = self._attempts[name]
        known = {parameter.name for parameter in skill.parameters}
        parameters = {key: value for key, value in self._values.items() if key in known}
        before = self._state()
        call_id = f"{self._graph.task_id}/{len(self._graph.edges) + 1}-{name}"
        call = Call(call_id, self._graph.task_id, name, parameters, self._robot.now_ns() + self._deadline.left_ns())
        number = (len(self._graph.edges) + 1, len(self._graph.edges) + len(self._todo))
        told = False

        def ended() -> bool:
            nonlocal told
            told = cancelled()
            return told or self._deadline.over()

        outcome = self._executor.execute(call, on_feedback, ended, step=number, attempt=attempt)
        if outcome.status is Status.CANCELLED and not told:
            outcome = Outcome(call_id, Status.TIMED_OUT, DEADLINE, outcome.facts)
        detail = ""
        if outcome.status is Status.OUTCOME_UNKNOWN:
            detail = f"{outcome.status.value}, {outcome.failure}; asked the sensors"
            outcome = self._executor.verify(call)
        self._edge(skill, step, call, outcome, attempt, detail)
        self._count(skill, before, outcome)
        if outcome.status is Status.DONE:
            self._todo.popleft()
            return None
        if outcome.status is Status.CANCELLED:
            return self._ended(Status.CANCELLED, CANCELLED)
        return self._recover(skill, outcome.failure or "")

    def _recover(self, skill: TaskSkill, failure: str) -> TaskRun | None:
        self._failed[skill.name] += 1
        mode = skill.failures.get(failure)
        if mode is not None and mode.recovery == (OPERATOR,):
            return self._ask(failure, f"{skill.name}: {mode.doc}")
        if failure == DEADLINE:
            return self._late(f"in {skill.name}")
        reason, _, detail = failure.partition(": ")
        if reason == AGENT_OFFLINE:
            return self._ask(reason, f"{skill.name}: {detail}")
        if failure == GATE_HOLDS or failure.startswith("world_ended"):
            return self._ask(failure, skill.name)
        if self._failed[skill.name] > skill.retries:
            return self._ask(failure, f"{skill.name} failed {self._failed[skill.name]} times")
        if mode is None and failure not in LOST and not failure.startswith("refused"):
            raise AssertionError(f"failure {failure!r} of {skill.name} has no name in its declaration")
        self._decisions += 1
        steps = () if mode is None else mode.recovery  # a lost worker: its precondition is looked at anew
        self._todo.extendleft(_Step(name, f"recovery from {failure}", True) for name in reversed(steps))
        return None

    def _count(self, skill: TaskSkill, before: State, outcome: Outcome) -> None:
        """Tell the edge's breaker. What the gate, a deadline or a person ended, and what only a person can mend, is no
        failure of the edge."""
        if outcome.status is Status.DONE:
            failures = self._breakers.failures(skill, before)
            if self._breakers.worked(skill, before):
                self._event(skill, before, "closed", failures)
            return
        mode = skill.failures.get(outcome.failure or "")
        ours = mode is not None and mode.recovery != (OPERATOR,)
        if (ours or outcome.failure in LOST) and self._breakers.failed(skill, before):
            self._event(skill, before, "opened")

    # -- The graph ---------------------------------------------------------------------------------------------------

    def _event(self, skill: TaskSkill, state: State, event: str, failures: int | None = None) -> None:
        count = self._breakers.failures(skill, state) if failures is None else failures
        now_ns = self._robot.now_ns()
        self._graph.breakers.append(EdgeEvent(now_ns, *edge_key(skill, state), event, count))

    def _node(self) -> int:
        robot, graph = self._robot, self._graph
        facts = tuple(robot.facts.values())
        graph.nodes.append(Node(len(graph.nodes), robot.now_ns(), facts, dict(robot.evidence), dict(robot.judged())))
        return graph.nodes[-1].id

    def _edge(self, skill: TaskSkill, step: _Step, call: Call, outcome: Outcome, attempt: int, detail: str) -> None:
        source = self._graph.nodes[-1].id
        self._graph.edges.append(
            Edge(
                source=source,
                target=self._node(),
                call_id=call.call_id,
                skill=skill.name,
                way=self._ways.get(skill.name, "none"),
                parameters=call.parameters,
                attempt=attempt,
                why=step.why,
                expected=skill.effect,
                status=outcome.status.value,
                failure=outcome.failure,
                detail=detail,
                agent=self._executor.agent_of(skill.name),
            )
        )

    def _late(self, where: str) -> TaskRun:
        lacks = "; ".join(self._unmet_text(self._task.wants))
        goal, first = (f"the goal lacks {lacks}", RETRY) if lacks else ("the goal holds", "accept it as it is")
        return self._ask(DEADLINE, f"{self._task.deadline_s:g} s are over {where}; {goal}", first)

    def _ask(self, reason: str, detail: str, first: str = RETRY) -> TaskRun:
        """The end of what the agent may do by itself."""
        self._robot.stop(kill=False)
        possible = [name for name, skill in self._usable.items() if not self._unmet(skill.requires)]
        options = (first, *(f"run {name}" for name in possible), "abandon the task")
        request = OperatorRequest(self._graph.task_id, reason, detail, options)
        return self._ended(Status.FAILED, f"{NEEDS_OPERATOR}: {reason}", request)

    def _ended(self, status: Status, failure: str | None, request: OperatorRequest | None = None) -> TaskRun:
        self._graph.outcome, self._graph.failure = status.value, failure
        outcome = Outcome(self._graph.task_id, status, failure, tuple(self._robot.facts.values()))
        self._graph.timeliness = self._deadline.ended(done=status is Status.DONE)
        failed = sum(self._failed.values())
        return TaskRun(self._graph, outcome, failed, request, self._decisions, self._recalled)

    # -- Facts -------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, bool]:
        """What is known now, for plans."""
        now_ns, ages = self._robot.now_ns(), self._domain.max_age_ns
        return {
            name: fact.value
            for name, fact in self._robot.facts.items()
            if isinstance(fact.value, bool) and now_ns - fact.stamp_ns <= ages[name]
        }

    def _unmet(self, condition: Condition) -> bool:
        return bool(unmet(condition, self._robot.facts, self._robot.now_ns(), self._domain.max_age_ns))

    def _unmet_text(self, condition: Condition) -> list[str]:
        return [str(u) for u in unmet(condition, self._robot.facts, self._robot.now_ns(), self._domain.max_age_ns)]
