"""A bag through real DDS: played by the replay node, recorded by the recorder node, in two processes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from bag_making import Row, make_rows, write_mcap, write_ros1

from tether.bags import open_bag
from tether.results import header

pytestmark = pytest.mark.ros
pytest.importorskip("rclpy", reason="rclpy is not installed")
pytest.importorskip("tether_msgs.msg", reason="tether_msgs is not built; `make setup` builds it")
pytest.importorskip("tether_bringup", reason="the nodes are not installed; `make setup` does it")

RECORDER = textwrap.dedent("""
    import signal, sys
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from tether_bringup.recorder import RecorderNode
    rclpy.init(args=sys.argv, signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    stopped = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    node = RecorderNode()
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    node.trigger_configure()
    node.trigger_activate()
    print("ready", flush=True)
    while not stopped:
        executor.spin_once(timeout_sec=0.1)
    node.trigger_deactivate()
    node.trigger_cleanup()
    rclpy.shutdown()
""")
COMMAND = "import sys; from tether.cli import main; sys.exit(main(sys.argv[1:]))"
DEADLINE_S = 90.0


def through_ros(bag: Path, out: Path, domain: int, *words: str) -> None:
    environment = {**os.environ, "ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    recorder = subprocess.Popen(
        [sys.executable, "-c", RECORDER, "--ros-args", "-p", f"bag:={out}", "-p", "wait_for_match:=false"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert recorder.stdout is not None
        assert recorder.stdout.readline().strip() == "ready"
        subprocess.run(
            [sys.executable, "-c", COMMAND, "replay", str(bag), *words],
            check=True,
            timeout=DEADLINE_S,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        time.sleep(1.0)  # what was acknowledged still waits for the recorder's executor
    finally:
        recorder.send_signal(signal.SIGTERM)
        try:
            recorder.wait(timeout=30.0)
        finally:
            recorder.kill()
            if recorder.stdout is not None:
                recorder.stdout.close()


def bodies(path: Path) -> Counter[tuple[str, bytes]]:
    with open_bag(path) as bag:
        return Counter((m.topic, m.raw) for m in bag.messages() if m.topic in ("/imu/data_raw", "/joint_states"))


def test_every_message_played_at_rate_1_is_recorded_again_byte_by_byte(domain: int, tmp_path: Path) -> None:
    rows = make_rows(600)
    bag = write_mcap(tmp_path / "x.mcap", rows)
    through_ros(bag, tmp_path / "again", domain)
    assert bodies(tmp_path / "again") == Counter((row[0], row[3]) for row in rows)
    with open_bag(tmp_path / "again") as again:
        report = again.read_through()
        names = {topic.name for topic in report.topics}
    assert report.intact and {"/clock", "/events"} <= names


def test_ros1_messages_arrive_as_ros2_messages(domain: int, tmp_path: Path, rows: list[Row]) -> None:
    through_ros(write_ros1(tmp_path / "x.bag", rows), tmp_path / "again", domain)
    assert bodies(tmp_path / "again") == Counter((row[0], row[3]) for row in rows)


def test_report_of_a_play_begins_as_every_result_does(domain: int, tmp_path: Path, rows: list[Row]) -> None:
    bag, out = write_mcap(tmp_path / "x.mcap", rows), tmp_path / "report.json"
    words = ("--rate", "max", "--json", str(out))
    through_ros(bag, tmp_path / "again", domain, *words)
    report, head = json.loads(out.read_text()), header("replay", 0, " ".join(("tether", "replay", str(bag), *words)))
    assert {name: report[name] for name in head} == head
    assert (report["delivered"], report["played"]["messages"]) == (len(rows), len(rows))


def test_recorded_commands_never_leave_the_bag_unless_asked_for(domain: int, tmp_path: Path, rows: list[Row]) -> None:
    commands = [("/joint_command" if row[0] == "/joint_states" else row[0], *row[1:]) for row in rows]
    bag = write_mcap(tmp_path / "x.mcap", commands)
    through_ros(bag, tmp_path / "again", domain)
    with open_bag(tmp_path / "again") as again:
        assert "/joint_command" not in again.topics
    shutil.rmtree(tmp_path / "again")
    through_ros(bag, tmp_path / "again", domain, "--all-topics")
    with open_bag(tmp_path / "again") as again:
        assert "/joint_command" in again.topics


@pytest.mark.parametrize("ends", [os.killpg, os.kill], ids=["as-a-terminal", "the-command-alone"])
def test_interrupting_a_play_says_how_much_was_played(
    ends: Callable[[int, int], None], domain: int, tmp_path: Path
) -> None:
    bag = write_mcap(tmp_path / "x.mcap", make_rows(40))
    player = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "replay", str(bag), "--loop", "--rate", "10"],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "ROS_DOMAIN_ID": str(domain)},
    )
    try:
        assert player.stderr is not None
        said = ""
        while "clock_jump" not in said:
            line = player.stderr.readline()
            assert line, said
            said += line
        ends(player.pid, signal.SIGINT)
        said = player.stderr.read()
        assert player.wait(timeout=DEADLINE_S) == 130, said
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(player.pid, signal.SIGKILL)
    assert "Traceback" not in said and "Exception" not in said
    played = re.search(r"interrupted: played (\d+) messages", said)
    assert played and int(played[1]) >= 40, said
    assert said.rstrip().endswith("tether: interrupted")
