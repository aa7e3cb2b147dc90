"""The trainer's process: pairs from a spool in, new versions of the policy out. No robot waits for it.

The loop knows nothing of networks; a `Learner` does. It may be killed at any moment: a shard that was being read stays
or is lost, a version that was being written never appears, and the next trainer goes on from the newest version.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tether.bridge.spool import SpoolReader
from tether.bridge.store import PairStore
from tether.bridge.threshold import MovingThreshold
from tether.bridge.versions import publish
from tether.config import bounded
from tether.errors import InvalidInputError

THRESHOLD = "prediction_error_threshold"
"""Name under which a version's manifest says the arbiter's threshold as it stood when the version was made."""


class Learner(Protocol):
    """What is trained. The only thing here that may import torch."""

    def train_step(self, batch: Mapping[str, NDArray[Any]]) -> Mapping[str, float]:
        """One update on rows of pairs, (B, …) each; returns its losses by name."""

    def export(self, folder: Path, settings: Mapping[str, float]) -> None:
        """Write model and manifest into an empty folder. settings: numbers that the manifest has to hold besides."""


@dataclass(frozen=True)
class OnlineConfig:
    """Sizes and rhythm of online training."""

    batch: int = bounded(1, 65_536, unit="pairs", default=256)
    capacity: int = bounded(16, 10_000_000, unit="pairs", default=20_000)
    least: int = bounded(1, 1_000_000, unit="pairs", default=200, doc="before training begins")
    steps_per_pair: float = bounded(0.001, 100.0, default=0.5, doc="updates for each new pair")
    publish_every: int = bounded(1, 1_000_000, unit="updates", default=400)
    idle_s: float = bounded(0.01, 60.0, unit="s", default=0.2, doc="wait while nothing new has come")
    seed: int = bounded(0, None, default=0)


@dataclass(frozen=True)
class Round:
    """One turn of the loop. losses: means over its updates; version: what was published, None where nothing was."""

    pairs: int
    steps: int
    losses: Mapping[str, float]
    version: Path | None


class OnlineTrainer:
    """See the module."""

    def __init__(
        self, learner: Learner, spool: Path, versions: Path, config: OnlineConfig, threshold: MovingThreshold
    ) -> None:
        self._learner = learner
        self._reader = SpoolReader(spool)
        self._versions = versions
        self._config = config
        self._threshold = threshold
        self._store = PairStore(config.capacity)
        self._rng = np.random.default_rng(config.seed)
        self._owed = 0.0
        self._since_published = 0
        self.steps = 0

    @property
    def refused(self) -> int:
        """Shards that could not be used."""
        return self._reader.refused

    def turn(self) -> Round:
        """Take what lies there, train in proportion, publish where it is time."""
        pairs = 0
        for shard in self._reader.take():
            try:
                pairs += self._store.add(shard)
            except InvalidInputError:
                self._reader.refused += 1
                continue
            errors = shard["input.prediction_error"]
            self._threshold.observe(errors[errors >= 0.0].tolist())
        self._owed += pairs * self._config.steps_per_pair
        steps = int(self._owed) if len(self._store) >= self._config.least else 0
        self._owed -= steps
        totals: dict[str, float] = {}
        for _ in range(steps):
            for name, value in self._learner.train_step(self._store.sample(self._rng, self._config.batch)).items():
                totals[name] = totals.get(name, 0.0) + value / steps
        self.steps += steps
        self._since_published += steps
        version = None
        if self._since_published >= self._config.publish_every:
            self._since_published = 0
            settings = {THRESHOLD: self._threshold.value}
            version = publish(self._versions, lambda folder: self._learner.export(folder, settings))
        return Round(pairs, steps, totals, version)

    def run(self, say: Callable[[str], None], stop: Callable[[], bool]) -> None:
        """Turn after turn until `stop`."""
        while not stop():
            done = self.turn()
            if done.steps:
                losses = ", ".join(f"{name} {value:.4f}" for name, value in done.losses.items())
                say(f"{len(self._store)} pairs, {self.steps} updates, {losses}")
            if done.version is not None:
                say(f"published {done.version}")
            if not done.pairs:
                time.sleep(self._config.idle_s)
