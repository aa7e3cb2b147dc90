"""fetch in the simulated world: real workers, real pictures, facts from sensors; the judge's truth beside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tether.agent.domain import load_domain
from tether.agent.evaluation import Setting, episodes
from tether.agent.graph import RunGraph
from tether.agent.injection import Mishap
from tether.agent.machine import Machine, pruned
from tether.cli import main


def setting(*mishaps: Mishap) -> Setting:
    return Setting("fetch", "fetch", "real", "classic", False, mishaps)


@pytest.mark.timeout(600)
def test_a_cube_that_slips_is_fetched_all_the_same_and_one_out_of_reach_goes_to_a_person(
    tmp_path: Path, capsys
) -> None:
    domain = load_domain()
    ways = pruned(domain, Machine(4000, camera=True, fp16=False, gpu=False), excluded=("student",)).ways
    slipped, unreachable = episodes(setting(Mishap.SLIP, Mishap.UNREACHABLE), domain, ways, [0, 1], tmp_path)

    assert (slipped.success, slipped.claimed) == (True, True)
    assert slipped.retries >= 1
    assert any(failure == "slipped" for _, _, failure, _ in slipped.skills)
    graph = RunGraph.read(tmp_path / "fetch-slip-0" / "graph.json")
    assert graph.judgements()[0].failure == "slipped"

    assert unreachable.failure == "needs_operator: out_of_reach"
    request = json.loads((tmp_path / "fetch-unreachable-1" / "request.json").read_text(encoding="utf-8"))
    assert request["reason"] == "out_of_reach"
    assert request["facts"]["reachable"] is False
    assert len(request["options"]) >= 2
    assert (tmp_path / "fetch-unreachable-1" / request["picture"]).read_bytes().startswith(b"\x89PNG")

    assert main(["agent", "trace", str(tmp_path / "fetch-slip-0"), "--dot", str(tmp_path / "run.dot")]) == 0
    said = capsys.readouterr().out
    assert "the judgement went wrong first at step" in said
    assert (tmp_path / "run.dot").read_text(encoding="utf-8").startswith("digraph")


@pytest.mark.parametrize("words", [["fetch", "--mishap", "flood"], ["sing"], ["fetch", "--policy", "none"]])
def test_a_run_of_what_does_not_exist_is_refused(words: list[str], capsys) -> None:
    assert main(["agent", "run", *words]) == 2
    assert "expected" in capsys.readouterr().err


def test_a_domain_that_does_not_hold_is_refused_by_check_and_run_alike(folder: Path, edit, capsys) -> None:
    edit("tasks/fetch.yaml", "[find, approach, pick, carry, place]", "[find, pick, carry, place]")
    assert main(["agent", "check", "--domain", str(folder)]) == 1
    assert "step 2 (pick) needs [above]" in capsys.readouterr().out
    assert main(["agent", "run", "fetch", "--domain", str(folder)]) == 2
