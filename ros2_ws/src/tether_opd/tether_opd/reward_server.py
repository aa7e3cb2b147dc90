"""World states and executed commands in, rewards out, as late as the profile says: a process of its own.

In simulation it takes the world's state on a topic that no policy hears; on a robot the fingers, joints and pictures.
Nobody can hand it a reward: it has no service, and every inlet carries what was measured or executed. In real time its
rewards carry a token by the run's key, without which the gate takes none.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

from tether_ros.node import Mode, StageNode
from tether_ros.process import run

from tether import topics
from tether.codec import convert, sensors
from tether.codec.convert.reward import REWARD, reward_fields, reward_message
from tether.contracts import TICK_NS
from tether.errors import InvalidInputError
from tether.lockstep import TickInputs
from tether.rewards.build import make_reward_server, make_sensed_state
from tether.rewards.server import Reward
from tether.safety.token import RunSigner, run_key_file


class Evidence(str, Enum):
    """What subgoals are verified by."""

    WORLD = "world"
    SENSORS = "sensors"


class RewardServerNode(StageNode):
    """See `tether.rewards`."""

    def __init__(self) -> None:
        super().__init__("reward_server")
        self._task = self.param("task", "pick", "name or file of the task, whose success is split")
        self._profile = self.param("profile", "real", "name or file of the profile, for the reward's delay")
        self._seed = self.param("seed", 0, "seed of the first episode")
        run_key = self.param("run_key", "", "the run's key, which the gate makes; empty: beside the robot's key")
        self._signer = RunSigner(Path(run_key) if run_key else run_key_file())
        self._evidence = Evidence(self.param("evidence", "world", "what subgoals are verified by: world or sensors"))

    def build(self) -> None:
        """Make the server, its inlets and its one outlet."""
        self._server = make_reward_server(self._task, self._profile, self._seed)
        self._sensed = make_sensed_state(self._task)
        self._episode = 0
        self._ended = -1
        self._lost = self._readings = 0
        self._reward = self.outlet(topics.REWARD)
        self.optional(self._reward)
        self.inlet(topics.EPISODE_START, self._on_start)
        self.inlet(topics.EXECUTED, self._on_executed)
        if self._evidence is Evidence.WORLD:
            self.inlet(topics.MEASURES, self._on_measures)
            self.inlet(topics.EPISODE_END, self._on_end)
            return
        self.inlet(topics.JOINT_STATES, self._on_joints)
        self.inlet(topics.IMAGE_FEATURE, self._on_feature)
        self.inlet(topics.FUSED_STATE, self._on_state)

    def start_live(self) -> None:
        """Hand over what has become due on the clock of the stamps."""
        self.every(TICK_NS * 1e-9, self._look)

    def on_episode(self, start: Any) -> None:
        """Episodes are told apart by the number that every message carries."""

    def on_tick(self, inputs: TickInputs) -> None:
        """Nobody waits for a reward: the server follows the measurements, not the ticks."""

    def _on_start(self, start: Any) -> None:
        if self._evidence is Evidence.SENSORS:
            self._server.take_measured(self._episode, self._sensed.rest())
            self._sensed.reset()
        self._episode = int(start.episode)

    def _on_measures(self, msg: Any) -> None:
        truth = convert.truth_from(msg)
        self._server.take_state(int(msg.episode), truth)
        self._world_moved(int(msg.episode), truth.ref.stamp_ns)

    def _on_executed(self, msg: Any) -> None:
        executed = convert.executed_from(msg)
        if self._evidence is Evidence.SENSORS:
            self._sensed.take_executed(executed)
        else:
            self._server.take_executed(int(msg.episode), executed)
            self._world_moved(int(msg.episode), executed.ref.stamp_ns)

    def _on_end(self, msg: Any) -> None:
        self._ended = int(msg.episode)
        self._world_moved(self._ended, convert.to_ns(msg.stamp))

    def _world_moved(self, episode: int, stamp_ns: int) -> None:
        """Lockstep: the world's time is what its messages say.

        After an episode's end it may go no further: what is under way is handed over with its proper time, and so is
        what only the last messages of the episode, which may come after its end, make complete.
        """
        if self.mode is Mode.LOCKSTEP:
            self._send(self._server.rest() if episode <= self._ended else self._server.due(stamp_ns))

    def _on_joints(self, msg: Any) -> None:
        joints = sensors.joint_sample_from(msg, self._readings)
        self._readings += 1
        self._sensed.take_joints(joints)
        if self.mode is Mode.LOCKSTEP:
            self._look_at(joints.ref.stamp_ns)

    def _on_feature(self, msg: Any) -> None:
        self._sensed.take_picture(convert.image_feature_from(msg))

    def _on_state(self, msg: Any) -> None:
        self._sensed.take_estimate(convert.fused_state_from(msg).estimate)

    def _look(self) -> None:
        self._look_at(self.now_ns())

    def _look_at(self, now_ns: int) -> None:
        if self._evidence is Evidence.SENSORS:
            self._server.take_measured(self._episode, self._sensed.ready(now_ns))
        self._send(self._server.due(now_ns))

    def _send(self, rewards: list[Reward]) -> None:
        for reward in rewards:
            msg = reward_message(reward)
            self._reward.send(self._signed(msg) if self.mode is Mode.REALTIME else msg)
        if self._server.lost > self._lost:
            self.event(sensors.Severity.WARN, "reward_ticks_lost", f"{self._server.lost} ticks could not be judged")
        self._lost = self._server.lost

    def _signed(self, msg: Any) -> Any:
        try:
            return replace(msg, token=self._signer.token(REWARD, reward_fields(msg)))
        except InvalidInputError as error:
            self.event(sensors.Severity.WARN, "reward_unsigned", f"no gate will take it: {error}")
            return msg


def main() -> None:
    """Entry point."""
    sys.exit(run([RewardServerNode]))
