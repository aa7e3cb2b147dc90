"""The domain for planners of others: PDDL and HDDL, plans by Aries, and their validation by Unified Planning.

Needs the extra `agent`. What this module says is a second opinion beside `tether.agent.proof`, by programs that nobody
here wrote; states are two-valued there, so a fact that is not known counts as false.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tether.agent.declaration import AgentTask, TaskSkill
from tether.agent.domain import Domain, State
from tether.agent.facts import Condition
from tether.agent.proof import failed_state, method_start
from tether.errors import Fault, InvalidInputError
from tether.files import replaced

ENGINE = "aries"
SOLVE_S = 10.0


def _library(module: str) -> Any:
    """A module of Unified Planning, which takes seconds to import and comes with an extra."""
    return importlib.import_module(f"unified_planning.{module}")


class Planner:
    """The domain as problems of Unified Planning. Raises ModuleNotFoundError where the extra is not installed."""

    def __init__(self, domain: Domain) -> None:
        self._up, self._htn = _library("shortcuts"), _library("model.htn")
        self._domain = domain
        self._up.get_environment().credits_stream = None  # Aries would print its authors on every call

    def problem(self, start: State, goal: Condition) -> Any:
        """A classical problem with every skill as an action."""
        return self._filled(self._up.Problem("tether"), start, goal)

    def hierarchical(self, task: AgentTask, method: str) -> Any:
        """The problem of `task` from the declared start of one of its methods, with all tasks as methods."""
        up, domain = self._up, self._domain
        start = method_start(domain, task, method)
        problem = self._filled(self._htn.HierarchicalProblem("tether"), start, task.wants)
        nodes = {name: problem.add_task(name) for name in domain.tasks}
        for name, declared in domain.tasks.items():
            for method_name, taken in declared.methods.items():
                node = self._htn.Method(f"{name}_{method_name}")
                node.set_task(nodes[name])
                for literal in taken.condition:
                    fluent = problem.fluent(literal.name)
                    node.add_precondition(fluent if literal.wanted else up.Not(fluent))
                steps = [
                    node.add_subtask(problem.action(step) if step in domain.skills else nodes[step])
                    for step in taken.steps
                ]
                if len(steps) > 1:
                    node.set_ordered(*steps)
                problem.add_method(node)
        problem.task_network.add_subtask(nodes[task.name])
        return problem

    def plan(self, task: AgentTask, method: str) -> tuple[str, ...]:
        """The skills that Aries finds for a task. Raises InvalidInputError with its verdict where it finds none."""
        problem = self.hierarchical(task, method)
        try:
            with self._up.OneshotPlanner(name=ENGINE) as engine:
                result = engine.solve(problem, timeout=SOLVE_S)
        except self._up_errors() as error:
            fault = Fault(ENGINE, str(error), "a planner that runs on this machine")
            raise InvalidInputError("planner", [fault], "pip install 'tether-robotics[agent]'") from error
        if result.plan is None:
            fault = Fault(f"{task.name}: {method}", result.status.name, f"a plan within {SOLVE_S:g} s")
            raise InvalidInputError("plan", [fault], "`tether agent check` says what is not achievable, and why")
        return tuple(item.action.name for item in result.plan.action_plan.actions)

    def validates(self, start: State, goal: Condition, steps: Iterable[str]) -> str | None:
        """None where Unified Planning's validator follows `steps` from `start` to `goal`; else what it says."""
        engines, plans = _library("engines"), _library("plans")
        problem = self.problem(start, goal)
        plan = plans.SequentialPlan([plans.ActionInstance(problem.action(step)) for step in steps])
        with engines.SequentialPlanValidator() as validator:
            result = validator.validate(problem, plan)
        if result.status is engines.ValidationResultStatus.VALID:
            return None
        reason = result.reason.name if result.reason is not None else result.status.name
        return f"{reason} at {result.inapplicable_action}" if result.inapplicable_action else reason

    def second_opinion(self) -> dict[str, str]:
        """Every method planned, every method's and every recovery's steps validated; what is objected to, by name."""
        domain, objections = self._domain, dict[str, str]()
        for task in domain.tasks.values():
            for name, method in task.methods.items():
                where, start = f"{task.name}: {name}", method_start(domain, task, name)
                try:
                    found = self.plan(task, name)
                except InvalidInputError as error:
                    objections[where] = str(error)
                    continue
                for steps in {found, domain.flattened(task, method)}:
                    verdict = self.validates(start, task.wants, steps)
                    if verdict is not None:
                        objections[where] = verdict
        for skill, name in self._recoveries(domain.skills):
            mode = skill.failures[name]
            verdict = self.validates(failed_state(domain, skill, mode), skill.requires, mode.recovery)
            if verdict is not None:
                objections[f"{skill.name}: {name}"] = verdict
        return objections

    def export(self, folder: Path) -> list[Path]:
        """Write each task as PDDL (domain, problem) and HDDL (domain, problem); the paths written."""
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for task in self._domain.tasks.values():
            method = next(iter(task.methods))
            start = method_start(self._domain, task, method)
            for suffix, problem in (
                ("pddl", self.problem(start, task.wants)),
                ("hddl", self.hierarchical(task, method)),
            ):
                writer = _library("io").PDDLWriter(problem)
                for kind, text in (("domain", writer.get_domain()), ("problem", writer.get_problem())):
                    path = folder / f"{task.name}.{kind}.{suffix}"
                    with replaced(path) as file:
                        file.write(text.encode())
                    written.append(path)
        return written

    def _filled(self, problem: Any, start: State, goal: Condition) -> Any:
        up, domain = self._up, self._domain
        fluents = {
            name: problem.add_fluent(name, up.BoolType(), default_initial_value=False) for name in domain.spec.facts
        }

        def literal(name: str, wanted: bool) -> Any:
            return fluents[name] if wanted else up.Not(fluents[name])

        for name, skill in domain.skills.items():
            action = up.InstantaneousAction(name)
            for item in skill.requires:
                action.add_precondition(literal(item.name, item.wanted))
            for fact, wanted in domain.closure(skill.achieves).items():
                action.add_effect(fluents[fact], wanted)
            problem.add_action(action)
        for name, wanted in start.items():
            problem.set_initial_value(fluents[name], wanted)
        for item in goal:
            problem.add_goal(literal(item.name, item.wanted))
        return problem

    @staticmethod
    def _recoveries(skills: Mapping[str, TaskSkill]) -> list[tuple[TaskSkill, str]]:
        return [
            (skill, name)
            for skill in skills.values()
            for name, mode in skill.failures.items()
            if mode.recovery and all(step in skills for step in mode.recovery)
        ]

    @staticmethod
    def _up_errors() -> tuple[type[Exception], ...]:
        return (_library("exceptions").UPException, OSError)
