"""The gate's node in real time against what lies: clocks, floods, rewards, callers; and the beat of a process."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions
from tether_ros import qos
from tether_ros.beats import Beats
from tether_ros.executor import DrainingExecutor
from tether_safety.safety_supervisor import SafetySupervisorNode

from tether import topics
from tether.assembly import skill_of_task
from tether.codec import convert, decode, encode, message, sensors
from tether.codec.convert.guarding import heartbeat_message
from tether.codec.convert.reward import reward_fields
from tether.contracts import (
    Command,
    EpisodeSpec,
    ImuBatch,
    ImuSample,
    JointSample,
    Mode,
    SampleRef,
    Source,
    Stream,
)
from tether.resources import resource_path
from tether.robot.roles import COMMAND_JOINTS
from tether.safety.intake import Intake
from tether.safety.settings import IntakeLimits, load_safety
from tether.safety.token import RunSigner, TokenSigner, key_file, make_key, run_key_file
from tether.topics import Topic
from tether_msgs.srv import Arm, ResetStop

pytestmark = [pytest.mark.ros, pytest.mark.realtime, pytest.mark.timeout(180)]

REST = np.array([0.0, -1.0, 1.6, 0.95, 0.0, 0.02])
HOUR_NS = 3600 * 10**9
PATIENCE_S = 60.0


class Robot:
    """The gate's node, and around it somebody who plays world, sensors and policy on its own steady clock.

    The gate's ROS time is /clock, which is set here: `clock_ns` beyond the time that stamps are made by.
    """

    def __init__(self, domain: int, folder: Path) -> None:
        words = ["--ros-args", "-p", "use_sim_time:=true", "-p", "wait_for_match:=false", "-p", "policy:=scripted"]
        rclpy.init(
            args=[*words, "-p", f"dumps:={folder}"], domain_id=domain, signal_handler_options=SignalHandlerOptions.NO
        )
        self.gate = SafetySupervisorNode()
        self.other = rclpy.create_node("surroundings")
        self._executor = DrainingExecutor(lambda: None)
        for node in (self.gate, self.other):
            self._executor.add_node(node)
        assert self.gate.trigger_configure() == TransitionCallbackReturn.SUCCESS
        assert self.gate.trigger_activate() == TransitionCallbackReturn.SUCCESS
        self._publishers: dict[str, Any] = {}
        self.events: list[Any] = []
        self._listen(topics.EVENTS, self.events.append)
        self.verdicts: list[Any] = []
        self._listen(topics.VERDICT, self.verdicts.append)
        self.clock_ns = 0
        self.clock_runs = True
        self._clock_at_ns = 0
        self.signer = RunSigner(run_key_file())
        self.count = 0
        self.feeds = True
        self._fed_s = 0.0

    def close(self) -> None:
        self._executor.shutdown(timeout_sec=1.0)
        self.gate.destroy_node()
        self.other.destroy_node()
        rclpy.try_shutdown()

    def publish(self, topic: Topic, msg: Any) -> None:
        if topic.name not in self._publishers:
            kind = qos.message_class(topic)
            self._publishers[topic.name] = self.other.create_publisher(kind, topic.name, qos.publisher_qos(topic))
        self._publishers[topic.name].publish(encode(msg))

    def until(self, what: str, is_so: Callable[[], Any], each: Callable[[], None] = lambda: None) -> None:
        """Let time pass, feeding the gate every 10 ms, until something is so."""

        end_s = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < end_s, f"{what}: not within {PATIENCE_S:g} s"
            self.step(each)

    def step(self, each: Callable[[], None] = lambda: None) -> None:
        now_s = time.monotonic()
        if self.feeds and now_s - self._fed_s >= 0.01:
            self._fed_s = now_s
            self._feed()
            each()
        self._executor.spin_once(timeout_sec=0.002)

    def run(self, seconds: float, each: Callable[[], None] = lambda: None) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.step(each)

    @property
    def mode(self) -> Mode:
        return self.gate._stage.supervisor.mode

    def kinds(self) -> set[str]:
        return {event.kind for event in self.events}

    def begin(self) -> None:
        """An episode, and the gate active in it."""
        spec, skill = EpisodeSpec("pick", "real", 0), skill_of_task("pick")
        start = convert.episode_start_message(0, self.stamp_ns(), spec, "scripted", True, skill)
        self.publish(topics.EPISODE_START, start)
        self.until("an active gate", lambda: self.mode is Mode.ACTIVE)

    def stamp_ns(self) -> int:
        return time.monotonic_ns() + 10 * HOUR_NS

    def _feed(self) -> None:
        self.count += 1
        stamp_ns = self.stamp_ns()
        if self.clock_runs:
            self._clock_at_ns = stamp_ns + self.clock_ns
        self.publish(topics.CLOCK, sensors.clock_message(self._clock_at_ns))
        zero, level = np.zeros(3), np.array([0.0, 0.0, 9.81])
        ref = SampleRef(Stream.JOINTS, stamp_ns, self.count)
        joints = JointSample(ref, COMMAND_JOINTS, REST, np.zeros(6))
        self.publish(topics.JOINT_STATES, sensors.joint_state_message(joints))
        imu = ImuSample(SampleRef(Stream.IMU, stamp_ns, self.count), zero, level)
        batch = ImuBatch(0, self.count, stamp_ns, (imu,))
        self.publish(topics.IMU_BATCH, convert.imu_batch_message(batch))
        self.propose()

    def propose(self) -> None:
        stamp_ns = self.stamp_ns()
        twist = np.array([0.1, 0.0, 0.0])
        command = Command(self.count, stamp_ns, 1, Source.CLASSIC, COMMAND_JOINTS, REST, np.zeros(6), twist)
        self.publish(topics.PROPOSED, convert.proposed_message(command, 0, self.count, stamp_ns, (), 0))

    def pay(self, subgoal: str, value: float, task_return: float) -> Any:
        """As the reward server does; what was sent."""
        reward = self.claim(subgoal, value, task_return)
        reward = dataclasses.replace(reward, token=self.signer.token("reward", reward_fields(reward)))
        self.publish(topics.REWARD, reward)
        return reward

    def claim(self, subgoal: str, value: float, task_return: float, token: str = "") -> Any:
        """A reward with whatever token."""
        stamp = convert.to_time(self.stamp_ns() - 300_000_000)
        return message(topics.REWARD.type)(stamp, stamp, 0, subgoal, value, task_return, token)

    def _listen(self, topic: Topic, take: Callable[[Any], None]) -> None:
        self.other.create_subscription(
            qos.message_class(topic),
            topic.name,
            lambda raw: take(decode(raw, topic.type)),
            qos.subscriber_qos(topic, must_not_lose=True),
            raw=True,
        )


@pytest.fixture
def robot(domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Robot]:
    monkeypatch.setenv("TETHER_KEY_FILE", str(tmp_path / "keys" / "key"))
    made = Robot(domain, tmp_path / "dumps")
    try:
        made.begin()
        yield made
    finally:
        made.close()


def held(robot: Robot) -> list[str]:
    """Checks that stopped it so far, but for what a busy machine does to a test's own pace."""
    pace = {"command_age", "sensor_silence", "stamp_age", "tick_gap", "early_tick", "mode", "anchor"}
    pairs = [pair for v in robot.verdicts for pair in zip(v.checks, v.scales, strict=True)]
    return sorted({check for check, scale in pairs if scale == 0.0} - pace)


