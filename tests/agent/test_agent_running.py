"""The state machine: refused, run, ended, recovered, handed to a person; on a world that is the domain's own."""

from __future__ import annotations

import pytest
from fact_robot import LOST, FactRobot

from tether.agent.calls import Call, Status
from tether.agent.domain import Domain
from tether.agent.execution import SkillExecutor
from tether.agent.running import NEEDS_OPERATOR, TaskRun, TaskRunner
from tether.errors import InvalidInputError

FAR_NS = 10**15


def ways(domain: Domain) -> dict[str, str]:
    return {name: next(iter(skill.ways)) for name, skill in domain.skills.items()}


def fetched(domain: Domain, robot: FactRobot) -> TaskRun:
    return TaskRunner(domain, robot, ways(domain)).run("fetch", "t", {})


def call(skill: str, call_id: str = "c1", deadline_ns: int = FAR_NS, **parameters: float) -> Call:
    return Call(call_id, "t", skill, parameters, deadline_ns)


def execute(domain: Domain, robot: FactRobot, *calls: Call, cancel_after: int | None = None):
    executor = SkillExecutor(domain, robot, ways(domain))
    asked = iter(range(10**6))
    cancelled = (lambda: False) if cancel_after is None else (lambda: next(asked) >= cancel_after)
    return [executor.execute(one, lambda feedback: None, cancelled) for one in calls]


def test_a_skill_whose_precondition_is_not_met_is_refused_with_the_unmet_facts_and_not_attempted(domain) -> None:
    robot = FactRobot(domain)
    (outcome,) = execute(domain, robot, call("pick"))
    assert outcome.status is Status.FAILED
    assert outcome.failure == "refused: above (not known)"
    assert robot.started == []


def test_a_fact_that_is_too_old_is_not_known(domain) -> None:
    robot = FactRobot(domain)
    facts = robot.facts
    later_ns = robot.now_ns() + 400_000_000
    from tether.agent.facts import unmet

    (missing,) = unmet(
        domain.skills["release"].requires or domain.skills["clear_view"].requires, facts, later_ns, domain.max_age_ns
    )
    assert str(missing) == "gripper_open (not known)"


def test_a_call_id_is_run_once_and_gets_its_outcome_again(domain) -> None:
    robot = FactRobot(domain)
    first, second = execute(domain, robot, call("find"), call("find"))
    assert first is second
    assert robot.started == ["find"]


def test_a_call_id_that_stands_for_another_call_is_refused(domain) -> None:
    with pytest.raises(InvalidInputError, match="stands for another call"):
        execute(domain, FactRobot(domain), call("find"), call("clear_view"))


def test_an_unknown_skill_is_refused_before_anything_is_done(domain) -> None:
    with pytest.raises(InvalidInputError, match="'dance'"):
        execute(domain, FactRobot(domain), call("dance"))


def test_at_its_time_limit_a_skill_is_killed_and_named_by_what_the_facts_show(domain) -> None:
    robot = FactRobot(domain, {"find": [["not seen"]]})
    (outcome,) = execute(domain, robot, call("find"))
    assert (outcome.status, outcome.failure) == (Status.TIMED_OUT, "not_seen")
    assert robot.killed == ["find"]
    assert robot.now_ns() - 1_000_000_000 <= domain.skills["find"].limit_s * 1e9 + 50_000_000


def test_a_cancelled_skill_ends_at_the_next_decision(domain) -> None:
    robot = FactRobot(domain, {"find": [None]})
    (outcome,) = execute(domain, robot, call("find"), cancel_after=2)
    assert outcome.status is Status.CANCELLED
    assert robot.now_ns() == 1_000_000_000 + 2 * 50_000_000


def test_a_call_ends_at_its_deadline(domain) -> None:
    robot = FactRobot(domain, {"find": [None]})
    (outcome,) = execute(domain, robot, call("find", deadline_ns=1_200_000_000))
    assert (outcome.status, outcome.failure) == (Status.TIMED_OUT, "deadline")


def test_a_lost_worker_leaves_the_outcome_unknown(domain) -> None:
    robot = FactRobot(domain, {"find": [LOST]})
    (outcome,) = execute(domain, robot, call("find"))
    assert outcome.status is Status.OUTCOME_UNKNOWN
    assert robot.killed == ["find"]


def test_fetch_goes_through_and_verifies_every_effect(domain) -> None:
    robot = FactRobot(domain)
    run = fetched(domain, robot)
    assert run.outcome.status is Status.DONE
    assert robot.started == ["find", "approach", "pick", "carry", "place"]
    assert run.graph.judgements() == []
    assert run.retries == 0


def test_an_uncertain_effect_is_verified_and_not_done_twice(domain) -> None:
    robot = FactRobot(domain, {"pick": [LOST + ", its effect is there"]})
    run = fetched(domain, robot)
    assert run.outcome.status is Status.DONE
    assert robot.started.count("pick") == 1
    assert "asked the sensors" in run.graph.edges[2].detail


