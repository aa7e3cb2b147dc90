"""Which agent has which skill."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tether.agent.domain import load_domain
from tether.errors import InvalidInputError
from tether.resources import resource_path
from tether.team.roster import load_roster

ALL = ("perception", "base", "arm")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(resource_path("config", "agent"), tmp_path / "agent"))


def test_every_skill_that_ships_is_one_agents() -> None:
    domain = load_domain()
    roster = load_roster(domain, ALL)
    assert {name: roster.owner(name) for name in ("find", "approach", "pick", "carry", "place")} == {
        "find": "perception",
        "approach": "base",
        "pick": "arm",
        "carry": "base",
        "place": "arm",
    }
    assert sorted(skill for role in roster.agents.values() for skill in role.skills) == sorted(domain.skills)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("perception", "legs"), "legs"),
        ((), "none"),
        (("arm", "arm"), "each once"),
        (("perception", "base"), "pick: found no skill of perception, base"),
    ],
)
def test_names_that_are_no_agents_and_skills_that_nobody_has_are_refused(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidInputError) as error:
        load_roster(load_domain(), names)
    assert message in str(error.value)


def test_a_skill_of_two_agents_and_one_that_is_none_are_refused_together(folder: Path) -> None:
    path = folder / "agents.yaml"
    path.write_text(path.read_text().replace("find, await_camera", "find, await_camera, pick, dance"))
    with pytest.raises(InvalidInputError) as error:
        load_roster(load_domain(folder), ALL)
    assert "pick: found 2 agents'" in str(error.value)
    assert "dance: found no skill of the domain" in str(error.value)