@pytest.mark.parametrize("step_ns", [-HOUR_NS, HOUR_NS])
def test_clock_that_is_rewound_or_set_ahead_by_an_hour_changes_nothing(robot: Robot, step_ns: int) -> None:
    robot.clock_ns = step_ns
    robot.run(1.0)
    robot.until("active in spite of the clock", lambda: robot.mode is Mode.ACTIVE)
    commands = sum(v.mode == Mode.ACTIVE for v in robot.verdicts[-50:])
    assert commands > 0 and not held(robot)


def test_clock_that_stands_still_changes_nothing_and_deadlines_hold(robot: Robot) -> None:
    robot.clock_runs = False
    robot.run(1.5)
    robot.until("active in spite of the clock", lambda: robot.mode is Mode.ACTIVE)
    assert not held(robot)
    robot.feeds = False
    robot.until("a stop", lambda: robot.mode is Mode.ARMED)


def test_flood_of_commands_is_not_looked_at_and_named_and_the_gate_goes_on_ticking(robot: Robot) -> None:
    # A bucket that this machine can fill however busy it is: one wait hands over up to 100 messages at once.
    robot.gate._stage.guards.intake = Intake(IntakeLimits(rate_hz=150, burst=50, size_max_kib=256))
    before = len(robot.verdicts)

    def flood() -> None:
        for _ in range(150):
            robot.propose()

    robot.until("a flood that is named", lambda: "flood" in robot.kinds(), flood)
    assert robot.gate._stage.guards.intake.dropped[topics.PROPOSED.name] > 0
    assert len(robot.verdicts) > before
    robot.until("active once it is over", lambda: robot.mode is Mode.ACTIVE)


