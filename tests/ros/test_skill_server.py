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
def client(domain: int) -> Iterator[Any]:
    import rclpy
    from rclpy.action import ActionClient
    from tether_agent.skill_server import ACTION, SkillServer, spin

    from tether.agent.domain import load_domain
    from tether.agent.services import SimulatedAgent
    from tether_msgs.action import ExecuteSkill

    rclpy.init()
    agent = SimulatedAgent(load_domain(), policy="classic")
    server, caller = SkillServer(agent), rclpy.create_node("caller")
    client = ActionClient(caller, ExecuteSkill, ACTION)
    over = threading.Event()
    threads = [threading.Thread(target=spin, args=(node, over), daemon=True) for node in (server, caller)]
    for thread in threads:
        thread.start()
    try:
        assert client.wait_for_server(timeout_sec=WAIT_S)
        yield client
    finally:
        over.set()
        for thread in threads:
            thread.join(WAIT_S)
        client.destroy()
        caller.destroy_node()
        server.destroy_node()
        agent.close()
        rclpy.try_shutdown()


def waited(future: Any) -> Any:
    until_s = time.monotonic() + WAIT_S
    while not future.done():
        assert time.monotonic() < until_s, "no answer"
        time.sleep(0.005)
    return future.result()


def goal(call_id: str, skill: str, **parameters: float) -> Any:
    from tether_msgs.action import ExecuteSkill

    names, values = list(parameters), [float(value) for value in parameters.values()]
    return ExecuteSkill.Goal(call_id=call_id, task_id="t", skill=skill, param_names=names, param_values=values)


def result(client: Any, request: Any, said: list[Any] | None = None) -> Any:
    handle = waited(client.send_goal_async(request, None if said is None else said.append))
    return waited(handle.get_result_async()).result


def test_skills_are_refused_done_cancelled_and_never_done_twice(client: Any) -> None:
    from action_msgs.msg import GoalStatus

    from tether_msgs.action import ExecuteSkill

    said: list[Any] = []
    said_again: list[Any] = []
    refused = result(client, goal("a", "carry"))
    assert refused.outcome == ExecuteSkill.Result.REFUSED
    assert "holding (found False" in refused.message
    assert result(client, goal("b", "dance")).outcome == ExecuteSkill.Result.REFUSED
    assert "within" in result(client, goal("c", "carry", x=9.0)).message

    assert result(client, goal("d", "find"), said).outcome == ExecuteSkill.Result.SUCCEEDED
    until_s = time.monotonic() + WAIT_S
    while not said and time.monotonic() < until_s:  # feedback is on a topic of its own, and may come after the result
        time.sleep(0.005)
    assert {message.feedback.step for message in said} == {"find"}
    assert result(client, goal("d", "find"), said_again).outcome == ExecuteSkill.Result.SUCCEEDED
    assert said_again == [], "the second goal with the same call_id ran nothing"

    handle = waited(client.send_goal_async(goal("e", "fetch")))
    waited(handle.cancel_goal_async())
    ended = waited(handle.get_result_async())
    assert ended.status == GoalStatus.STATUS_CANCELED
    assert ended.result.outcome == ExecuteSkill.Result.CANCELLED
