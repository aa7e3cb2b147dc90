"""What the formal check refuses, and with which reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.agent.domain import Domain, load_domain
from tether.agent.facts import parse_condition
from tether.agent.proof import refusals, require_proved, start_states
from tether.agent.search import quickest_plan, reachable_states
from tether.errors import InvalidInputError


def test_the_shipped_domain_is_proved(domain: Domain) -> None:
    assert refusals(domain) == ()
    require_proved(domain)


def test_fetch_is_find_approach_pick_carry_place(domain: Domain) -> None:
    task = domain.tasks["fetch"]
    steps = domain.flattened(task, task.methods["from_floor"])
    assert steps == ("find", "approach", "pick", "carry", "place")
    start = domain.closure(task.begins)
    assert quickest_plan(domain, start, task.wants) == steps


def test_with_the_cube_in_hand_fetch_begins_with_carry(domain: Domain) -> None:
    task = domain.tasks["fetch"]
    state = domain.after(domain.closure(task.begins), parse_condition(["lifted"], "t"))
    method = domain.method(task, state)
    assert method is not None
    assert domain.flattened(task, method) == ("carry", "place")


def test_every_recovery_that_ships_is_a_plan_that_search_finds_too(domain: Domain) -> None:
    from tether.agent.proof import failed_state

    for skill in domain.skills.values():
        for mode in skill.failures.values():
            if mode.recovery != ("operator",):
                assert quickest_plan(domain, failed_state(domain, skill, mode), skill.requires) is not None


def test_a_precondition_that_contradicts_itself_is_refused(folder: Path, edit) -> None:
    edit("skills/pick.yaml", "precondition: [gripper_open, above]", "precondition: [gripper_open, above, lifted]")
    (refusal,) = refusals(load_domain(folder))
    assert (refusal.name, refusal.rule) == ("pick", "its precondition contradicts itself")
    assert "both holds and does not" in refusal.reason


def test_a_precondition_that_nothing_brings_about_is_refused_with_the_facts_that_lack(folder: Path, edit) -> None:
    edit("domain.yaml", "exclusive:", "  charged: {max_age_s: 1.0, doc: the battery is full}\nexclusive:")
    edit("skills/place.yaml", "precondition: [at_place]", "precondition: [at_place, charged]")
    found = [refusal for refusal in refusals(load_domain(folder)) if refusal.name == "place"]
    assert any("charged] in none of them" in refusal.reason for refusal in found)


def test_a_recovery_that_leads_nowhere_is_refused_with_the_step_that_fails(folder: Path, edit) -> None:
    edit(
        "skills/carry.yaml", "recovery: [release, await_camera, find, approach, pick], early", "recovery: [find], early"
    )
    (refusal,) = refusals(load_domain(folder))
    assert (refusal.name, refusal.rule) == ("carry", "failure slipped has a recovery")
    assert "step 1 (find) needs [camera_ok, gripper_open]" in refusal.reason


def test_a_recovery_that_ends_too_early_is_refused_with_what_it_leaves_open(folder: Path, edit) -> None:
    edit(
        "skills/pick.yaml",
        "recovery: [await_camera, find, approach], doc: no",
        "recovery: [await_camera, find], doc: no",
    )
    (refusal,) = refusals(load_domain(folder))
    assert "ends without [above]" in refusal.reason


def test_a_task_whose_steps_do_not_fit_together_is_refused(folder: Path, edit) -> None:
    edit("tasks/fetch.yaml", "[find, approach, pick, carry, place]", "[find, pick, carry, place]")
    (refusal,) = refusals(load_domain(folder))
    assert "step 2 (pick) needs [above]" in refusal.reason


def test_a_task_that_misses_its_goal_is_refused(folder: Path, edit) -> None:
    edit("tasks/take.yaml", "[find, approach, pick]", "[find, approach]")
    (refusal,) = refusals(load_domain(folder))
    assert "ends without [holding, lifted]" in refusal.reason


def test_a_task_may_begin_only_where_the_guards_hold(folder: Path, edit) -> None:
    edit("tasks/take.yaml", "start: [robot_ok, ", "start: [")
    with pytest.raises(InvalidInputError, match="robot_ok"):
        require_proved(load_domain(folder))


def test_tasks_are_taken_apart_at_any_depth(folder: Path, edit) -> None:
    edit("tasks/fetch.yaml", "[find, approach, pick, carry, place]", "[take, carry, place]")
    domain = load_domain(folder)
    task = domain.tasks["fetch"]
    assert refusals(domain) == ()
    assert domain.flattened(task, task.methods["from_floor"]) == ("find", "approach", "pick", "carry", "place")


def test_what_is_not_known_is_neither_true_nor_false(domain: Domain) -> None:
    assert quickest_plan(domain, {}, parse_condition(["not seen"], "t"), {}) is None
    assert quickest_plan(domain, {"seen": False}, parse_condition(["not seen"], "t"), {}) == ()


def test_no_reachable_state_breaks_an_exclusion(domain: Domain) -> None:
    for state in reachable_states(domain, start_states(domain)):
        for group in domain.spec.exclusive:
            assert sum(state.get(name) is True for name in group) <= 1
        for name, fact in domain.spec.facts.items():
            if state.get(name) is True:
                assert all(state[other] for other in fact.implies)
