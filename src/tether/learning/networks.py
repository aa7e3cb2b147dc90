"""Networks of the hybrid soft actor-critic: every choice's heads in one batched multiplication.

Shapes: B states, O observation size, K choices, P parameters of all choices together, E critics.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name torch's own documentation uses)

LOG_STD_LOW, LOG_STD_HIGH = -5.0, 1.0
MEAN_LIMIT = 3.0
"""Means before tanh stay within ±3 (tanh 0.995): beyond, gradients vanish and the head would stick."""


class PolicyOutput(NamedTuple):
    """logits (B, K); mean and log_std (B, P) of the normal law before tanh."""

    logits: Tensor
    mean: Tensor
    log_std: Tensor


class Actor(nn.Module):
    """Observation (B, O) to a categorical law over choices and a tanh-normal law of each choice's parameters."""

    def __init__(self, obs_size: int, n_choices: int, n_params: int, hidden: Sequence[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = obs_size
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ReLU()]
            width = size
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.Linear(width, n_choices + 2 * n_params)
        self._split = (n_choices, n_params, n_params)
        with torch.no_grad():  # begin near uniform choices and centred parameters
            self.heads.weight.mul_(0.1)
            self.heads.bias.zero_()
            self.heads.bias[n_choices + n_params :] = 0.7

    def forward(self, obs: Tensor) -> PolicyOutput:
        """Both laws; the log deviation is soft-bounded to [LOG_STD_LOW, LOG_STD_HIGH]."""
        logits, mean, spread = self.heads(self.trunk(obs)).split(self._split, dim=-1)
        middle, half = (LOG_STD_HIGH + LOG_STD_LOW) / 2.0, (LOG_STD_HIGH - LOG_STD_LOW) / 2.0
        return PolicyOutput(logits, MEAN_LIMIT * torch.tanh(mean / MEAN_LIMIT), middle + half * torch.tanh(spread))


class Critics(nn.Module):
    """E critics: state (B, O) and all parameters (B, P) to the value of every choice (E, B, K).

    The value of a choice sees the state and that choice's parameters only: each choice has a branch of two layers,
    and the first multiplies parameters by a block mask. So one pass gives all K values, where MP-DQN
    (Bester et al. 2019, arXiv 1905.04388) needs K.
    """

    mask: Tensor

    def __init__(
        self, obs_size: int, owner: Tensor, hidden: Sequence[int], branch: int, count: int, layer_norm: bool
    ) -> None:
        super().__init__()
        n_choices, n_params = owner.shape
        self._branch, self._layer_norm = branch, layer_norm
        sizes = (obs_size, *hidden)
        self.trunk_w = nn.ParameterList([_uniform(count, a, b) for a, b in itertools.pairwise(sizes)])
        self.trunk_b = nn.ParameterList([_uniform(count, 1, b, fan_in=a) for a, b in itertools.pairwise(sizes)])
        fan_in = sizes[-1]
        self.state_w = _uniform(count, fan_in, n_choices * branch)
        self.state_b = _uniform(count, 1, n_choices * branch, fan_in=fan_in)
        self.param_w = _uniform(count, n_params, n_choices * branch, fan_in=max(1, int(owner.sum(1).max())))
        self.inner_w = _uniform(count * n_choices, branch, branch)
        self.inner_b = _uniform(count * n_choices, 1, branch, fan_in=branch)
        self.out_w = _uniform(count * n_choices, branch, 1)
        self.out_b = nn.Parameter(torch.zeros(count * n_choices, 1, 1))
        self.register_buffer("mask", owner.t().repeat_interleave(branch, dim=1), persistent=False)

    def forward(self, obs: Tensor, params: Tensor) -> Tensor:
        """Values (E, B, K); `params` (B, P) in [-1, 1]."""
        count, n_states = self.state_w.shape[0], obs.shape[0]
        x = obs.expand(count, *obs.shape)
        for weight, bias in zip(self.trunk_w, self.trunk_b, strict=True):
            x = self._activate(torch.baddbmm(bias, x, weight))
        x = torch.baddbmm(self.state_b, x, self.state_w)
        x = torch.baddbmm(x, params.expand(count, *params.shape), self.param_w * self.mask)
        x = x.view(count, n_states, -1, self._branch)
        x = self._activate(x).transpose(1, 2).reshape(-1, n_states, self._branch)
        x = self._activate(torch.baddbmm(self.inner_b, x, self.inner_w))
        values = torch.baddbmm(self.out_b, x, self.out_w)
        return values.view(count, -1, n_states).transpose(1, 2)

    def _activate(self, x: Tensor) -> Tensor:
        return F.relu(F.layer_norm(x, x.shape[-1:]) if self._layer_norm else x)


def flattened(module: nn.Module) -> nn.Parameter:
    """All weights of `module` as one vector, and their gradients as one, of which the module's own become views.

    What is done to all of them (Adam, clipping, averaging) is then one operation instead of one for each layer. Clear
    the gradient in place, never by setting it to None.
    """
    weights = list(module.parameters())
    flat = nn.Parameter(torch.cat([weight.detach().reshape(-1) for weight in weights]))
    flat.grad = torch.zeros_like(flat)
    sizes = [weight.numel() for weight in weights]
    parts = torch.split(flat.data, sizes), torch.split(flat.grad, sizes)
    for weight, data, grad in zip(weights, *parts, strict=True):
        weight.data = data.view_as(weight)
        if weight.requires_grad:
            weight.grad = grad.view_as(weight)
    return flat


def _uniform(count: int, rows: int, columns: int, fan_in: int | None = None) -> nn.Parameter:
    """As torch.nn.Linear begins."""
    bound = 1.0 / math.sqrt(max(1, rows if fan_in is None else fan_in))
    return nn.Parameter(torch.empty(count, rows, columns).uniform_(-bound, bound))


def masked_log_probs(logits: Tensor, mask: Tensor) -> Tensor:
    """log π(k | s) (B, K), very small (not -inf, whose gradient is not a number) for invalid choices."""
    return F.log_softmax(logits.masked_fill(mask == 0.0, -1e9), dim=-1)


def squash(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Parameters z = tanh(mean + std · noise) (B, P) and log density of each z (B, P), with gradients."""
    u = mean + log_std.exp() * noise
    normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)
    jacobian = 2.0 * (math.log(2.0) - u - F.softplus(-2.0 * u))
    return torch.tanh(u), normal - jacobian


def normal_kl(old: PolicyOutput, new: PolicyOutput) -> Tensor:
    """KL(old ‖ new) of each parameter (B, P), the same before and after tanh."""
    variance_ratio = (2.0 * (old.log_std - new.log_std)).exp()
    distance = ((old.mean - new.mean) / new.log_std.exp()).square()
    return 0.5 * (variance_ratio + distance - 1.0) + new.log_std - old.log_std