def test_forged_reward_leads_to_safe_mode_an_alert_and_a_dump_and_arming_leads_back(
    robot: Robot, tmp_path: Path
) -> None:
    robot.pay("aligned", 0.1, 0.1)
    robot.run(0.3)
    assert robot.mode is not Mode.SAFE
    robot.pay("touched", 1.0, 1.1)
    robot.until("safe mode", lambda: robot.mode is Mode.SAFE)
    robot.until("the alert and the dump", lambda: {"reward_breaker", "reward_breaker_dump"} <= robot.kinds())
    (path,) = (tmp_path / "dumps").iterdir()
    state = json.loads(path.read_text())
    assert state["trip"]["cause"] == "wrong_value" and state["open"][0]["paid"].keys() == {"aligned"}
    robot.gate._stage.arm("the server was looked at")
    robot.until("active again", lambda: robot.mode is Mode.ACTIVE)


def test_frozen_loop_whose_process_still_beats_holds_the_robot(robot: Robot) -> None:
    turns = [0]

    def beat() -> None:
        msg = heartbeat_message("composed", 7, ("opd_bridge", "fusion"), (turns[0], robot.count), time.monotonic_ns())
        robot.publish(topics.HEARTBEAT, msg)

    def healthy() -> None:
        turns[0] += 1
        beat()

    robot.run(0.5, healthy)
    robot.until("named", lambda: "loop_offline" in robot.kinds(), beat)
    event = next(event for event in robot.events if event.kind == "loop_offline")
    assert "opd_bridge" in event.text
    robot.until("held", lambda: robot.mode is Mode.ARMED, beat)
    robot.until("active again", lambda: robot.mode is Mode.ACTIVE, healthy)


@pytest.mark.parametrize("token", ["absent", "forged", "of another key", "of another reward", "replayed"])
def test_reward_that_is_not_the_servers_own_is_not_taken_and_leads_to_safe_mode(
    robot: Robot, tmp_path: Path, token: str
) -> None:
    paid = robot.pay("aligned", 0.1, 0.1)
    robot.run(0.3)
    assert robot.mode is not Mode.SAFE
    claim = robot.claim("touched", 0.2, 0.3)
    make_key(tmp_path / "other")
    claim = {
        "absent": claim,
        "forged": dataclasses.replace(claim, token=f"1:{time.monotonic_ns()}:{'0' * 64}"),
        "of another key": dataclasses.replace(
            claim, token=RunSigner(tmp_path / "other").token("reward", reward_fields(claim))
        ),
        "of another reward": dataclasses.replace(claim, token=robot.signer.token("reward", reward_fields(paid))),
        "replayed": paid,
    }[token]
    robot.publish(topics.REWARD, claim)
    robot.until("safe mode", lambda: robot.mode is Mode.SAFE)
    robot.until("the alert", lambda: "reward_breaker" in robot.kinds())
    (alert,) = [event for event in robot.events if event.kind == "reward_breaker"]
    assert "sender" in alert.text and "token" in alert.text
    assert robot.gate._stage.guards.breaker is not None
    assert list(robot.gate._stage.guards.breaker.state()["open"][0]["paid"]) == ["aligned"]


