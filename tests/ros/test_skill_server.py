"""ExecuteSkill over DDS: refused, done, cancelled, called twice; the simulated robot behind it is the real one."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="needs rclpy (make setup)")
pytest.importorskip("tether_msgs", reason="needs the built tether_msgs (make setup)")
pytest.importorskip("tether_agent", reason="node packages are linked by make setup")
pytestmark = [pytest.mark.ros, pytest.mark.timeout(600)]

WAIT_S = 60.0


@pytest.fixture
def caller(domain: int) -> Iterator[Any]:
    import rclpy
    from skill_caller import SkillCaller
    from tether_agent.skill_server import ACTION, SkillServer, spin

    from tether.agent.domain import load_domain
    from tether.agent.services import SimulatedAgent

    rclpy.init()
    agent = SimulatedAgent(load_domain(), policy="classic")
    server = SkillServer(agent)
    over = threading.Event()
    thread = threading.Thread(target=spin, args=(server, over), daemon=True)
    thread.start()
    try:
        with SkillCaller(domain, ACTION) as caller:
            yield caller
    finally:
        over.set()
        thread.join(WAIT_S)
        server.destroy_node()
        agent.close()
        rclpy.try_shutdown()


def test_skills_are_refused_done_cancelled_and_never_done_twice(caller: Any) -> None:
    from action_msgs.msg import GoalStatus
    from graph_tools import wait_for

    from tether_msgs.action import ExecuteSkill

    def result(call_id: str, skill: str, **parameters: float) -> Any:
        return caller.result(caller.send(call_id, skill, **parameters)).result

    refused = result("a", "carry")
    assert refused.outcome == ExecuteSkill.Result.REFUSED
    assert "holding (found False" in refused.message
    assert result("b", "dance").outcome == ExecuteSkill.Result.REFUSED
    assert "within" in result("c", "carry", x=9.0).message

    assert result("d", "find").outcome == ExecuteSkill.Result.SUCCEEDED
    wait_for("feedback, which has a topic of its own and may come after the result", lambda: caller.feedback)
    assert {message.feedback.step for message in caller.feedback} == {"find"}
    said = len(caller.feedback)
    assert result("d", "find").outcome == ExecuteSkill.Result.SUCCEEDED
    assert len(caller.feedback) == said, "the second goal with the same call_id ran nothing"

    handle = caller.send("e", "fetch")
    caller.cancel(handle)
    ended = caller.result(handle)
    assert ended.status == GoalStatus.STATUS_CANCELED
    assert ended.result.outcome == ExecuteSkill.Result.CANCELLED


def test_an_answer_that_comes_before_its_request_is_registered_is_not_lost(
    caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rclpy.action import client
    from rclpy.task import Future

    from tether_msgs.action import ExecuteSkill

    def future_that_comes_late() -> Future:
        time.sleep(0.5)  # the request has gone out by now, and its answer comes
        return Future()

    monkeypatch.setattr(client, "Future", future_that_comes_late)
    refused = caller.result(caller.send("a", "carry"))
    assert refused.result.outcome == ExecuteSkill.Result.REFUSED
