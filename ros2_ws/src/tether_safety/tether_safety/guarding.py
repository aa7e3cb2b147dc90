"""What the gate's node hears beside commands and sensors: heartbeats, rewards, and calls of people."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tether_ros.node import Mode, StageNode

from tether import topics
from tether.codec import convert, sensors
from tether.codec.convert.guarding import beat_from, claimed_reward_from
from tether.codec.convert.reward import REWARD, reward_fields
from tether.errors import InvalidInputError
from tether.safety.breaker import Trip
from tether.safety.dump import TripDumps
from tether.safety.stage import GateStage
from tether.safety.token import TokenVerifier, key_file, make_key, make_run_key
from tether_msgs.srv import Arm, ResetStop
from tether_safety.vouching import Vouching

_SKILL = "task"
"""Where no agent has chosen a task skill, the task itself is the only one."""
LOOK_S = 0.1


class Guarding:
    """Inlets and services around a gate's stage. In lockstep only the services: steady time plays no part there."""

    def __init__(self, node: StageNode, stage: GateStage, dumps: Path, run_key: Path, vouching: Vouching) -> None:
        """Makes the run's key. InvalidInputError where a key cannot be trusted, OSError where it cannot be made."""
        self._node = node
        self._stage = stage
        self._vouching = vouching
        make_key(key_file())
        self._verifier = TokenVerifier(key_file(), node.get_name())
        self._dumps = TripDumps(dumps, time.monotonic_ns())
        self._trip: Trip | None = None
        node.service(ResetStop, "~/reset_stop", self._reset_stop)
        node.service(Arm, "~/arm", self._arm)
        if node.mode is Mode.REALTIME:
            make_run_key(run_key)
            self._rewards = TokenVerifier(run_key, None)
            node.inlet(topics.HEARTBEAT, lambda msg: stage.hear(beat_from(msg), time.monotonic_ns()), fed=False)
            node.inlet(topics.REWARD, self._on_reward, fed=False)
            node.inlet(topics.EPISODE_END, self._on_end, fed=False)

    def begin(self, episode: int) -> None:
        """An episode begins: rewards are counted anew."""
        if self._stage.guards.breaker is not None:
            self._stage.guards.breaker.begin(_SKILL, episode, time.monotonic_ns())

    def report(self) -> None:
        """Say what the guards found; called when the tick is over."""
        self._vouching.report()
        for said in self._stage.guards.said():
            severity = sensors.Severity.WARN if said.bad else sensors.Severity.INFO
            self._node.event(severity, said.kind, said.text)
        breaker = self._stage.guards.breaker
        if breaker is not None and breaker.trip is not self._trip:
            self._trip = breaker.trip
            if breaker.trip is not None:
                self._alert(breaker.trip, breaker.state)
        outcome = self._dumps.outcome()
        if outcome is not None:
            self._node.event(sensors.Severity.INFO, "reward_breaker_dump", outcome)

    def finish(self) -> bool:
        """Wait for what is being written."""
        return self._dumps.finish()

    def _alert(self, trip: Trip, state: Callable[[], dict[str, Any]]) -> None:
        path = self._dumps.write("reward_breaker", state())
        text = f"{trip.cause.value}: {trip.reason}; all task skills pause, safe mode until somebody arms the gate"
        data = {"cause": trip.cause.value, "dump": "" if path is None else str(path)}
        self._node.event(sensors.Severity.ERROR, "reward_breaker", text, data)

    def _arm(self, request: Any) -> None:
        self._verifier.check("arm", {"reason": request.reason}, request.token, time.monotonic_ns())
        self._stage.arm(request.reason)
        self._vouching.acknowledge(request.reason)

    def _reset_stop(self, request: Any) -> None:
        self._verifier.check("reset_stop", {"reason": request.reason}, request.token, time.monotonic_ns())
        self._stage.supervisor.reset_stop(request.reason)

    def _on_reward(self, msg: Any) -> None:
        now_ns = time.monotonic_ns()
        try:
            self._rewards.check(REWARD, reward_fields(msg), msg.token, now_ns)
        except InvalidInputError as error:
            # Not taken; and since somebody hands in what he may not, nothing is taken before a person has looked.
            if self._stage.guards.breaker is not None:
                self._stage.guards.breaker.distrust(str(error), now_ns)
            return
        self._stage.reward(claimed_reward_from(msg, _SKILL), now_ns, self._node.now_ns())

    def _on_end(self, msg: Any) -> None:
        breaker = self._stage.guards.breaker
        if breaker is not None:
            result = convert.episode_result_from(msg)
            breaker.finish(_SKILL, int(msg.episode), time.monotonic_ns(), result.success)
