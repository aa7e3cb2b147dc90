"""The revocation list travels with a deployment: what is revoked here is refused there, and stays so."""

from __future__ import annotations

import hashlib
import json

from deploy_parts import Robot, Workstation

from tether.cli import main
from tether.signing.ecdsa import PrivateKey
from tether.signing.revocations import Revocations, revocations_path, write_revocations
from tether.signing.trust import Purpose, install_key


def revoke_what_lies_here(workstation: Workstation) -> None:
    """As `tether sign --key robot.key --revoke SHA256`."""
    key = workstation.folder / "robot.key"
    if not key.exists():
        workstation.key.save(key)
    sha256 = hashlib.sha256(workstation.manifest.read_bytes()).hexdigest()
    assert main(["sign", "--key", str(key), "--revoke", sha256, "--reason", "drops cubes"]) == 0


def list_on(robot: Robot) -> int | None:
    """Number of the list that holds there; None where there is none."""
    path = revocations_path(robot.folder / "state")
    return json.loads(json.loads(path.read_text())["list"])["sequence"] if path.exists() else None


def test_robot_learns_by_a_deployment_what_is_revoked_and_never_goes_back_to_it(
    workstation: Workstation, robot: Robot, capsys
) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    assert list_on(robot) is None
    revoke_what_lies_here(workstation)
    workstation.release(2, "no longer drops cubes")
    capsys.readouterr()
    assert workstation.deploy(robot) == 0
    assert "revocation list 1 was newer" in capsys.readouterr().out
    second = robot.current
    assert second not in (None, first)
    assert list_on(robot) == 1
    assert workstation.deploy(robot, "--rollback") == 1
    assert "revoked: drops cubes" in capsys.readouterr().err
    assert (robot.current, list_on(robot)) == (second, 1)


def test_list_stays_where_the_version_that_brought_it_is_taken_back(workstation: Workstation, robot: Robot) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    workstation.release(2, "never deployed")
    revoke_what_lies_here(workstation)
    workstation.release(3, "does not come up")
    ill = robot.script("health", "exit 3")
    assert workstation.deploy(robot, "--health", ill, "--health-timeout", "0.1") == 1
    assert (robot.current, list_on(robot)) == (first, 1)


def test_going_back_to_a_version_with_an_older_list_keeps_the_newer(workstation: Workstation, robot: Robot) -> None:
    for number in (2, 4):
        workstation.release(number, f"never deployed {number}")
        revoke_what_lies_here(workstation)
        workstation.release(number + 1, f"deployed {number}")
        assert workstation.deploy(robot) == 0
    assert list_on(robot) == 2
    assert workstation.deploy(robot, "--rollback") == 0
    assert list_on(robot) == 2


def test_list_alone_is_sent_where_nothing_else_changed(workstation: Workstation, robot: Robot, capsys) -> None:
    assert workstation.deploy(robot) == 0
    shipped = workstation.manifest.read_bytes()
    workstation.release(2, "never deployed")
    revoke_what_lies_here(workstation)
    workstation.manifest.write_bytes(shipped)
    workstation.sign(1)
    capsys.readouterr()
    assert workstation.deploy(robot, "--dry-run") == 0
    assert "+ signing/revocations.json" in capsys.readouterr().out
    assert list_on(robot) is None
    assert workstation.deploy(robot) == 0
    assert list_on(robot) == 1


def test_list_that_the_robot_would_not_take_is_refused_with_all_that_came_with_it(
    workstation: Workstation, robot: Robot, capsys
) -> None:
    assert workstation.deploy(robot) == 0
    first = robot.current
    stranger = PrivateKey.generate()
    install_key(stranger.public, Purpose.ROBOT)  # here, not there
    write_revocations(revocations_path(), Revocations(1, {"0" * 64: "made up"}), stranger)
    workstation.release(2, "newer")
    assert workstation.deploy(robot) == 1
    said = capsys.readouterr().err
    assert "deploy: refused" in said
    assert f"a list signed by {stranger.public.id}" in said
    assert (robot.current, list_on(robot)) == (first, None)
    assert robot.place.versions() == [first]
