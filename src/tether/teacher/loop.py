"""The core loop as an oracle needs it: the world, the executor and the gate, without what only policies on sensors use.

Ingest and fusion have nothing to add where samples are exact and the policy acts on the truth; a test holds that the
commands are those of the whole pipeline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tether.assembly import make_gate_stage, make_motion_stage, make_world, profile, robot, skill_of_task, task
from tether.contracts import (
    F64,
    TICKS_PER_DECISION,
    Command,
    EpisodeResult,
    EpisodeSpec,
    Estimate,
    FusedState,
    HybridAction,
    ImuSample,
    JointSample,
    Primitive,
    Source,
    TickDelivery,
    TruthSample,
)
from tether.motion.kinematics import ArmKinematics
from tether.rewards.build import make_ledger
from tether.rewards.measured import measured_of_truth
from tether.rewards.server import Reward, RewardServer
from tether.rollout import EPISODE_START_NS
from tether.safety.stage import GateInputs, for_world
from tether.teacher.observation import TeacherMemory
from tether.world.profile import Delay

if TYPE_CHECKING:
    from tether.world.mujoco_world import MujocoWorld


@dataclass(frozen=True, eq=False)
class Turn:
    """What a decision led to: the rewards delivered in its period, and the result where the episode ended in it."""

    rewards: tuple[Reward, ...]
    result: EpisodeResult | None


class OracleLoop:
    """One task under one profile. delay: of rewards; those under way when the episode ends come with its last turn.

    world: one with truth and measures, which the loop then owns; else it makes one. `act` is a whole decision; whoever
    steps many worlds at once calls what it is made of: `decide`, for each tick `command` and `take`, then `turn`.
    """

    def __init__(self, task_name: str, profile_name: str, delay: Delay, world: MujocoWorld | None = None) -> None:
        self._task = task_name
        self._spec = (task(task_name).name, profile(profile_name).name)
        self._delay = delay
        self._motion = make_motion_stage(profile_name)
        self._gate = make_gate_stage("scripted")
        self.world = world or make_world(task_name, profile_name, truth_age_ns=0, pictures=False, measures=True)
        self._kinematics = ArmKinematics(robot())
        self.memory = TeacherMemory(self._kinematics)

    def reset(self, seed: int) -> None:
        """Start an episode; the first decision is due."""
        self._delivery: TickDelivery = self.world.reset(EpisodeSpec(*self._spec, seed), EPISODE_START_NS)
        self._motion.reset()
        self._gate.reset()
        self.memory.reset()
        self.begin_rewards()
        self._joints: JointSample | None = None
        self._truth = _truth(self._delivery)
        self._skill = skill_of_task(self._task)
        self.turns = 0

    @property
    def truth(self) -> TruthSample:
        """The true state at the decision that is due."""
        return self._truth

    @property
    def now_ns(self) -> int:
        """The time of the decision that is due."""
        return self._delivery.stamp_ns

    def begin_rewards(self) -> None:
        """Nothing has been paid from here on; what is under way is forgotten."""
        self._rewards = RewardServer(lambda: make_ledger(self._task), self._delay, 0)

    def state(self) -> FusedState:
        """The decision's state as an oracle gets it: proprioception only."""
        joints = [s for s in self._delivery.samples if isinstance(s, JointSample)]
        none = np.zeros((0, 6), np.float32)
        now_ns = self._delivery.stamp_ns
        return FusedState(
            decision_id=self.turns,
            stamp_ns=now_ns,
            used=(),
            age_ns={},
            estimate=Estimate.none(now_ns),
            joints=joints[-1] if joints else self._joints,
            imu_window=np.zeros((6, 0)),
            detections=none,
            features=np.zeros(0, np.float32),
            skill=self._skill,
        )

    def act(self, primitive: Primitive, params: F64, estimate: Estimate) -> Turn:
        """Carry out a decision; the next one is due afterwards, unless the episode has ended."""
        action = self.decide(primitive, params, estimate)
        for i in range(TICKS_PER_DECISION):
            self.take(self.world.step(self.command(action, decided=i == 0)))
            if self._delivery.result is not None:
                break
        return self.turn()

    def decide(self, primitive: Primitive, params: F64, estimate: Estimate) -> HybridAction:
        """The action of the decision that is due."""
        now_ns = self._delivery.stamp_ns
        action = HybridAction(self.turns, now_ns, primitive, params, estimate, Source.TEACHER)
        self.memory.decided(primitive, now_ns)
        self.turns += 1
        return action

    def command(self, action: HybridAction, decided: bool) -> Command | None:
        """The gated command for the tick that begins. decided: the action was decided at this tick."""
        delivery = self._delivery
        now_ns = delivery.stamp_ns
        joints = [s for s in delivery.samples if isinstance(s, JointSample)]
        if joints:
            self._joints = joints[-1]
        proposed = self._motion.tick(delivery.tick, now_ns, joints, (), action, now_ns - action.stamp_ns)
        inputs = GateInputs(
            joints=joints,
            imu=[s for s in delivery.samples if isinstance(s, ImuSample)],
            executed=[] if delivery.executed is None else [delivery.executed],
            actions=[action] if decided else [],
            proposed=[] if proposed is None else [proposed],
        )
        self._gate.take(now_ns, now_ns, inputs)
        return for_world(self._gate.tick(delivery.tick, now_ns, now_ns))

    def take(self, delivery: TickDelivery) -> None:
        """What the world delivered by the end of the tick."""
        self._delivery = delivery
        if delivery.executed is not None:
            measured = measured_of_truth(self.world.measure(), delivery.executed.command, self._kinematics)
            self._rewards.take_measured(0, [measured])

    def turn(self) -> Turn:
        """What the decision led to, once its ticks are over or the episode is."""
        if self._delivery.result is not None:
            return Turn(tuple(self._rewards.rest()), self._delivery.result)
        self._truth = _truth(self._delivery)
        return Turn(tuple(self._rewards.due(self._delivery.stamp_ns)), None)

    def close(self) -> None:
        """Give the world up."""
        self.world.close()


def _truth(delivery: TickDelivery) -> TruthSample:
    for sample in delivery.samples:
        if isinstance(sample, TruthSample):
            return sample
    raise AssertionError("a world with a truth channel delivers the truth at every decision tick")
