"""Ingest nodes against publishers that sin: each sin is refused and named, and the node works on."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
import rclpy
import tether_ros.node
from node_bench import CAMERA, HEIGHT, START_NS, WIDTH, Bench, CameraBench, picture, plain, start_message
from PIL import Image
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions
from tether_fusion.fusion import FusionNode
from tether_ingest.imu_ingest import ImuIngestNode
from tether_policy.policy import PolicyNode
from tether_ros import qos

from tether import topics
from tether.assembly import skill_of_task
from tether.codec import convert, encode, message, sensors
from tether.contracts import (
    Estimate,
    FusedState,
    ImuBatch,
    ImuSample,
    Primitive,
    SampleRef,
    Stream,
    TickPlan,
)

pytestmark = [pytest.mark.ros, pytest.mark.timeout(180)]

STEP_NS = 5_000_000


# -- IMU ------------------------------------------------------------------------------------------------------------


def imu(stamp_ns: int, number: int, gyro_z: float = 0.0) -> Any:
    """A reading of a sensor at rest whose noise never repeats."""
    noise = 1e-3 * np.random.default_rng(number).standard_normal(6)
    gyro, accel = np.add(noise[:3], (0.0, 0.0, gyro_z)), np.add(noise[3:], (0.0, 0.0, 9.81))
    sample = ImuSample(SampleRef(Stream.IMU, stamp_ns, number), gyro, accel)
    return sensors.imu_message(sample)


class ImuBench:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self._number = 0
        bench.start(ImuIngestNode, [topics.IMU_BATCH], batch_size=1, profile="real")

    def good(self, from_ns: int, count: int = 120) -> None:
        """Readings on time, until the last one comes out again; enough to prove units where they are not proven."""
        stamps = [from_ns + i * STEP_NS for i in range(count)]
        self.bench.at(stamps[-1])
        publisher = self.bench.publisher(topics.IMU)
        for stamp_ns in stamps:
            self._number += 1
            publisher.publish(encode(imu(stamp_ns, self._number)))
            self.bench.spin(0.004)
        self.bench.until("last reading comes out", lambda: stamps[-1] in self.stamps())

    def bad(self, msg: Any) -> None:
        self.bench.publish(topics.IMU, msg)

    def stamps(self) -> list[int]:
        return [convert.to_ns(ref.stamp) for batch in self.bench.said[topics.IMU_BATCH.name] for ref in batch.samples]


def test_imu_node_refuses_each_sin_by_name_and_works_on(bench: Bench) -> None:
    node = ImuBench(bench)
    node.good(START_NS)
    now_ns = START_NS + 120 * STEP_NS
    bench.at(now_ns)

    node.bad(imu(now_ns, 1000, gyro_z=float("nan")))
    bench.event("stream_fault", "imu", "not_finite")
    node.bad(imu(0, 1001))
    bench.event("stream_fault", "imu", "zero_stamp")
    node.bad(imu(now_ns + 3_000_000_000, 1002))
    bench.event("stream_fault", "imu", "future_stamp")
    node.bad(imu(now_ns - 30_000_000_000, 1003))
    bench.event("stream_fault", "imu", "late_stamp")
    node.bad(b"\x00\x01\x00\x00 this is no sensor_msgs/Imu")
    bench.event("malformed_message", topics.IMU.name)

    before = len(node.stamps())
    node.good(now_ns + STEP_NS, count=10)
    assert len(node.stamps()) >= before + 10
    assert not {0, now_ns + 3_000_000_000, now_ns - 30_000_000_000} & set(node.stamps())
    status = bench.until("status", lambda: bench.said[topics.MODALITY_STATUS.name])[-1]
    assert status.modality == "imu"


def test_clock_that_jumps_back_is_one_event_and_the_node_works_on(bench: Bench) -> None:
    node = ImuBench(bench)
    node.good(START_NS)
    node.good(START_NS // 2)
    jumps = bench.events("clock_jump")
    assert len(jumps) == 1, bench.events()
    assert "buffers cleared" in jumps[0]
    assert "imu" in jumps[0]


def test_best_effort_publisher_against_reliable_subscriber_is_an_event(bench: Bench) -> None:
    bench.start(ImuIngestNode, [topics.IMU_BATCH], mode="lockstep", profile="real")
    bench.publisher(topics.IMU, best_effort=True)
    assert "RELIABILITY" in bench.event("incompatible_qos", topics.IMU.name).upper()


def test_live_node_takes_a_best_effort_publisher(bench: Bench) -> None:
    bench.start(ImuIngestNode, [topics.IMU_BATCH], batch_size=1, profile="real")
    publisher = bench.publisher(topics.IMU, best_effort=True)
    bench.until("match", lambda: publisher.get_subscription_count() > 0)
    bench.at(START_NS)
    bench.publish(topics.IMU, imu(START_NS, 1))
    bench.until("a batch", lambda: bench.said[topics.IMU_BATCH.name])
    assert not bench.events("incompatible_qos")


def test_messages_that_newer_ones_replaced_are_counted_as_missed(bench: Bench) -> None:
    """IMU: the queue holds 50, and 58 come while nobody takes any. Camera: below."""
    node = ImuBench(bench)
    node.good(START_NS)
    publisher = bench.publisher(topics.IMU)
    for i in range(58):
        publisher.publish(encode(imu(START_NS + 200 * STEP_NS + i, 1000 + i)))
    time.sleep(0.3)
    bench.until("the count", lambda: bench.dropped().get("missed") == 8)


def test_a_publisher_that_came_and_went_makes_nothing_missed(bench: Bench) -> None:
    """Every publisher counts its messages by itself: numbers of two of them say nothing about loss."""
    node = ImuBench(bench)
    node.good(START_NS)
    listeners = bench.publisher(topics.IMU).get_subscription_count
    other = bench.tester.create_publisher(qos.message_class(topics.IMU), topics.IMU.name, qos.publisher_qos(topics.IMU))
    bench.until("the other is heard", lambda: other.get_subscription_count() == listeners() > 0)
    other.publish(encode(imu(START_NS + 120 * STEP_NS, 1000)))
    bench.spin(0.2)
    bench.tester.destroy_publisher(other)
    bench.until("it is gone", lambda: bench.node.count_publishers(topics.IMU.name) == 1)
    node.good(START_NS + 121 * STEP_NS)
    bench.spin(1.2)  # a status comes each second
    assert "missed" not in bench.dropped()


# -- camera ---------------------------------------------------------------------------------------------------------

PADDING = 16


def bgr8_with_padding(stamp_ns: int) -> Any:
    rows = np.full((HEIGHT, WIDTH * 3 + PADDING), 255, np.uint8)
    rows[:, : WIDTH * 3] = picture()[:, :, ::-1].reshape(HEIGHT, -1)
    header = sensors.header_message(stamp_ns, CAMERA.frame_id)
    return message("sensor_msgs/msg/Image")(header, HEIGHT, WIDTH, "bgr8", 0, WIDTH * 3 + PADDING, rows.reshape(-1))


def test_bgr_picture_with_row_padding_is_seen_as_the_plain_one(bench: Bench) -> None:
    node = CameraBench(bench)
    padded = node.look(bgr8_with_padding(START_NS))
    straight = node.look(plain(START_NS + 33_000_000))
    assert padded.accepted, padded.rejection
    assert straight.accepted, straight.rejection
    assert padded.detections.tobytes() == straight.detections.tobytes()
    assert len(padded.detections), "the block in the cube's colour is seen"


def test_camera_node_refuses_each_sin_by_name_and_works_on(bench: Bench) -> None:
    node = CameraBench(bench)
    short = plain(START_NS)
    short.data = short.data[:-5]
    refused = node.look(short)
    assert not refused.accepted
    assert "short_data" in refused.rejection
    bench.event("stream_fault", "camera", "short_data")

    unknown = plain(START_NS + 10_000_000)
    unknown.encoding = "purple8"
    assert "unknown_encoding" in node.look(unknown).rejection
    bench.publish(topics.IMAGE, b"\x00\x01\x00\x00 no picture")
    bench.event("malformed_message", topics.IMAGE.name)
    good = plain(START_NS + 40_000_000)
    assert node.look(good).accepted
    good.header = sensors.header_message(START_NS + 73_000_000, CAMERA.frame_id)
    assert "constant" in node.look(good).rejection
    bench.event("stream_fault", "camera", "constant")
    assert node.look(plain(START_NS + 106_000_000)).accepted


def test_picture_that_a_newer_one_replaced_is_counted_as_missed(bench: Bench) -> None:
    """The newest wins, and what it replaces is no secret."""
    node = CameraBench(bench)
    assert node.look(plain(START_NS)).accepted
    newest = START_NS + 99_000_000
    bench.at(newest)
    publisher = bench.publisher(topics.IMAGE)
    for stamp_ns in (START_NS + 33_000_000, START_NS + 66_000_000, newest):
        publisher.publish(encode(plain(stamp_ns)))
    time.sleep(0.3)
    bench.until("the count", lambda: bench.dropped().get("missed") == 2)
    seen = [convert.to_ns(feature.sample.stamp) for feature in bench.said[topics.IMAGE_FEATURE.name]]
    assert seen == [START_NS, newest]


def test_compressed_picture_is_known_by_its_bytes_whatever_its_format_says(bench: Bench) -> None:
    node = CameraBench(bench, compressed=True)
    file = io.BytesIO()
    Image.fromarray(picture()).save(file, "PNG")
    header = sensors.header_message(START_NS, CAMERA.frame_id)
    kind = message("sensor_msgs/msg/CompressedImage")
    lying = kind(header, "bgr8; jpeg compressed bgr8", np.frombuffer(file.getvalue(), np.uint8))
    seen = node.look(lying)
    assert seen.accepted, seen.rejection
    assert len(seen.detections)

    later = sensors.header_message(START_NS + 40_000_000, CAMERA.frame_id)
    torn = node.look(kind(later, "png", np.frombuffer(file.getvalue()[:60], np.uint8)))
    assert not torn.accepted
    assert torn.rejection


# -- between stages -------------------------------------------------------------------------------------------------


def test_fusion_refuses_malformed_and_non_finite_batches_and_works_on(bench: Bench) -> None:
    bench.start(FusionNode, [topics.FUSED_STATE])
    bench.at(START_NS)
    bench.publish(topics.EPISODE_START, start_message())
    bench.until("states", lambda: bench.said[topics.FUSED_STATE.name])

    bench.publish(topics.IMU_BATCH, b"\x00\x01\x00\x00\xff\xff\xff\xff")
    bench.event("malformed_message", topics.IMU_BATCH.name)
    good = convert.imu_batch_message(batch(0, [1.0, 2.0, 3.0]))
    bench.publish(topics.IMU_BATCH, good)
    bench.until("the good batch is used", lambda: bench.said[topics.FUSED_STATE.name][-1].imu_window.size == 6)
    bench.spin(1.1)  # events of a kind come at most once a second
    bench.publish(topics.IMU_BATCH, convert.imu_batch_message(batch(0, [1.0, float("nan"), 3.0])))
    bench.event("malformed_message", "angular_velocity")
    bench.publish(topics.IMU_BATCH, convert.imu_batch_message(batch(7, [1.0, 2.0, 3.0])))
    bench.publish(topics.IMU_BATCH, good)
    window = bench.until(
        "the next good batch is used",
        lambda: next((s for s in bench.said[topics.FUSED_STATE.name] if s.imu_window.size == 12), None),
    ).imu_window
    assert np.isfinite(window).all()
    bench.spin(0.2)
    assert bench.said[topics.FUSED_STATE.name][-1].imu_window.size == 12, "the batch of another episode is left out"


def batch(episode: int, gyro: list[float]) -> Any:
    sample = ImuSample(SampleRef(Stream.IMU, START_NS, 0), np.array(gyro), np.array([0.0, 0.0, 9.81]))
    return ImuBatch(episode, 0, START_NS, (sample,))


def test_node_that_was_cleaned_up_is_configured_again_and_active_again_without_doubled_timers(bench: Bench) -> None:
    node = bench.start(FusionNode, [topics.FUSED_STATE])
    good = TransitionCallbackReturn.SUCCESS
    assert node.trigger_deactivate() == good
    assert node.trigger_activate() == good
    assert len(list(node.timers)) == 2, "the status and the decisions"
    assert node.trigger_deactivate() == good
    assert node.trigger_cleanup() == good
    assert not list(node.timers)
    assert not list(node.subscriptions) or all("clock" in s.topic_name for s in node.subscriptions)
    assert node.trigger_configure() == good
    assert node.trigger_activate() == good
    bench.at(START_NS)
    bench.publish(topics.EPISODE_START, start_message())
    bench.until("states", lambda: bench.said[topics.FUSED_STATE.name])


def test_policy_that_refuses_its_own_decision_in_lockstep_ends_and_says_so(bench: Bench) -> None:
    node = bench.start(PolicyNode, [topics.POLICY_OUTPUT], mode="lockstep", policy="classic")
    skill = dataclasses.replace(skill_of_task("pick"), primitive_mask=np.zeros(len(Primitive), np.bool_))
    none = np.zeros(0, np.float32)
    state = FusedState(
        0, START_NS, (), {}, Estimate.none(START_NS), None, np.zeros((6, 0)), none.reshape(0, 6), none, skill
    )
    bench.publish(topics.EPISODE_START, start_message())
    bench.publish(topics.TICK_PLAN, convert.tick_plan_message(TickPlan(0, 0, START_NS, (), 0)))
    bench.publish(topics.FUSED_STATE, convert.fused_state_message(state, 0))
    bench.event("stage_failed", "decision 0", "primitive")
    assert node.finished
    assert node.exit_status == 1
    assert not bench.said[topics.POLICY_OUTPUT.name]


def test_node_in_lockstep_names_the_sample_that_it_waits_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tether_ros.node, "WAITING_S", 0.2)
    bench.start(ImuIngestNode, [topics.IMU_BATCH], mode="lockstep", profile="real")
    bench.publish(topics.EPISODE_START, start_message())
    due = (SampleRef(Stream.IMU, START_NS, 0),)
    bench.publish(topics.TICK_PLAN, convert.tick_plan_message(TickPlan(0, 0, START_NS, due, 0)))
    bench.event("waiting", "tick 0 of episode 0", f"imu {START_NS}")
    bench.publish(topics.IMU, imu(START_NS, 1))
    bench.until("the batch", lambda: bench.said[topics.IMU_BATCH.name])


@pytest.mark.parametrize("parameter", ["mode:=sometimes", "policy:=3", "wait_for_match:=perhaps"])
def test_parameter_that_is_refused_ends_the_process_with_2_and_is_named(domain: int, parameter: str) -> None:
    words = [sys.executable, "-c", "from tether_fusion.fusion import main; main()", "--ros-args", "-p", parameter]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 2, done.stderr
    assert parameter.split(":=")[int(parameter.startswith("mode"))] in done.stderr
    assert "Traceback" not in done.stderr


def test_configuration_that_is_refused_leaves_nothing_behind(domain: int, bench: Bench) -> None:
    rclpy.init(
        args=["--ros-args", "-p", "policy:=nobody"], domain_id=domain, signal_handler_options=SignalHandlerOptions.NO
    )
    node = FusionNode()
    try:
        assert node.trigger_configure() == TransitionCallbackReturn.FAILURE
        assert not list(node.timers)
    finally:
        node.destroy_node()
        rclpy.shutdown()
