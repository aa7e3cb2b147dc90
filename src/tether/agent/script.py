"""The yardstick: the same skills in a fixed order, each until its effect is seen or its time is up, then the next.

No precondition is checked, nothing is retried and nothing recovered.
"""

from __future__ import annotations

from collections.abc import Mapping

from tether.agent.calls import Call, Outcome, Status
from tether.agent.domain import Domain
from tether.agent.facts import Condition, unmet
from tether.agent.robot import Robot, WorldEndedError

START_DECISIONS = 10
"""What a script waits at the start, in decisions: half a second, until the first pictures have come."""


def run_script(domain: Domain, robot: Robot, ways: Mapping[str, str], task_name: str, task_id: str) -> Outcome:
    """Call the steps of the task's last method once each, parameters at their defaults."""
    task = domain.tasks[task_name]
    steps = domain.flattened(task, list(task.methods.values())[-1])
    try:
        for _ in range(START_DECISIONS):
            robot.advance()
        for number, name in enumerate(steps, 1):
            _call(domain, robot, ways[name], name, task_id, (number, len(steps)))
    except WorldEndedError as error:
        return Outcome(task_id, Status.FAILED, f"world_ended: {error}", tuple(robot.facts.values()))
    missing = unmet(task.wants, robot.facts, robot.now_ns(), domain.max_age_ns)
    failure = f"goal not seen: {'; '.join(map(str, missing))}" if missing else None
    return Outcome(task_id, Status.FAILED if missing else Status.DONE, failure, tuple(robot.facts.values()))


def _call(domain: Domain, robot: Robot, way: str, name: str, task_id: str, step: tuple[int, int]) -> None:
    skill = domain.skills[name]
    parameters = {parameter.name: parameter.default for parameter in skill.parameters}
    until_ns = robot.now_ns() + round(skill.limit_s * 1e9)
    robot.start(Call(f"{task_id}/{step[0]}-{name}", task_id, name, parameters, until_ns), skill, way, step)
    seen = 0
    while seen < 2 and robot.now_ns() < until_ns:
        robot.advance()
        seen = seen + 1 if _holds(domain, robot, skill.achieves) else 0
    robot.stop(kill=False)


def _holds(domain: Domain, robot: Robot, condition: Condition) -> bool:
    return not unmet(condition, robot.facts, robot.now_ns(), domain.max_age_ns)
