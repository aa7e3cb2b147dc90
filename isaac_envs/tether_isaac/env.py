"""`pick` and `pick_moving` as an Isaac Lab environment: many robots in one batched simulation.

The physics of all environments is one batch. What is Tether's own — primitives, gate, servos' lag, sensors, judge,
subgoals, observation — is the code of `tether` itself, run for one environment after another on the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from isaaclab.envs import DirectRLEnv

from tether.assembly import profile, skills, task
from tether.contracts import TICKS_PER_DECISION, Estimate, HybridAction, TickDelivery
from tether.teacher.actions import choices
from tether.teacher.loop import OracleLoop, Turn
from tether.world.judge import Failure
from tether.world.mujoco_world import TruthChannel
from tether.world.profile import Delay
from tether_isaac.action import ActionRows
from tether_isaac.constraints import couple_fingers, keep_carried_parts_off_the_ground
from tether_isaac.env_cfg import PickEnvCfg
from tether_isaac.exchange import Exchange
from tether_isaac.files import robot_urdf
from tether_isaac.mirror import MirrorWorld
from tether_isaac.variation import PhysicsVariation


class Lane:
    """One environment's own part: its loop around a mirror world, and the decision in force."""

    def __init__(self, cfg: PickEnvCfg, first_seed: int) -> None:
        names = cfg.episodes
        world = MirrorWorld(
            robot_urdf(),
            task(names.task),
            profile(names.profile),
            truth=TruthChannel(),
            measures=True,
            substeps=cfg.world.substeps,
        )
        delay = profile(names.profile).reward.delay if cfg.rewards.delayed else Delay(0.0, 0.0, 0.0)
        self.loop = OracleLoop(names.task, names.profile, delay, world)
        self.world = world
        self.next_seed = first_seed
        self.action: HybridAction | None = None
        self.turn = Turn((), None)
        self.estimate = Estimate.none(0)
        self._result = False

    @property
    def ended(self) -> bool:
        """The episode ended within this decision."""
        return self._result

    def reset(self, step: int) -> None:
        """Start the next episode; the one after it has a seed `step` higher."""
        self.loop.reset(self.next_seed)
        self.next_seed += step
        self._result = False
        self.observe()

    def observe(self) -> None:
        """Look at the truth for the decision that is due."""
        self.observation, self.estimate = self.loop.memory.observe(self.loop.truth, self.loop.now_ns)

    def take(self, delivery: TickDelivery) -> None:
        """What the world delivered by a tick's end."""
        self.loop.take(delivery)
        self._result = delivery.result is not None


class PickEnv(DirectRLEnv):
    """Observations: `tether.teacher.observation` (43 float32). Actions: `ActionRows`. Rewards: the subgoals' ledger.

    extras: `log` holds the success rate of the episodes that ended in the last step.
    """

    cfg: PickEnvCfg

    def __init__(self, cfg: PickEnvCfg, render_mode: str | None = None, **kwargs: Any) -> None:
        self.task = task(cfg.episodes.task)
        self.rows = ActionRows(choices(skills()))
        self._lanes = [Lane(cfg, cfg.episodes.seed + i) for i in range(cfg.scene.num_envs)]
        super().__init__(cfg, render_mode, **kwargs)
        first = self._lanes[0].world
        couple_fingers(first.model)
        self.exchange = Exchange(self.scene, first.model, first.index, self.physics_dt)
        self.variation = PhysicsVariation(self.scene, first.model, first.index)
        self._plans = np.zeros((self.num_envs, cfg.world.substeps, first.model.nu))
        self._step_of_decision = 0

    def world(self, env: int) -> MirrorWorld:
        """The mirror of one environment."""
        return self._lanes[env].world

    def lane(self, env: int) -> Lane:
        """One environment's own part."""
        return self._lanes[env]

    def begin(self, env: int, seed: int) -> None:
        """Make `seed` the next episode of an environment."""
        self._lanes[env].next_seed = seed

    # -- Isaac Lab's hooks ---------------------------------------------------------------------------------------

    def _setup_scene(self) -> None:
        """The scene's configuration holds everything but what does not touch what."""
        keep_carried_parts_off_the_ground()

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._step_of_decision = 0
        for lane, row in zip(self._lanes, actions.detach().cpu().numpy().astype(np.float32), strict=True):
            lane.action = lane.loop.decide(*self.rows.read(row), lane.estimate)

    def _apply_action(self) -> None:
        """Called before each physics step: plans a tick at its beginning, and takes what the step before led to."""
        tick, step = divmod(self._step_of_decision, self.cfg.world.substeps)
        if self._step_of_decision:
            self._mirror((step - 1) % self.cfg.world.substeps)
        if step == 0:
            if tick:
                self._finish_tick()
            self._plan_tick(decided=tick == 0)
        self.exchange.command(self._plans[:, step])
        self._step_of_decision += 1

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Ends the decision: the last physics step has been taken."""
        if self._step_of_decision != self.cfg.world.substeps * TICKS_PER_DECISION:
            raise AssertionError("a decision ends after all of its physics steps")
        self._mirror(self.cfg.world.substeps - 1)
        self._finish_tick()
        over, late = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        for i, lane in enumerate(self._lanes):
            lane.turn = lane.loop.turn()
            result = lane.turn.result
            if result is None:
                lane.observe()
            else:
                late[i] = result.failure == Failure.TIMEOUT
                over[i] = not late[i]
        return self._tensor(over), self._tensor(late)

    def _get_rewards(self) -> torch.Tensor:
        paid = [sum(reward.payment.value for reward in lane.turn.rewards) for lane in self._lanes]
        return self._tensor(np.array(paid, np.float32))

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return {"policy": self._tensor(np.stack([lane.observation for lane in self._lanes]))}

    def _reset_idx(self, env_ids: Sequence[int]) -> None:
        ids = [int(i) for i in env_ids]
        results = [self._lanes[i].turn.result for i in ids]
        won = [result.success for result in results if result is not None]
        if won:
            self.extras.setdefault("log", {})["Metrics/success_rate"] = sum(won) / len(won)
        super()._reset_idx(env_ids)
        for i in ids:
            self._lanes[i].reset(self.num_envs)
            self._lanes[i].turn = Turn((), None)
        self.variation.apply(ids, [self.world(i).model for i in ids])
        self.exchange.write(ids, [self.world(i).state for i in ids])

    # -- One tick ------------------------------------------------------------------------------------------------

    def _plan_tick(self, decided: bool) -> None:
        for plan, lane in zip(self._plans, self._lanes, strict=True):
            if lane.action is None:
                raise AssertionError("a decision comes before its ticks")
            if not lane.ended:
                plan[:] = lane.world.plan(lane.loop.command(lane.action, decided))

    def _mirror(self, step: int) -> None:
        for lane, state in zip(self._lanes, self.exchange.read(), strict=True):
            if not lane.ended:
                lane.world.mirror(step, state)

    def _finish_tick(self) -> None:
        for lane in self._lanes:
            if not lane.ended:
                lane.take(lane.world.finish())

    def _tensor(self, values: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(values, device=self.device)
