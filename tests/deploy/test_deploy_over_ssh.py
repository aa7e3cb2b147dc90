"""Deployments through a real sshd, and what happens when the way there is barred or breaks."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

from deploy_parts import Robot, Sshd, Workstation, eventually


def test_deployment_and_rollback_through_sshd(workstation: Workstation, robot: Robot, sshd: Sshd) -> None:
    assert workstation.deploy(robot, ssh=sshd.command(), to=sshd.destination) == 0
    first = robot.current
    assert first is not None
    workstation.release(2, "newer")
    assert workstation.deploy(robot, ssh=sshd.command(), to=sshd.destination) == 0
    assert robot.current not in (None, first)
    assert workstation.deploy(robot, "--rollback", ssh=sshd.command(), to=sshd.destination) == 0
    assert robot.current == first


def test_host_key_that_is_not_known_is_refused(workstation: Workstation, robot: Robot, sshd: Sshd, capsys) -> None:
    (sshd.folder / "nobody").touch()
    assert workstation.deploy(robot, ssh=sshd.command(known="nobody"), to=sshd.destination) == 1
    assert "deploy: host_key" in capsys.readouterr().err
    assert robot.current is None


def test_login_that_is_not_permitted_is_named(workstation: Workstation, robot: Robot, sshd: Sshd, capsys) -> None:
    key = sshd.folder / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True, timeout=30)
    assert workstation.deploy(robot, ssh=sshd.command(key="stranger"), to=sshd.destination) == 1
    assert "deploy: not_permitted" in capsys.readouterr().err


def test_robot_that_does_not_answer_is_named(workstation: Workstation, robot: Robot, sshd: Sshd, capsys) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert workstation.deploy(robot, ssh=sshd.command(port=port), to=sshd.destination) == 1
    assert "deploy: unreachable" in capsys.readouterr().err


def test_tether_that_is_not_there_is_named(workstation: Workstation, robot: Robot, sshd: Sshd, capsys) -> None:
    (robot.folder / "tether").unlink()
    assert workstation.deploy(robot, ssh=sshd.command(), to=sshd.destination) == 1
    assert "deploy: no_tether" in capsys.readouterr().err


def cut_after(folder: Path, sshd: Sshd, step: str, condition: str) -> str:
    """An ssh that is killed in the middle of a step: once `condition`, an expression over `sent` bytes, holds."""
    path = folder / "cut_ssh.py"
    path.write_text(
        textwrap.dedent(f"""
        import os, subprocess, sys, time
        ssh = subprocess.Popen([*{shlex.split(sshd.command())!r}, *sys.argv[1:]], stdin=subprocess.PIPE)
        cut = "--agent {step}" in sys.argv[-1]
        sent = 0
        while data := os.read(0, 4096):
            ssh.stdin.write(data)
            ssh.stdin.flush()
            sent += len(data)
            if cut and {condition}:
                break
        while cut and not {condition}:
            time.sleep(0.05)
        if cut:
            ssh.kill()
            ssh.wait()
            sys.exit(255)
        ssh.stdin.close()
        sys.exit(ssh.wait())
        """)
    )
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(path))}"


def test_transfer_that_is_cut_half_way_leaves_what_was_and_can_be_repeated(
    workstation: Workstation, robot: Robot, sshd: Sshd, capsys
) -> None:
    assert workstation.deploy(robot, ssh=sshd.command(), to=sshd.destination) == 0
    first = robot.current
    workstation.release(2, "cut half way")
    cut = cut_after(robot.folder, sshd, "receive", "sent > 60_000")
    assert workstation.deploy(robot, ssh=cut, to=sshd.destination) == 1
    assert "deploy: interrupted" in capsys.readouterr().err
    assert robot.current == first
    assert robot.place.versions() == [first]
    eventually(lambda: not (robot.place.root / "incoming").exists(), "the robot removed what had arrived")
    assert workstation.deploy(robot, ssh=sshd.command(), to=sshd.destination) == 0
    assert robot.current not in (None, first)


def test_connection_lost_during_the_restart_ends_in_a_healthy_version(
    workstation: Workstation, robot: Robot, sshd: Sshd, capsys
) -> None:
    assert workstation.deploy(robot, ssh=sshd.command(), to=sshd.destination) == 0
    first = robot.current
    workstation.release(2, "does not come up")
    begun, go = robot.folder / "begun", robot.folder / "go"
    ill = robot.script("restart", f"touch '{begun}'; while [ ! -e '{go}' ]; do sleep 0.1; done; exit 1")
    cut = cut_after(robot.folder, sshd, "activate", f"os.path.exists({str(begun)!r})")
    assert workstation.deploy(robot, "--restart", ill, ssh=cut, to=sshd.destination) == 1
    assert "deploy: interrupted" in capsys.readouterr().err
    assert robot.current not in (None, first)
    go.touch()
    eventually(lambda: robot.current == first, "the robot went back by itself")
    eventually(lambda: robot.place.unfinished() is None, "the trial was ended")
