"""Declarations are read strictly, and all faults of all files are reported together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.agent.domain import Domain, load_domain, parameters_of
from tether.errors import InvalidInputError


def test_faults_of_all_files_come_together(folder: Path, edit) -> None:
    edit("skills/find.yaml", "effect: [seen, reachable]", "effect: [sighted]")
    edit("skills/pick.yaml", "recovery: [await_camera, find, approach], doc: the", "recovery: [pray], doc: the")
    edit("tasks/take.yaml", "[find, approach, pick]", "[find, jump]")
    with pytest.raises(InvalidInputError) as caught:
        load_domain(folder)
    text = str(caught.value)
    assert "'sighted'" in text
    assert "'pray'" in text
    assert "'jump'" in text


def test_a_time_limit_above_three_means_is_refused(folder: Path, edit) -> None:
    edit("skills/pick.yaml", "limit_s: 4.2", "limit_s: 4.3")
    with pytest.raises(InvalidInputError, match=r"at most 3 x mean_s = 4\.23 s"):
        load_domain(folder)


def test_a_time_limit_above_the_cap_is_refused(folder: Path, edit) -> None:
    edit("skills/pick.yaml", "mean_s: 1.41\nlimit_s: 4.2", "mean_s: 3.0\nlimit_s: 8.5")
    with pytest.raises(InvalidInputError, match="cap_s = 8 s"):
        load_domain(folder)


def test_a_skill_without_a_mode_for_what_is_left_over_is_refused(folder: Path, edit) -> None:
    edit("skills/release.yaml", "stuck: {when: []", "stuck: {when: [holding]")
    with pytest.raises(InvalidInputError, match="the last with an empty `when`"):
        load_domain(folder)


def test_a_task_that_contains_itself_is_refused(folder: Path, edit) -> None:
    edit("tasks/take.yaml", "[find, approach, pick]", "[find, fetch]")
    edit("tasks/fetch.yaml", "[find, approach, pick, carry, place]", "[take, carry, place]")
    with pytest.raises(InvalidInputError, match="comes to an end"):
        load_domain(folder)


def test_a_file_is_named_after_what_it_declares(folder: Path, edit) -> None:
    edit("skills/find.yaml", "name: find", "name: seek")
    with pytest.raises(InvalidInputError, match="'seek'"):
        load_domain(folder)


def test_a_primitive_that_is_none_is_refused(folder: Path, edit) -> None:
    edit("skills/find.yaml", "primitives: [look, hold]", "primitives: [stare]")
    with pytest.raises(InvalidInputError, match="'stare'"):
        load_domain(folder)


def test_parameters_are_completed_and_every_bad_one_is_named(domain: Domain) -> None:
    declared = domain.skills["carry"].parameters
    assert parameters_of(declared, {"x": 0.2}, "carry") == {"x": 0.2, "y": -0.085}
    with pytest.raises(InvalidInputError) as caught:
        parameters_of(declared, {"x": 9.0, "speed": 1.0, "y": float("nan")}, "carry")
    assert {fault.where for fault in caught.value.faults} == {"x", "speed", "y"}


def test_skills_of_another_folder_are_signed_where_signatures_are_asked_for(
    folder: Path, tmp_path, monkeypatch
) -> None:
    monkeypatch.setenv("TETHER_TRUST", "signed")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with pytest.raises(InvalidInputError, match="expected a signature") as caught:
        load_domain(folder)
    assert len(caught.value.faults) == 8
    assert load_domain().skills  # what ships is attested with the package