def test_an_uncertain_effect_that_sensors_do_not_see_is_tried_again(domain) -> None:
    robot = FactRobot(domain, {"pick": [LOST]})
    run = fetched(domain, robot)
    assert run.outcome.status is Status.DONE
    assert [edge.failure for edge in run.graph.edges if edge.skill == "pick"] == ["worker_lost", None]


@pytest.mark.parametrize(
    ("happens", "failure", "recovery"),
    [
        ({"pick": [["closed_empty"]]}, "missed", ["release", "find", "approach", "pick"]),
        ({"carry": [["not holding", "closed_empty"]]}, "slipped", ["release", "find", "approach", "pick", "carry"]),
        ({"find": [["not camera_ok"]]}, "camera_lost", ["await_camera", "find"]),
        ({"place": [["gripper_open", "seen", "not placed"]]}, "elsewhere",
         ["find", "approach", "pick", "carry", "place"]),
    ],
)  # fmt: skip
def test_a_failure_is_named_and_its_own_recovery_follows(domain, happens, failure, recovery) -> None:
    robot = FactRobot(domain, happens)
    run = fetched(domain, robot)
    assert run.outcome.status is Status.DONE
    (failed,) = [i for i, edge in enumerate(run.graph.edges) if edge.failure is not None]
    assert run.graph.edges[failed].failure == failure
    followed = robot.started[failed + 1 :]
    left_out = [name for name in recovery if name not in followed]
    assert all(name in ("find", "release", "approach") for name in left_out), "only what held already is left out"
    assert [name for name in recovery if name in followed] == followed[: len(recovery) - len(left_out)]
    assert run.graph.judgements()[0].edge == failed


def test_a_failure_without_end_goes_to_a_person_after_the_declared_retries(domain) -> None:
    robot = FactRobot(domain, {"pick": [["closed_empty"]] * 20})
    run = fetched(domain, robot)
    assert run.outcome.failure == f"{NEEDS_OPERATOR}: missed"
    assert robot.started.count("pick") == domain.skills["pick"].retries + 1
    assert run.request is not None
    assert "run release" in run.request.options
    assert run.request.options[-1] == "abandon the task"


def test_what_only_a_person_can_mend_goes_to_a_person_at_once(domain) -> None:
    robot = FactRobot(domain, {"find": [["camera_ok", "seen", "not reachable"]]})
    run = fetched(domain, robot)
    assert run.outcome.failure == f"{NEEDS_OPERATOR}: out_of_reach"
    assert robot.started == ["find"]


def test_a_gate_that_holds_ends_the_skill_and_asks_a_person(domain) -> None:
    robot = FactRobot(domain, {"approach": [["not robot_ok"]]})
    run = fetched(domain, robot)
    assert run.outcome.failure == f"{NEEDS_OPERATOR}: gate_holds"


def test_a_start_that_is_not_seen_asks_a_person_and_attempts_nothing(domain) -> None:
    robot = FactRobot(domain)
    robot.know("not camera_ok")
    run = fetched(domain, robot)
    assert run.outcome.failure == f"{NEEDS_OPERATOR}: start_not_met"
    assert robot.started == []


def test_a_precondition_lost_on_the_way_is_brought_about_by_a_detour(domain) -> None:
    robot = FactRobot(domain)
    seen = 0

    def cube_moves_after_approach() -> bool:
        nonlocal seen
        above = robot.facts.get("above")
        if above is not None and above.value is True:
            seen += 1
            if seen == 2:
                robot.know("not seen")
        return False

    run = TaskRunner(domain, robot, ways(domain)).run("fetch", "t", {}, cancelled=cube_moves_after_approach)
    assert run.outcome.status is Status.DONE
    assert robot.started == ["find", "approach", "find", "approach", "pick", "carry", "place"]
    assert "detour to pick: above (found False" in run.graph.edges[2].why


def test_a_skill_that_this_machine_has_no_way_for_is_planned_around_or_handed_over(domain) -> None:
    robot = FactRobot(domain)
    left = {name: way for name, way in ways(domain).items() if name != "find"}
    run = TaskRunner(domain, robot, left).run("fetch", "t", {})
    assert run.outcome.status is Status.FAILED
    assert run.outcome.failure.startswith(NEEDS_OPERATOR)


def test_a_cancelled_task_is_cancelled_between_and_within_skills(domain) -> None:
    robot = FactRobot(domain)
    asked = iter(range(100))
    run = TaskRunner(domain, robot, ways(domain)).run("fetch", "t", {}, cancelled=lambda: next(asked) > 4)
    assert run.outcome.status is Status.CANCELLED


def test_no_run_of_random_failures_ends_in_an_unnamed_error(domain) -> None:
    import random

    for seed in range(60):
        rng = random.Random(seed)
        happens = {}
        for name, skill in domain.skills.items():
            modes = [list(mode.when) or None for mode in skill.failures.values()]
            happens[name] = [
                rng.choice([*modes, LOST, LOST + "!"]) if rng.random() < 0.4 else list(skill.effect) for _ in range(6)
            ]
        run = fetched(domain, FactRobot(domain, happens))
        assert run.outcome.status is Status.DONE or run.outcome.failure.startswith(NEEDS_OPERATOR)
        assert (run.request is None) == (run.outcome.status is Status.DONE)
