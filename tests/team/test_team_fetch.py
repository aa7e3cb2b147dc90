"""fetch in the simulated world by three agents, one of them killed in the middle of its step."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tether.cli import main
from tether.memory.redis_server import find_server


@pytest.mark.timeout(600)
def test_a_killed_agent_is_held_verified_and_recovered_and_the_record_of_the_task_tells_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("redis", reason="needs the package redis (extra agent)")
    if find_server() is None:
        pytest.skip("needs a redis-server or valkey-server binary")
    command = ["agent", "run", "fetch", "--agents", "perception,base,arm", "--policy", "classic", "--seed", "1000"]
    files = ["--runs", str(tmp_path), "--json", str(tmp_path / "result.json")]
    assert main([*command, "--mishap", "agent_killed", *files]) == 0
    assert "hand-over agent_to_agent: p50" in capsys.readouterr().out

    result = json.loads((tmp_path / "result.json").read_text(encoding="utf-8"))
    assert (result["successes"], result["false_claims"], result["unnamed_errors"]) == (1, 0, 0)
    assert result["agents"] == "perception,base,arm"
    assert result["team"]["restarts"] == 1
    (told,) = (episode["team"] for episode in result["per_episode"])
    (lost,) = [step for step in told["steps"] if step["status"] == "outcome_unknown"]
    assert lost["failure"].startswith(f"agent_lost: {lost['agent']}: ended with status -9")
    ended = [step["skill"] for step in told["steps"] if step["status"] == "done"]
    assert ended[-1] == "place"

    assert main(["agent", "trace", str(tmp_path), "--task-id", "fetch-agent_killed-1000"]) == 0
    said = capsys.readouterr().out
    assert f"{lost['agent']}: {lost['skill']} (direct), attempt 1" in said
    assert f"{lost['agent']}: {lost['call_id']}/taken" in said
    assert f"agent {lost['agent']}, " in said
    assert "started anew" in said
