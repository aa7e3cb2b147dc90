"""Whole deployments: two processes with their own keys, state and folders; only the network is left out."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from deploy_parts import Robot, Workstation, eventually

from tether.signing.ecdsa import PrivateKey
from tether.signing.floors import Floors, floor_name


def test_deployed_version_is_complete_and_in_use(workstation: Workstation, robot: Robot, capsys) -> None:
    assert workstation.deploy(robot) == 0
    said = capsys.readouterr().out
    current = robot.place.root / "current"
    assert (current / "models/teacher/manifest.json").read_bytes() == workstation.manifest.read_bytes()
    assert (current / "models/teacher/manifest.json.sig").exists()
    assert (current / "config/safety.yaml").exists()
    assert f"in use: {robot.current}" in said
    assert not (robot.place.root / "incoming").exists()
    assert robot.place.unfinished() is None


def test_same_content_is_not_sent_again(workstation: Workstation, robot: Robot, capsys) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    assert workstation.deploy(robot) == 0
    assert "was there" in capsys.readouterr().out
    assert robot.current == first
    assert robot.place.versions() == [first]


def test_dry_run_names_every_change_and_makes_none(workstation: Workstation, robot: Robot, capsys) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    workstation.release(2, "more demonstrations")
    (workstation.folder / "config" / "fastdds.xml").unlink()
    capsys.readouterr()
    assert workstation.deploy(robot, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "~ models/teacher/manifest.json" in said
    assert "- config/fastdds.xml" in said
    assert "safety.yaml" not in said
    assert robot.current == first
    assert robot.place.versions() == [first]


def test_rollback_puts_the_version_before_in_use_and_again_the_newer(workstation: Workstation, robot: Robot) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    workstation.release(2, "newer")
    assert workstation.deploy(robot) == 0
    second = robot.current
    assert second not in (None, first)
    assert workstation.deploy(robot, "--rollback") == 0
    assert robot.current == first
    assert workstation.deploy(robot, "--rollback") == 0
    assert robot.current == second


def test_rollback_to_what_the_robots_floors_forbid_is_refused_by_name(
    workstation: Workstation, robot: Robot, capsys
) -> None:
    assert workstation.deploy(robot) == 0
    workstation.release(2, "newer")
    assert workstation.deploy(robot) == 0
    second = robot.current
    with Floors(robot.folder / "state" / "versions") as floors:  # what the graph does when it loads version 2
        floors.raise_to(floor_name(workstation.key.public.id, "model", "teacher"), 2)
    assert workstation.deploy(robot, "--rollback") == 1
    assert "rolled_back" in capsys.readouterr().err
    assert robot.current == second


def test_rollback_without_a_version_before_is_refused(workstation: Workstation, robot: Robot, capsys) -> None:
    assert workstation.deploy(robot, "--rollback") == 1
    assert "no_such_version" in capsys.readouterr().err


def test_trying_a_version_raises_no_floor(workstation: Workstation, robot: Robot) -> None:
    assert workstation.deploy(robot) == 0
    with Floors(robot.folder / "state" / "versions") as floors:
        assert floors.of(floor_name(workstation.key.public.id, "model", "teacher")) == 0


@pytest.mark.parametrize("case", ["unsigned", "development_key", "unknown_key", "changed"])
def test_what_a_physical_robot_refuses_never_leaves_the_workstation(
    case: str, workstation: Workstation, robot: Robot, capsys
) -> None:
    from tether.signing.trust import Purpose, install_key

    if case == "unsigned":
        workstation.manifest.with_name("manifest.json.sig").unlink()
    elif case == "changed":
        workstation.manifest.write_text(workstation.manifest.read_text() + "\n")
    else:
        other = PrivateKey.generate()
        if case == "development_key":
            install_key(other.public, Purpose.DEVELOPMENT)
        workstation.sign(1, other)
    assert workstation.deploy(robot) == 1
    said = capsys.readouterr().err
    assert "deploy: refused" in said
    assert case in said
    assert not robot.place.root.exists()


def test_key_that_only_the_workstation_trusts_is_refused_by_the_robot(
    workstation: Workstation, robot: Robot, capsys
) -> None:
    from tether.signing.trust import Purpose, install_key

    other = PrivateKey.generate()
    install_key(other.public, Purpose.ROBOT)
    workstation.sign(1, other)
    assert workstation.deploy(robot) == 1
    assert "unknown_key" in capsys.readouterr().err
    assert robot.current is None
    assert robot.place.versions() == []
    assert not (robot.place.root / "incoming").exists()


def test_configuration_that_does_not_load_is_never_put_in_use(workstation: Workstation, robot: Robot, capsys) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    (workstation.folder / "config" / "safety.yaml").write_text("no_such_key: 1\n")
    assert workstation.deploy(robot) == 1
    said = capsys.readouterr().err
    assert "deploy: unhealthy" in said
    assert "no_such_key" in said
    assert robot.current == first


def test_model_whose_file_is_another_is_never_put_in_use(workstation: Workstation, robot: Robot, capsys) -> None:
    model = workstation.manifest.with_name("teacher.onnx")
    model.write_bytes(model.read_bytes()[:-1])
    assert workstation.deploy(robot) == 1
    assert "model teacher" in capsys.readouterr().err
    assert robot.current is None


def test_unhealthy_version_is_taken_back_and_the_one_before_restarted(
    workstation: Workstation, robot: Robot, capsys
) -> None:
    root, log = robot.place.root, robot.folder / "restarts"
    restart = robot.script("restart", f"basename \"$(readlink '{root}/current')\" >> '{log}'")
    assert workstation.deploy(robot, "--restart", restart) == 0
    first = robot.current
    workstation.release(2, "does not come up")
    ill = robot.script("health", "echo no verdict from the gate >&2; exit 3")
    assert workstation.deploy(robot, "--restart", restart, "--health", ill, "--health-timeout", "0.1") == 1
    said = capsys.readouterr().err
    assert "deploy: unhealthy" in said
    assert "no verdict from the gate" in said
    assert f"back at {first}" in said
    assert robot.current == first
    restarted = log.read_text().split()
    assert restarted[0] == restarted[2] == first
    assert restarted[1] not in (first, None)


def test_robot_that_comes_up_slowly_is_waited_for(workstation: Workstation, robot: Robot) -> None:
    tries = robot.folder / "tries"
    slow = robot.script("health", f"echo >> '{tries}'; test $(wc -l < '{tries}') -ge 3")
    assert workstation.deploy(robot, "--health", slow, "--health-timeout", "60") == 0
    assert robot.current is not None


def test_power_cut_in_a_trial_leads_back_to_the_version_before_at_the_next_start(
    workstation: Workstation, robot: Robot
) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    workstation.release(2, "the power fails while it is tried")
    # The health check kills the agent that asks for it, as a power cut would, after the new version is in use.
    cut = robot.script("health", "kill -KILL $PPID; sleep 1")
    assert workstation.deploy(robot, "--health", cut) == 1
    assert robot.current not in (None, first)
    assert robot.agent("settle") == {"ok": True, "undone": True}
    assert robot.current == first
    assert robot.agent("settle") == {"ok": True, "undone": False}


def test_service_that_starts_during_a_trial_does_not_undo_it(workstation: Workstation, robot: Robot) -> None:
    answer = robot.folder / "answer"
    settle = f"'{robot.folder}/tether' deploy --agent settle --to '{robot.place.root}' > '{answer}'"
    assert workstation.deploy(robot, "--restart", robot.script("restart", settle)) == 0
    assert json.loads(answer.read_text()) == {"ok": True, "undone": False}
    assert robot.current is not None


def test_lost_connection_in_a_trial_does_not_keep_the_robot_from_going_back(
    workstation: Workstation, robot: Robot, tmp_path: Path
) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    workstation.release(2, "the connection is lost while it is tried")
    begun, go = robot.folder / "begun", robot.folder / "go"
    ill = robot.script("restart", f"touch '{begun}'; while [ ! -e '{go}' ]; do sleep 0.1; done; exit 1")
    # A way that is cut once the restart has begun: the agent gets SIGHUP and its pipes are gone.
    cut = robot.script(
        "cut",
        'for last in "$@"; do :; done\nsetsid sh -c "$last" & agent=$!\n'
        'case "$last" in *activate*)\n'
        f"while [ ! -e '{begun}' ]; do sleep 0.1; done; kill -HUP $agent; exit 255;; esac\n"
        "wait $agent",
    )
    # A shell gives what it starts in the background no standard input: what is to be sent is there already.
    assert workstation.deploy(robot, "--health", "false", "--health-timeout", "0.1") == 1
    assert workstation.deploy(robot, "--restart", ill, ssh=cut) == 1
    assert robot.current not in (None, first)
    go.touch()
    eventually(lambda: robot.current == first, "the robot went back by itself")
    eventually(lambda: robot.place.unfinished() is None, "the trial was ended")


def test_second_deployment_at_the_same_time_is_refused(workstation: Workstation, robot: Robot, capsys) -> None:
    with robot.place.locked():
        assert workstation.deploy(robot) == 1
    assert "deploy: busy" in capsys.readouterr().err


def test_old_versions_are_removed_but_never_the_one_to_go_back_to(workstation: Workstation, robot: Robot) -> None:
    seen = []
    for number in range(1, 4):
        workstation.release(number, f"version {number}")
        assert workstation.deploy(robot, "--keep", "2") == 0
        seen.append(robot.current)
    assert set(robot.place.versions()) == set(seen[1:])
    assert robot.place.linked("previous") == seen[1]


def test_version_that_was_changed_on_the_robot_is_not_put_in_use(
    workstation: Workstation, robot: Robot, capsys
) -> None:
    assert workstation.deploy(robot) == 0
    workstation.release(2, "newer")
    assert workstation.deploy(robot) == 0
    second, first = robot.current, robot.place.linked("previous")
    assert first is not None
    safety = robot.place.folder(first) / "config" / "safety.yaml"
    safety.write_text(safety.read_text() + "\n")
    assert workstation.deploy(robot, "--rollback") == 1
    assert "deploy: damaged" in capsys.readouterr().err
    assert robot.current == second


def test_robot_without_tether_is_named(workstation: Workstation, robot: Robot, capsys) -> None:
    (robot.folder / "tether").unlink()
    assert workstation.deploy(robot) == 1
    assert "deploy: no_tether" in capsys.readouterr().err


def test_agent_ended_by_the_operator_leaves_what_was(workstation: Workstation, robot: Robot) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    command = [str(robot.folder / "tether"), "deploy", "--agent", "receive", "--to", str(robot.place.root)]
    process = subprocess.Popen([*command, "--version-id", "0" * 16], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    eventually((robot.place.root / "incoming").is_dir, "the transfer began")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=30)
    assert robot.current == first
    assert workstation.deploy(robot) == 0
    assert not (robot.place.root / "incoming").exists()
