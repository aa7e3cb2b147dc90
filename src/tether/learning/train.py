"""The training loop: `learn` reads as the algorithm.

A run is a function of environment, configuration and seed. Checkpoints fall between two episodes and every episode's
reset has a seed of its own, so a run that was interrupted and goes on gives, bit for bit, what it would have given.
That holds for environments whose episodes depend on nothing but their reset's seed and the actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tether.errors import Fault, InvalidInputError
from tether.learning import arrays as files
from tether.learning.config import Normalise, TrainConfig
from tether.learning.evaluate import Env, Scores, episode_seed, evaluate
from tether.learning.exploration import Explorer
from tether.learning.plain import config_to_plain, space_to_plain
from tether.learning.replay import EpisodeWriter, Replay, require_same_shape, sample
from tether.learning.report import Report
from tether.learning.sac import Agent
from tether.learning.spaces import HybridSpace, ObservationSpace

CHECKPOINT, BEST, LAST = "checkpoint.npz", "best.npz", "agent.npz"
_TRAIN, _EVALUATE = 0, 1
"""Streams of episode seeds. `tether train hybrid` measures on a third one."""


def learn(
    make_env: Callable[[], Env],
    config: TrainConfig,
    out_dir: Path,
    seed: int,
    demos: Replay | None = None,
    progress: bool = True,
    stop: Callable[[], bool] = lambda: False,
    guide: Callable[[Agent], None] | None = None,
) -> Agent:
    """Train until `config.steps` decisions or until `stop()`, asked after each episode; goes on from a checkpoint.

    Leaves in `out_dir` checkpoint.npz, best.npz (best evaluation so far), agent.npz (newest), history.json and
    TensorBoard's files. guide: called after each update; may move the actor, remembers nothing. Raises
    InvalidInputError for spaces that do not fit and for a checkpoint of another run.
    """
    run = _Run(make_env, config, out_dir, seed, demos)
    with Report(out_dir, config.steps, run.step, progress) as report:
        while run.step < config.steps and not stop():
            raw, info = run.env.reset(seed=episode_seed(seed, _TRAIN, run.episode))
            obs, mask = run.observe(raw, info)
            run.explorer.begin_episode()
            total, over, update = 0.0, False, None
            while not over:
                choice, z = run.explorer.choose(run.agent, obs, mask, run.step, run.annealed)
                action = run.space.for_env(run.space.from_unit(choice, z))
                raw, reward, terminated, truncated, info = run.env.step(action)
                next_obs, next_mask = run.observe(raw, info)
                run.writer.add(obs, mask, choice, z, float(reward), next_obs, next_mask, terminated, truncated)
                obs, mask, over = next_obs, next_mask, terminated or truncated
                total += float(reward)
                run.step += 1
                for _ in range(run.updates_due()):
                    update = run.agent.update(run.sample(), run.annealed)
                    if guide is not None:
                        guide(run.agent)
                report.step()
            run.episode += 1
            report.episode(run.step, total, info, update)
            if run.is_due(config.evaluate_every):
                run.evaluate(report)
            if run.is_due(config.checkpoint_every):
                run.checkpoint()
            run.last_step = run.step
        if run.step >= config.steps and not run.was_just_evaluated:
            run.evaluate(report)
        run.checkpoint()
    return run.agent


class _Run:
    """Everything that a run consists of, and its way to the checkpoint and back."""

    def __init__(
        self, make_env: Callable[[], Env], config: TrainConfig, out_dir: Path, seed: int, demos: Replay | None
    ) -> None:
        self.config, self.out_dir, self.seed, self.demos = config, out_dir, seed, demos
        self.env, self.evaluation_env = make_env(), make_env()
        self.space = HybridSpace.of(self.env.action_space)
        self._observations = ObservationSpace.of(self.env.observation_space)
        self.agent = Agent(self.space, self._observations.size, config.sac, seed)
        if config.sac.normalise is Normalise.BOUNDS:
            self.agent.normalise_by_bounds(self._observations)
        shape = (self._observations.size, self.space.n_choices, self.space.n_params)
        self.replay = Replay(config.replay, *shape)
        if demos is not None:
            require_same_shape(self.replay, demos)
        self.writer = EpisodeWriter(self.replay, config.sac.discount, config.n_step)
        self._rng = np.random.default_rng(seed)
        self.explorer = Explorer(self.space, config, self._rng)
        self.step = self.episode = self.last_step = 0
        self.history: list[dict[str, float]] = []
        self._identity = {
            "kind": "training run",
            "seed": seed,
            "config": _resumable(config),
            "space": space_to_plain(self.space),
            "demos": 0 if demos is None else len(demos),
        }
        if (out_dir / CHECKPOINT).exists():
            self._restore(out_dir / CHECKPOINT)

    @property
    def annealed(self) -> float:
        """0 at the start, 1 from `anneal_steps` on."""
        return min(1.0, self.step / self.config.anneal_steps)

    @property
    def was_just_evaluated(self) -> bool:
        """Whether the agent's newest evaluation is of this very step."""
        return bool(self.history) and self.history[-1]["step"] == self.step

    def observe(self, raw: Any, info: dict[str, Any]) -> tuple[Any, Any]:
        """Observation and mask."""
        return self._observations.read(raw, info, self.space.n_choices)

    def updates_due(self) -> int:
        """Updates that the newest decision brings; observations are normalised before the first."""
        after = self.step - self.config.warmup_steps
        if after <= 0 or len(self.replay) == 0:
            return 0
        if after == 1 and self.config.sac.normalise is Normalise.WARMUP:
            self.agent.normalise_by_data(self.replay.observations())
        ratio = self.config.updates_per_step
        return math.floor(after * ratio) - math.floor((after - 1) * ratio)

    def sample(self) -> Any:
        """A batch."""
        return sample(self.replay, self._rng, self.config.batch, self.demos, self.config.demo_share)

    def is_due(self, period: int) -> bool:
        """Whether a multiple of `period` steps was passed in the newest episode."""
        return self.step // period > self.last_step // period

    def evaluate(self, report: Report) -> Scores:
        """Play the fixed evaluation episodes, and keep the agent if it never did better."""
        scores = evaluate(self.agent, self.evaluation_env, self.config.evaluate_episodes, self.seed, _EVALUATE)
        best_so_far = max((entry["figure"] for entry in self.history), default=-math.inf)
        self.history.append({"step": self.step, "figure": scores.figure, "mean_return": scores.mean_return})
        if scores.figure >= best_so_far:
            self.agent.save(self.out_dir / BEST)
        report.evaluation(self.step, scores, self.history)
        return scores

    def checkpoint(self) -> None:
        """Keep the run, whole or not at all."""
        self.agent.save(self.out_dir / LAST)
        state = {**files.under("agent", self.agent.state()), **files.under("replay", self.replay.state())}
        meta = {
            **self._identity,
            "step": self.step,
            "episode": self.episode,
            "history": self.history,
            "rng": self._rng.bit_generator.state,
        }
        files.save(self.out_dir / CHECKPOINT, state, meta)

    def _restore(self, path: Path) -> None:
        state, meta = files.load(path)
        faults = [
            Fault(f"{path}: {name}", str(meta.get(name))[:200], str(value)[:200])
            for name, value in self._identity.items()
            if meta.get(name) != value
        ]
        if faults:
            raise InvalidInputError("checkpoint", faults, "go on with the same run, or name an empty folder")
        self.agent.restore(files.part(state, "agent"))
        self.replay.restore(files.part(state, "replay"))
        self.step = self.last_step = int(meta["step"])
        self.episode = int(meta["episode"])
        self.history = list(meta["history"])
        self._rng.bit_generator.state = meta["rng"]


def _resumable(config: TrainConfig) -> Any:
    """The configuration without what a run may be prolonged or kept by: steps and how often it is kept."""
    plain = config_to_plain(config)
    return {name: value for name, value in plain.items() if name not in ("steps", "checkpoint_every")}


def single_threaded() -> None:
    """Let torch use one thread: for nets this small more threads cost more than they give."""
    torch.set_num_threads(1)