def test_key_of_a_run_is_its_owners_alone_and_made_anew_with_the_gate(robot: Robot) -> None:
    before = run_key_file().read_text()
    assert run_key_file().stat().st_mode & 0o777 == 0o600
    assert robot.gate.trigger_deactivate() == robot.gate.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
    assert robot.gate.trigger_configure() == robot.gate.trigger_activate() == TransitionCallbackReturn.SUCCESS
    assert run_key_file().read_text() != before
    robot.begin()
    robot.pay("aligned", 0.1, 0.1)
    robot.run(0.5)
    assert robot.mode is not Mode.SAFE, "the server goes by the key that is there now"


def call(robot: Robot, reason: str, token: str, kind: Any = ResetStop, name: str = "reset_stop") -> Any:
    client = robot.other.create_client(kind, f"/safety_supervisor/{name}")
    assert client.wait_for_service(PATIENCE_S)
    future = client.call_async(kind.Request(reason=reason, token=token))
    robot.until("an answer", future.done)
    robot.other.destroy_client(client)
    return future.result()


def test_reset_of_a_latched_stop_takes_a_token_for_this_very_call(robot: Robot) -> None:
    robot.gate._stage.supervisor.emergency_stop("test")
    robot.run(1.0)
    signer = TokenSigner(key_file())
    assert key_file().stat().st_mode & 0o777 == 0o600
    good = signer.token("reset_stop", {"reason": "looked at it"})
    for reason, token in (("looked at it", ""), ("looked at it", "1:1:00"), ("another", good)):
        answer = call(robot, reason, token)
        assert not answer.accepted and "token" in answer.message
        assert robot.mode is Mode.STOP
    assert call(robot, "looked at it", good).accepted
    assert robot.mode is Mode.INIT
    robot.gate._stage.supervisor.emergency_stop("again")
    robot.run(1.0)
    assert not call(robot, "looked at it", good).accepted, "a token is good once"


def test_arming_takes_a_token_for_this_very_call_and_the_key_of_a_run_is_none(robot: Robot) -> None:
    robot.publish(topics.REWARD, robot.claim("kept", 10.0, 10.0))
    robot.until("safe mode", lambda: robot.mode is Mode.SAFE)
    signer, fields = TokenSigner(key_file()), {"reason": "looked at it"}
    good = signer.token("arm", fields)
    wrong = ("", "1:1:00", signer.token("reset_stop", fields), robot.signer.token("arm", fields))
    for token in wrong:
        answer = call(robot, "looked at it", token, Arm, "arm")
        assert not answer.accepted and "token" in answer.message
    robot.run(0.3)
    assert robot.mode is Mode.SAFE
    assert call(robot, "looked at it", good, Arm, "arm").accepted
    robot.until("active again", lambda: robot.mode is Mode.ACTIVE)
    assert not call(robot, "looked at it", good, Arm, "arm").accepted, "a token is good once"


def test_process_beats_for_its_loops_from_their_turns_and_not_while_it_is_stuck(robot: Robot) -> None:
    heard: list[Any] = []
    robot._listen(topics.HEARTBEAT, heard.append)
    rules = load_safety(resource_path("config", "safety.yaml")).heartbeats
    robot.gate.beats = Beats(robot.gate, "safety_supervisor", rules)
    robot.until("two beats", lambda: len(heard) >= 2)
    beat = heard[-1]
    assert (beat.process, beat.pid, beat.loops) == ("safety_supervisor", os.getpid(), ["safety_supervisor"])
    assert beat.counts[0] > heard[0].counts[0]
    before = len(heard)
    time.sleep(1.0)
    assert len(heard) == before


def test_gate_opens_no_port_that_others_could_connect_to(robot: Robot) -> None:
    inodes = {os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()}
    listening = [
        line.split()
        for name in ("tcp", "tcp6")
        if Path(f"/proc/self/net/{name}").exists()
        for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]
    ]
    ours = [fields[1] for fields in listening if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes]
    assert not ours, f"listening TCP sockets: {ours}"


def test_gate_runs_no_models_and_no_simulator() -> None:
    code = (
        "import sys, tether_safety.safety_supervisor; "
        "print(*sorted({'torch', 'onnxruntime', 'mujoco', 'cv2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == []
