"""Training the eyes: one loop that shows how far it is, can be stopped at any moment, and goes on as if it had not."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tether.config import bounded
from tether.errors import Fault, InvalidInputError
from tether.files import replaced
from tether.progress import Progress
from tether.vision.frames import Frames
from tether.vision.losses import Weights, loss_of, targets_of
from tether.vision.network import EyesNetwork

CHECKPOINT = "checkpoint.pt"
_SCALARS_EVERY = 10
_FREE = ("steps", "checkpoint_every", "score_every")
"""What may change between a run and its continuation."""


@dataclass(frozen=True)
class TrainConfig:
    """How the eyes are trained. Rate: warm-up, then half a cosine to zero at `steps` (Loshchilov and Hutter 2017)."""

    steps: int = bounded(1, 10_000_000, default=2000)
    batch: int = bounded(2, 1024, default=24)
    rate: float = bounded(1e-6, 1.0, default=1.5e-3)
    warmup_steps: int = bounded(1, 100_000, default=100)
    weight_decay: float = bounded(0.0, 1.0, default=0.02)
    average: float = bounded(0.0, 0.99999, default=0.99, doc="share of the old in each step of the averaged weights")
    seed: int = bounded(0, None, default=0)
    bfloat16: bool = True
    checkpoint_every: int = bounded(1, 1_000_000, default=50)
    score_every: int = bounded(1, 1_000_000, default=250)


Score = Callable[[EyesNetwork], dict[str, float]]


class Trainer:
    """A network in training. `averaged` is the one to use: the mean of the last weights, good at any step.

    folder: where checkpoints and scalars go. A checkpoint that is there is gone on from.
    """

    def __init__(self, folder: Path, frames: Frames, config: TrainConfig) -> None:
        self._folder, self._frames, self.config = folder, frames, config
        torch.manual_seed(config.seed)
        self.network = EyesNetwork().to(memory_format=torch.channels_last)
        self.averaged = EyesNetwork().to(memory_format=torch.channels_last).eval().requires_grad_(False)
        self.averaged.load_state_dict(self.network.state_dict())
        self._optimiser = torch.optim.AdamW(_groups(self.network, config.weight_decay), lr=config.rate)
        self.step = 0
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / CHECKPOINT).exists():
            self._load()

    def learn(self, score: Score | None = None) -> None:
        """Train up to `config.steps`, writing checkpoints; interrupted (Ctrl-C), it writes one and passes that on."""
        from torch.utils.tensorboard import SummaryWriter

        config = self.config
        if self.step >= config.steps:
            return
        progress = Progress(config.steps - self.step, "steps")
        writer = SummaryWriter(str(self._folder))
        try:
            while self.step < config.steps:
                losses = self._advance()
                progress.step(" ".join(f"{name} {value:.3f}" for name, value in losses.items()))
                if self.step % _SCALARS_EVERY == 0:
                    _write_scalars(writer, "loss", losses, self.step)
                if score is not None and self.step % config.score_every == 0:
                    _write_scalars(writer, "held out", score(self.averaged), self.step)
                if self.step % config.checkpoint_every == 0:
                    self._save()
        finally:
            self._save()
            writer.close()

    def _advance(self) -> dict[str, float]:
        """One step; the batch follows from seed and step alone."""
        config = self.config
        self.network.train()
        targets = targets_of(self._frames, self._rows())
        for group in self._optimiser.param_groups:
            group["lr"] = config.rate * self._rate_share()
        with torch.autocast("cpu", torch.bfloat16, enabled=config.bfloat16):
            sight = self.network(torch.from_numpy(self._frames.pictures[self._rows()]))
        loss, parts = loss_of(sight, targets, Weights())
        if not bool(torch.isfinite(loss)):
            fault = Fault(f"loss at step {self.step}", str(float(loss)), "a finite number")
            raise InvalidInputError("training", [fault], "lower the rate")
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.network.parameters(), 5.0)
        self._optimiser.step()
        self.step += 1
        self._average()
        return {name: float(part) for name, part in parts.items()}

    def _rows(self) -> np.ndarray:
        """The frames of this step: epochs of random order, cut into batches; the rest of the last is left out."""
        count, batch = len(self._frames), self.config.batch
        epoch, at = divmod(self.step, max(count // batch, 1))
        order = np.random.default_rng([self.config.seed, epoch]).permutation(count)
        return order[at * batch : (at + 1) * batch]

    def _rate_share(self) -> float:
        warm = min(1.0, (self.step + 1) / self.config.warmup_steps)
        return warm * 0.5 * (1.0 + math.cos(math.pi * min(1.0, self.step / self.config.steps)))

    @torch.no_grad()
    def _average(self) -> None:
        # Few steps have little to average over: the share of the old grows with the steps.
        keep = min(self.config.average, self.step / (self.step + 10))
        theirs = self.network.state_dict()
        for name, mine in self.averaged.state_dict().items():
            if mine.dtype.is_floating_point:
                mine.lerp_(theirs[name], 1.0 - keep)
            else:
                mine.copy_(theirs[name])

    # -- Checkpoints ---------------------------------------------------------------------------------------------

    def _save(self) -> None:
        state = {
            "config": asdict(self.config),
            "frames": len(self._frames),
            "step": self.step,
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimiser": self._optimiser.state_dict(),
        }
        with replaced(self._folder / CHECKPOINT) as file:
            torch.save(state, file)

    def _load(self) -> None:
        path = self._folder / CHECKPOINT
        state = read_checkpoint(path)
        before, now = dict(state["config"]), asdict(self.config)
        faults = [
            Fault(name, repr(now[name]), f"{before.get(name)!r} as in the checkpoint")
            for name in now
            if name not in _FREE and before.get(name) != now[name]
        ]
        if state["frames"] != len(self._frames):
            faults.append(Fault("frames", f"{len(self._frames)}", f"{state['frames']} as in the checkpoint"))
        if faults:
            raise InvalidInputError(f"training in {self._folder}", faults, "go on with the same settings, or elsewhere")
        self.network.load_state_dict(state["network"])
        self.averaged.load_state_dict(state["averaged"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.step = int(state["step"])


def read_checkpoint(path: Path) -> dict[str, Any]:
    """A checkpoint's content, tensors and plain values only; raises InvalidInputError where it is none."""
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch has a different one for each way of being damaged
        fault = Fault(str(path), str(error)[:200], "a checkpoint of this training")
        raise InvalidInputError("checkpoint", [fault], "delete it to begin anew") from error
    return state


def averaged_network(path: Path) -> EyesNetwork:
    """The averaged network of a checkpoint, ready to look."""
    network = EyesNetwork()
    network.load_state_dict(read_checkpoint(path)["averaged"])
    return network.eval()


def _groups(network: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameters with and without decay: biases and scales of normalisation have none."""
    parameters = list(network.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _write_scalars(writer: Any, group: str, values: dict[str, float], step: int) -> None:
    for name, value in values.items():
        writer.add_scalar(f"{group}/{name}", value, step)
