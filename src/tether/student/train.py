"""Distillation: one readable loop from collected episodes to a student, with checkpoints that resume exactly.

Loss (docs/student.md): the error of the estimate, the error of the predicted states, KL from the teacher on the
primitive and on its parameters. The first two lead at first; what acts on the state learns once there is one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tether.files import replaced
from tether.student.data import Batch, Episodes, drop_modalities
from tether.student.network import Compensation, Fused, NetworkConfig, StudentNet

_P_M, _V_M_S, _A_M_S2 = 0.003, 0.05, 1.0
_SPREAD_MIN = 0.05
_STATE_BETA = 0.05


@dataclass(frozen=True)
class TrainConfig:
    """How a student is trained. action_mse: plain regression of one-hot primitive and parameters (a baseline).

    exact_only: learns from episodes under the collection's own profile alone (naive transfer, where that is `ideal`).
    """

    steps: int = 4000
    sequences: int = 48
    length: int = 16
    rate: float = 2e-3
    seed: int = 0
    modality_dropout: float = 0.04
    action_mse: bool = False
    exact_only: bool = False
    checkpoint_steps: int = 500
    log_steps: int = 50
    network: NetworkConfig = field(default_factory=NetworkConfig)


@dataclass(frozen=True, eq=False)
class Losses:
    """Parts of the loss, each a mean over decisions."""

    estimate: Tensor
    sigma: Tensor
    prediction: Tensor
    primitive: Tensor
    params: Tensor


def coefficients(progress: float) -> dict[str, float]:
    """Weights of the parts at `progress` 0 to 1 of the training: the state first, the action from a tenth on."""
    rise = min(max((progress - 0.02) / 0.08, 0.0), 1.0)
    return {
        "estimate": 1.0,
        "sigma": 0.1,
        "prediction": 2.0 - 1.0 * progress,
        "primitive": 0.1 + 0.9 * rise,
        "params": 0.02 + 0.18 * rise,
    }


def losses(fused: Fused, logits: Tensor, params: Tensor, batch: Batch, action_mse: bool) -> Losses:
    """Every part of the loss of a batch."""
    weight = batch.weight / batch.weight.sum().clamp(min=1.0)
    cube = batch.cube
    gap = fused.p - cube[:, :3]
    estimate = (
        _huber(gap / _P_M)
        + _huber((fused.v - cube[:, 3:6]) / _V_M_S)
        + 0.3 * _huber((fused.a - cube[:, 6:9]) / _A_M_S2)
    )
    spread2 = (gap.detach() ** 2).mean(dim=-1)
    log_sigma = fused.log_sigma[:, 0]
    sigma = log_sigma + 0.5 * spread2 * torch.exp(-2.0 * log_sigma)
    off = functional.smooth_l1_loss(fused.states, batch.states, beta=_STATE_BETA, reduction="none").mean(dim=-1)
    ahead = torch.ones(off.shape[1])
    ahead[4:] = 0.5
    prediction = (off * batch.state_mask * ahead).sum(dim=1) * 4.0
    if action_mse:
        primitive = ((torch.softmax(logits, dim=-1) - batch.probability) ** 2).sum(dim=-1)
        per_params = (batch.probability * ((params - batch.mean) ** 2).sum(dim=-1)).sum(dim=-1)
    else:
        primitive, per_params = action_losses(logits, params, batch.probability, batch.mean, batch.spread)
    return Losses(*((part * weight).sum() for part in (estimate, sigma, prediction, primitive, per_params)))


def action_losses(
    logits: Tensor, params: Tensor, probability: Tensor, mean: Tensor, spread: Tensor
) -> tuple[Tensor, Tensor]:
    """KL from the teacher on the primitive and on its parameters, for each decision.

    logits, probability: (…, K); params, mean, spread: (…, K, P), -1 to 1 within the bounds.
    """
    primitive = -(probability * torch.log_softmax(logits, dim=-1)).sum(dim=-1)
    kl = 0.5 * (((params - mean) / spread.clamp(min=_SPREAD_MIN)) ** 2).sum(dim=-1)
    # Far off, as at first, the quadratic would drown all else.
    return primitive, (probability * torch.log1p(kl)).sum(dim=-1)


def train(
    config: TrainConfig,
    shards: Sequence[Path],
    folder: Path,
    on_step: Callable[[str], None] | None = None,
    start_from: Path | None = None,
) -> StudentNet:
    """Train on what `shards` hold; goes on from the checkpoint in `folder` where there is one.

    start_from: checkpoint whose weights a new training begins with (the next round of distillation).
    """
    from torch.utils.tensorboard import SummaryWriter  # seconds of import

    torch.manual_seed(config.seed)
    episodes = Episodes(shards, exact_only=config.exact_only)
    net = StudentNet(config.network)
    optimizer = torch.optim.AdamW(net.parameters(), lr=config.rate, weight_decay=1e-4)
    if start_from is not None:
        net.load_state_dict(_load(start_from)["net"])
    first = _resume(folder / "checkpoint.pt", net, optimizer)
    folder.mkdir(parents=True, exist_ok=True)
    writer = SummaryWriter(str(folder / "tensorboard"))
    net.train()
    for step in range(first, config.steps):
        torch.manual_seed(config.seed * 1_000_003 + step)
        rng = np.random.default_rng((config.seed, step))
        progress = step / config.steps
        batch = episodes.sampled(rng, config.sequences, config.length)
        obs = drop_modalities(batch.obs, rng, config.modality_dropout)
        fused, logits, params = net(obs, batch.memory, episodes.has_tokens)
        parts = losses(fused, logits, params, batch, config.action_mse)
        share = coefficients(progress)
        loss = sum(share[name] * part for name, part in vars(parts).items())
        for group in optimizer.param_groups:
            group["lr"] = config.rate * _schedule(step, config.steps)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(torch.as_tensor(loss))
        torch.nn.utils.clip_grad_norm_(net.parameters(), 2.0)
        optimizer.step()
        if step % config.log_steps == 0 or step == config.steps - 1:
            for name, part in vars(parts).items():
                writer.add_scalar(f"loss/{name}", float(part.detach()), step)
        if on_step is not None:
            on_step(" ".join(f"{name} {float(part.detach()):.3f}" for name, part in vars(parts).items()))
        if (step + 1) % config.checkpoint_steps == 0 or step == config.steps - 1:
            _save(folder / "checkpoint.pt", net, optimizer, step + 1, config)
    writer.close()
    return net.eval()


def load_student(path: Path) -> StudentNet:
    """The net of a checkpoint, ready to be used."""
    state = _load(path)
    sizes = dict(state["network"])
    net = StudentNet(NetworkConfig(**{**sizes, "compensation": Compensation(sizes["compensation"])}))
    net.load_state_dict(state["net"])
    return net.eval()


def checkpoint_step(path: Path) -> int:
    """How many steps a checkpoint has behind it; 0 where there is none."""
    return int(_load(path)["step"]) if path.exists() else 0


def _schedule(step: int, steps: int) -> float:
    """Warm-up over 100 steps, then half a cosine to a fiftieth."""
    if step < 100:
        return (step + 1) / 100
    return 0.02 + 0.98 * 0.5 * (1.0 + math.cos(math.pi * step / max(steps, 1)))


def _huber(x: Tensor) -> Tensor:
    return functional.smooth_l1_loss(x, torch.zeros_like(x), reduction="none").sum(dim=-1)


def _save(path: Path, net: StudentNet, optimizer: torch.optim.Optimizer, step: int, config: TrainConfig) -> None:
    sizes = dataclasses.asdict(config.network)
    sizes["compensation"] = config.network.compensation.value
    state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "network": sizes}
    with replaced(path) as file:
        torch.save(state, file)


def _load(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = torch.load(path, weights_only=True)  # tensors and plain values; no code is run
    return loaded


def _resume(path: Path, net: StudentNet, optimizer: torch.optim.Optimizer) -> int:
    if not path.exists():
        return 0
    state = _load(path)
    net.load_state_dict(state["net"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])
