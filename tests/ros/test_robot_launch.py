"""launch/robot.launch.xml with emulated devices: the robot's own graph, with a MuJoCo world behind bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_tools import PATIENCE_S, Listener, assert_nothing_is_left, counts_of, shared_memory_of, wait_for

from tether import topics
from tether.contracts import EpisodeSpec
from tether.eval.journal import read_results
from tether.launch.output import Line
from tether.launch.reader import read
from tether.launch.runner import EndReason, Runner
from tether.resources import resource_path
from tether.robot.roles import COMMAND_JOINTS

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.realtime, pytest.mark.timeout(600)]

HEARD = (topics.EPISODE_START, topics.EPISODE_END, topics.EVENTS, topics.JOINT_STATES, topics.DIAGNOSTICS)


def test_the_robots_graph_runs_an_episode_on_emulated_devices_and_ends_by_itself(domain: int, tmp_path: Path) -> None:
    """Whether the cube is picked depends on how busy the machine is; tests/hardware holds that, on its own clock."""
    results, bag = tmp_path / "results.jsonl", tmp_path / "bag"
    words = {
        **{"emulate": "true", "episodes": "1", "results": str(results), "bag": str(bag), "domain": str(domain)},
        **{"devices": str(tmp_path / "devices"), "black_box": "false"},
    }
    said: list[Line] = []
    plan = read(resource_path("launch", "robot.launch.xml"), words)
    with Listener(domain, HEARD, watched=(topics.JOINT_COMMAND, topics.EXECUTED, topics.IMAGE)) as listener:
        with Runner(plan, sink=said.append) as runner:
            manager = runner.processes["lifecycle_manager"]
            wait_for(
                "the episode", lambda: listener.heard(topics.EPISODE_START) or not manager.is_alive, 2 * PATIENCE_S
            )
            memory = shared_memory_of(domain)
            outcome = runner.wait(3 * PATIENCE_S)
        text = "\n".join(str(line) for line in said)
        assert outcome.failure is None, text
        assert outcome.reason is EndReason.PROCESS_EXITED, text
        ready = [event.text for event in listener.events("servo_bus_ready")]
        assert ready and "9 servos" in ready[0]
        assert listener.events("run_complete")
        assert [h.msg.episode for h in listener.heard(topics.EPISODE_END)] == [0]
        joints = listener.heard(topics.JOINT_STATES)[-1].msg
        assert tuple(joints.name) == COMMAND_JOINTS
        status = {one.name for h in listener.heard(topics.DIAGNOSTICS) for one in h.msg.status}
        assert {"servo bus", "servo gripper", "servo wheel_left"} <= status
        assert listener.named(topics.JOINT_COMMAND) == {"safety_supervisor"}, "the gate alone commands"
        assert listener.named(topics.EXECUTED) == listener.named(topics.IMAGE) == {"driver"}, "the emulator is no world"
    assert_nothing_is_left(domain, memory)
    (result,) = read_results(results)
    assert result.spec == EpisodeSpec("pick", "real", 0)
    counts = counts_of(bag)
    recorded = (topics.IMU, topics.JOINT_STATES, topics.IMAGE, topics.DECISION, topics.JOINT_COMMAND, topics.EXECUTED)
    assert not [topic.name for topic in recorded if not counts[topic.name]]
