"""The gate's node: commands pass only on ground that somebody vouches for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tether.contracts import Mode
from tether.safety.token import TokenSigner, key_file

pytestmark = pytest.mark.ros
rclpy = pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("tether_msgs.msg", reason="tether_msgs is not built; `make setup` builds it")
Arm = pytest.importorskip("tether_msgs.srv").Arm
gate = pytest.importorskip("tether_safety.safety_supervisor", reason="the nodes are not installed")
SUCCESS = rclpy.lifecycle.TransitionCallbackReturn.SUCCESS


class Gate:
    """The node, its verdicts and events; ticked by hand."""

    def __init__(self, domain: int, folder: Path, *words: str) -> None:
        arguments = ["wait_for_match:=false", "policy:=scripted", f"dumps:={folder / 'dumps'}", *words]
        ros = [word for argument in arguments for word in ("-p", argument)]
        rclpy.init(args=["--ros-args", *ros], domain_id=domain)
        self.node = gate.SafetySupervisorNode()
        self.verdicts: list[Any] = []
        self.events: list[tuple[str, str]] = []
        self.node.event = lambda severity, kind, text, data=None: self.events.append((kind, text))
        assert self.node.trigger_configure() == SUCCESS
        assert self.node.trigger_activate() == SUCCESS
        self.node._verdict.send = self.verdicts.append

    def tick(self) -> dict[str, str]:
        """Check → reason of one tick."""
        self.node._tick_live()
        msg = self.verdicts[-1]
        return dict(zip(msg.checks, msg.reasons, strict=True))

    @property
    def stage(self) -> Any:
        return self.node._stage

    @property
    def keeper(self) -> Any:
        return self.node._vouching._keeper

    def close(self) -> None:
        self.node.trigger_deactivate()
        self.node.trigger_cleanup()
        self.node.destroy_node()
        rclpy.try_shutdown()


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TETHER_STATE", str(tmp_path / "user"))
    monkeypatch.delenv("TETHER_TRUST", raising=False)
    yield
    rclpy.try_shutdown()


def kept(tmp_path: Path) -> tuple[str, str]:
    return "keep_state:=true", f"state_folder:={tmp_path / 'state'}"


def test_a_simulation_keeps_no_state_unless_asked(tmp_path: Path, domain: int) -> None:
    running = Gate(domain, tmp_path)
    assert running.keeper is None
    assert "state_integrity" not in running.tick()
    running.close()


def test_the_gates_mode_is_kept_and_a_latched_stop_survives_its_process(tmp_path: Path, domain: int) -> None:
    running = Gate(domain, tmp_path, *kept(tmp_path))
    running.stage.supervisor.emergency_stop("somebody pressed it")
    running.tick()
    running.keeper.settle(30.0)
    assert running.keeper.snapshot.values["mode"] == b"STOP"
    running.close()
    again = Gate(domain, tmp_path, *kept(tmp_path))
    assert again.stage.supervisor.mode is Mode.STOP
    again.stage.supervisor.reset_stop("the cause is gone")
    again.tick()
    again.close()
    third = Gate(domain, tmp_path, *kept(tmp_path))
    assert third.stage.supervisor.mode is Mode.INIT
    third.close()


def test_state_that_may_be_old_stops_commands_until_a_person_arms_the_gate(tmp_path: Path, domain: int) -> None:
    Gate(domain, tmp_path, *kept(tmp_path)).close()
    (tmp_path / "state" / "anchor").unlink()
    running = Gate(domain, tmp_path, *kept(tmp_path))
    assert "anchor_missing" in running.tick()["state_integrity"]
    assert [kind for kind, _ in running.events] == ["state_integrity"]
    fields = {"reason": "looked at it"}
    running.node._guarding._arm(Arm.Request(**fields, token=TokenSigner(key_file()).token("arm", fields)))
    running.keeper.settle(30.0)
    assert "state_integrity" not in running.tick()
    running.close()


def test_state_that_another_graph_uses_refuses_the_configuration(
    tmp_path: Path, domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tether.integrity.store._LOCK_WAIT_S", 0.05)
    running = Gate(domain, tmp_path, *kept(tmp_path))
    second = gate.SafetySupervisorNode()
    assert second.trigger_configure() != SUCCESS
    second.destroy_node()
    running.close()


def test_a_model_that_nobody_signed_stops_commands_where_signatures_are_asked_for(
    tmp_path: Path, domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("fusion", "policy", "eyes"):
        (tmp_path / "student" / part).mkdir(parents=True)
        (tmp_path / "student" / part / "manifest.json").write_text("{}")
    policy = f"policy:=student@{tmp_path / 'student'}"
    monkeypatch.setenv("TETHER_TRUST", "signed")
    monkeypatch.setattr("tether.assembly.policy_kit", lambda name: type("Kit", (), {"pictures": True})())
    running = Gate(domain, tmp_path, policy)
    assert "unsigned" in running.tick()["model_signature"]
    running.close()


def test_a_trust_that_is_none_refuses_the_configuration(
    tmp_path: Path, domain: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TETHER_TRUST", "anny")
    with pytest.raises(AssertionError):
        Gate(domain, tmp_path)
