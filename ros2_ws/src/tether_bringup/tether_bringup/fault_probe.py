"""The fault campaign's node in the graph: writes down what passes, holds the wires, says what nobody should say.

`python -m tether_bringup.fault_probe RECORDING`, driven by lines of JSON on standard input, each answered by one on
standard output with the steady time at which it took effect. It ends with its standard input.
"""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import rclpy
from rclpy.clock import Clock, ClockType
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from tether_ros import qos
from tether_ros.executor import DrainingExecutor
from tether_ros.process import go_first
from tether_safety.safety_supervisor import SafetySupervisorNode

from tether import topics
from tether.codec import encode, message, sensors
from tether.codec.convert.reward import REWARD, reward_fields
from tether.faults.recording import HEARD, write_late, write_record
from tether.faults.wire import BY_NAME, Effect, Parcel, Wire, poisoned
from tether.launch.ros_log import ensure_log_dir
from tether.own_stdout import own_stdout
from tether.safety.token import RunSigner, run_key_file
from tether.topics import Topic
from tether_msgs.srv import Arm, ResetStop

WIRE = "/wire"
"""What stands before the name of a topic that goes through a wire."""
_TURN_S = 0.005
_FLUSH_S = 0.02
_LATE_NS = 20_000_000
_NICENESS = -10


class FaultProbe(Node):
    """Everything happens on the executor's thread, but for reading standard input."""

    def __init__(
        self,
        recording: BinaryIO,
        orders: queue.SimpleQueue[dict[str, Any] | None],
        answer: Callable[[dict[str, Any]], None],
    ) -> None:
        super().__init__("fault_probe")
        self._answer = answer
        self.done = False
        self._recording = recording
        self._orders = orders
        self._flushed_s = 0.0
        self._turned_ns = time.monotonic_ns()
        self._late: list[tuple[int, int, Topic, bytes]] = []
        self._order = count()
        self._last: dict[str, bytes] = {}
        self._floods: dict[str, float] = {}
        self._clock_shift_ns: int | None = None
        self._signer = RunSigner(run_key_file())
        self._wires = {topic.name: Wire(topic, seed) for seed, topic in enumerate(BY_NAME.values())}
        self._out = {name: self._publisher(topic) for name, topic in BY_NAME.items()}
        # made at once: a publisher that nobody has met yet speaks to nobody
        intruded = (topics.JOINT_COMMAND, topics.CMD_VEL, topics.CLOCK)
        self._said = {topic.name: self._publisher(topic) for topic in intruded}
        for topic in HEARD:
            self._listen(topic, topic.name, self._writer(topic))
        for topic in BY_NAME.values():
            self._listen(topic, WIRE + topic.name, self._relay(topic))
        self._arm_client = self.create_client(Arm, "/safety_supervisor/arm")
        self._reset_client = self.create_client(ResetStop, "/safety_supervisor/reset_stop")
        self.create_timer(_TURN_S, self._turn, clock=Clock(clock_type=ClockType.STEADY_TIME))
        self._does: dict[str, Callable[[dict[str, Any]], None]] = {
            "wire": self._set_wire,
            "flood": self._set_flood,
            "clock": self._set_clock,
            "intrude": self._intrude,
            "reward": self._forge_reward,
            "arm": lambda order: self._call(
                self._arm_client, Arm.Request(reason=order["reason"], token=order["token"])
            ),
            "reset_stop": lambda order: self._call(
                self._reset_client, ResetStop.Request(reason=order["reason"], token=order["token"])
            ),
            "ping": lambda order: None,
        }

    # -- what passes ------------------------------------------------------------------------------------------------

    def _publisher(self, topic: Topic) -> Any:
        return self.create_publisher(qos.message_class(topic), topic.name, qos.publisher_qos(topic))

    def _listen(self, topic: Topic, name: str, take: Callable[[bytes], None]) -> None:
        profile = qos.subscriber_qos(topic, must_not_lose=True)
        self.create_subscription(qos.message_class(topic), name, take, profile, raw=True)

    def _writer(self, topic: Topic) -> Callable[[bytes], None]:
        def write(raw: bytes) -> None:
            self._last[topic.name] = raw
            write_record(self._recording, time.monotonic_ns(), topic, raw)

        return write

    def _relay(self, topic: Topic) -> Callable[[bytes], None]:
        wire = self._wires[topic.name]

        def relay(raw: bytes) -> None:
            now_ns = time.monotonic_ns()
            for parcel in wire.take(raw, now_ns):
                self._leave(topic, parcel, now_ns)

        return relay

    def _leave(self, topic: Topic, parcel: Parcel, now_ns: int) -> None:
        if parcel.due_ns <= now_ns:
            self._out[topic.name].publish(parcel.raw)
        else:
            heapq.heappush(self._late, (parcel.due_ns, next(self._order), topic, parcel.raw))

    def _turn(self) -> None:
        now_ns = time.monotonic_ns()
        late_ns = now_ns - self._turned_ns - round(_TURN_S * 1e9)
        self._turned_ns = now_ns
        if late_ns > _LATE_NS:
            write_late(self._recording, now_ns, late_ns)
        while self._late and self._late[0][0] <= now_ns:
            _, _, topic, raw = heapq.heappop(self._late)
            self._out[topic.name].publish(raw)
        for name, rate_hz in self._floods.items():
            newest = self._wires[name].last()
            for _ in range(round(rate_hz * _TURN_S) if newest is not None else 0):
                self._out[name].publish(newest)
        if self._clock_shift_ns is not None:
            self._say(topics.CLOCK, encode(sensors.clock_message(max(time.time_ns() + self._clock_shift_ns, 0))))
        if now_ns * 1e-9 - self._flushed_s > _FLUSH_S:
            self._flushed_s = now_ns * 1e-9
            self._recording.flush()
        with contextlib.suppress(queue.Empty):
            while not self.done:
                self._obey(self._orders.get_nowait())

    # -- what it is told --------------------------------------------------------------------------------------------

    def _obey(self, order: dict[str, Any] | None) -> None:
        if order is None:
            self.done = True
            return
        self._does[order["do"]](order)
        if order["do"] not in ("arm", "reset_stop"):
            self._answer({"at_ns": time.monotonic_ns()})

    def _set_wire(self, order: dict[str, Any]) -> None:
        self._wires[order["topic"]].set(Effect(order["effect"]), float(order["amount"]))

    def _set_flood(self, order: dict[str, Any]) -> None:
        if order["rate_hz"]:
            self._floods[order["topic"]] = float(order["rate_hz"])
        else:
            self._floods.pop(order["topic"], None)

    def _set_clock(self, order: dict[str, Any]) -> None:
        self._clock_shift_ns = order["shift_ns"]

    def _intrude(self, order: dict[str, Any]) -> None:
        """A gated command that the gate never gave, with numbers that are none, straight to the actuators' input."""
        for topic in (topics.JOINT_COMMAND, topics.CMD_VEL):
            if topic.name in self._last:
                self._say(topic, poisoned(self._last[topic.name], topic, float(order["value"])))

    def _forge_reward(self, order: dict[str, Any]) -> None:
        now = sensors.clock_message(time.time_ns()).clock
        forged = message(topics.REWARD.type)(now, now, order["episode"], "kept", float(order["value"]), 1.0, "")
        if order["signed"]:
            forged = dataclasses.replace(forged, token=self._signer.token(REWARD, reward_fields(forged)))
        self._out[topics.REWARD.name].publish(encode(forged))

    def _say(self, topic: Topic, raw: bytes) -> None:
        self._said[topic.name].publish(raw)

    def _call(self, client: Any, request: Any) -> None:
        if not client.service_is_ready():
            refusal = "the gate offers no such service"
            self._answer({"at_ns": time.monotonic_ns(), "accepted": False, "message": refusal})
            return

        def answered(future: Any) -> None:
            response = future.result()
            self._answer({"at_ns": time.monotonic_ns(), "accepted": response.accepted, "message": response.message})

        client.call_async(request).add_done_callback(answered)


def _answer(answers: BinaryIO, words: dict[str, Any]) -> None:
    answers.write(json.dumps(words).encode() + b"\n")
    answers.flush()


def _read_orders(orders: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    orders.put(None)


def main() -> int:
    """Run until standard input ends."""
    with contextlib.suppress(OSError):  # as the gate goes before others: whoever measures it must not be late
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
        Path("/proc/self/autogroup").write_text(str(_NICENESS), encoding="ascii")
    with contextlib.suppress(OSError):
        go_first(SafetySupervisorNode.realtime_priority)
    orders: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
    with own_stdout() as answers, Path(sys.argv[1]).open("wb") as recording:
        ensure_log_dir()
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        answer = partial(_answer, answers)
        probe = FaultProbe(recording, orders, answer)
        executor = DrainingExecutor(lambda: None)
        executor.add_node(probe)
        answer({"at_ns": time.monotonic_ns()})
        while not probe.done:
            executor.spin_once(timeout_sec=0.1)
        executor.shutdown(timeout_sec=1.0)
        probe.destroy_node()
        rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
