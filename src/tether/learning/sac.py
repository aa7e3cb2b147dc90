"""Soft actor-critic for hybrid actions.

Haarnoja et al. 2018 (arXiv 1812.05905) with the entropy of choice and parameters kept apart, each with its own
temperature and target (Delalleau et al. 2019, arXiv 1912.11077). With w the weight of each choice, either the policy's
probabilities or one drawn one-hot choice, both losses are made of the same sum over choices:

    V(s) = Σ_k w_k [ min_e Q_e(s, k, x_k) + α_x (H_x,k - target_x,k) ] + α_k (H_k - target_k)

Entropies count from their targets, so that neither a choice with more parameters nor a longer episode is worth more
for its randomness.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (the name torch's own documentation uses)

from tether.contracts import F32
from tether.errors import Fault, InvalidInputError
from tether.learning import arrays as files
from tether.learning.config import ChoiceGradient, KlConstraint, Normalise, SacConfig
from tether.learning.networks import (
    Actor,
    Critics,
    PolicyOutput,
    flattened,
    masked_log_probs,
    normal_kl,
    squash,
)
from tether.learning.plain import config_of, config_to_plain, space_of, space_to_plain
from tether.learning.replay import Batch
from tether.learning.spaces import Bool, HybridAction, HybridSpace, ObservationSpace

_OBS_LIMIT = 10.0
_STD_FLOOR = 1e-2
_KL_MULTIPLIER = (1e-3, 1e4)


class UpdateInfo(NamedTuple):
    """What an update saw, as 0-d tensors; the actor's are those of its newest update."""

    critic_loss: Tensor
    q_mean: Tensor
    actor_loss: Tensor
    choice_entropy: Tensor
    param_entropy: Tensor
    choice_temperature: Tensor
    param_temperature: Tensor
    kl: Tensor
    kl_multiplier: Tensor


class Agent:
    """Networks, temperatures, constraint and their optimisers. `seed` sets weights and every later draw."""

    def __init__(self, space: HybridSpace, obs_size: int, config: SacConfig, seed: int) -> None:
        self.space, self.obs_size, self.config = space, obs_size, config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.actor = Actor(obs_size, space.n_choices, space.n_params, config.hidden)
            self.critics = Critics(
                obs_size,
                torch.tensor(space.owner),
                config.critic_hidden,
                config.branch_width,
                config.critics,
                config.layer_norm,
            )
        self.previous = _frozen_copy(self.actor)
        self.target = _frozen_copy(self.critics)
        self._actor_flat, self._critic_flat = flattened(self.actor), flattened(self.critics)
        self._target_flat = flattened(self.target).requires_grad_(False)
        self._owner = torch.tensor(space.owner)
        self._sizes = self._owner.sum(dim=1)
        self._log_alpha = torch.full((2,), float(np.log(config.temperature_init)), requires_grad=True)
        self._log_beta = torch.zeros(())
        self._obs_mean, self._obs_scale = torch.zeros(obs_size), torch.ones(obs_size)
        self._actor_adam = _adam(self._actor_flat, config.actor_rate)
        self._critic_adam = _adam(self._critic_flat, config.critic_rate)
        self._alpha_adam = _adam(self._log_alpha, config.temperature_rate)
        self._generator = torch.Generator().manual_seed(seed)
        self._updates = 0
        self._actor_info = (torch.zeros(()),) * 4

    @property
    def updates(self) -> int:
        """Critic updates so far."""
        return self._updates

    def normalise_by_bounds(self, observations: ObservationSpace) -> None:
        """Map the bounds of the observation space to [-1, 1]; raises InvalidInputError where they are not finite."""
        width = (observations.high - observations.low) / 2.0
        if not np.all(np.isfinite(width)) or np.any(width <= 0.0):
            fault = Fault("observation space", "bounds that are infinite or empty", "finite bounds, low < high")
            raise InvalidInputError("normalise: bounds", [fault], "choose normalise: warmup")
        self._set_normaliser((observations.high + observations.low) / 2.0, width)

    def normalise_by_data(self, observations: F32) -> None:
        """Take mean and deviation of (N, O) observations."""
        self._set_normaliser(observations.mean(axis=0), np.maximum(observations.std(axis=0), _STD_FLOOR))

    def _set_normaliser(self, mean: NDArray[Any], scale: NDArray[Any]) -> None:
        self._obs_mean = torch.as_tensor(mean, dtype=torch.float32)
        self._obs_scale = torch.as_tensor(scale, dtype=torch.float32)

    def normalised(self, obs: Tensor) -> Tensor:
        """Observations (B, O) as the networks take them."""
        if self.config.normalise is Normalise.NONE:
            return obs
        return ((obs - self._obs_mean) / self._obs_scale).clamp(-_OBS_LIMIT, _OBS_LIMIT)

    # ---- acting -------------------------------------------------------------------------------------------------

    def act(self, obs: F32, deterministic: bool, mask: Bool | None = None) -> HybridAction:
        """The action for one observation (O,): (choice, that choice's parameters in the environment's units).

        `deterministic` takes the likeliest valid choice and the middle of its parameters; `mask` (K,) is True where
        a choice is valid.
        """
        return self.space.from_unit(*self.act_unit(obs, deterministic, mask))

    def act_unit(self, obs: F32, deterministic: bool, mask: Bool | None = None) -> tuple[int, F32]:
        """As `act`, but flat parameters (P,) in [-1, 1], 0 for the other choices."""
        valid = torch.ones(1, self.space.n_choices) if mask is None else torch.from_numpy(mask).float()[None]
        with torch.inference_mode():
            out = self.actor(self.normalised(torch.from_numpy(obs)[None]))
            log_probs = masked_log_probs(out.logits, valid)
            if deterministic:
                choice, z = int(log_probs.argmax()), torch.tanh(out.mean)
            else:
                choice = int(torch.multinomial(log_probs.exp(), 1, generator=self._generator))
                z, _ = squash(out.mean, out.log_std, self._noise(out.mean))
        return choice, (z[0] * self._owner[choice]).numpy()

    # ---- learning -----------------------------------------------------------------------------------------------

    def update(self, batch: Batch, annealed: float) -> UpdateInfo:
        """One step of the critics and, every `actor_period`, of actor, temperatures and constraint.

        `annealed` in [0, 1] moves the entropy targets from their start to their end values.
        """
        critic_loss, q_mean = self._update_critics(batch, annealed)
        self._updates += 1
        if self._updates % self.config.actor_period == 0:
            self._actor_info = self._update_actor(batch, annealed)
            actor_updates = self._updates // self.config.actor_period
            if actor_updates % self.config.kl_period == 0:
                self.previous.load_state_dict(self.actor.state_dict())
        self._target_flat.lerp_(self._critic_flat.detach(), self.config.polyak)
        alpha = self._log_alpha.detach().exp()
        actor_loss, choice_entropy, param_entropy, kl = self._actor_info
        return UpdateInfo(
            critic_loss, q_mean, actor_loss, choice_entropy, param_entropy, alpha[0], alpha[1], kl, self._log_beta.exp()
        )

    def _update_critics(self, batch: Batch, annealed: float) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            next_obs = self.normalised(batch.next_obs)
            out = self.actor(next_obs)
            value = self._value(self.target, next_obs, batch.next_mask, out, annealed).value
            wanted = batch.reward * self.config.reward_scale + batch.discount * value
        q = (self.critics(self.normalised(batch.obs), batch.params) * batch.choice).sum(dim=-1)
        loss = F.mse_loss(q, wanted.expand_as(q)) * self.config.critics
        _descend(loss, self.critics, self._critic_flat, self._critic_adam, self.config.max_grad_norm)
        return loss.detach(), q.detach().mean()

    def _update_actor(self, batch: Batch, annealed: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        obs = self.normalised(batch.obs)
        out = self.actor(obs)
        terms = self._value(self.critics, obs, batch.mask, out, annealed)
        loss = -terms.value.mean()
        kl = torch.zeros(())
        if self.config.kl_constraint is KlConstraint.ON:
            with torch.no_grad():
                old = self.previous(obs)
            kl = self._kl(old, out, batch.mask)
            beta = self._log_beta.exp()
            loss = (loss + beta * kl) / (1.0 + beta)
            self._move_multiplier(kl.detach())
        _descend(loss, self.actor, self._actor_flat, self._actor_adam, self.config.max_grad_norm)
        self._update_temperatures(terms)
        return loss.detach(), terms.choice_entropy.mean(), terms.param_entropy.mean(), kl.detach()

    def _value(self, critics: nn.Module, obs: Tensor, mask: Tensor, out: PolicyOutput, annealed: float) -> _ValueTerms:
        """The sum at the head of this file, for B states."""
        log_probs = masked_log_probs(out.logits, mask)
        probs = log_probs.exp()
        weights = probs
        if self.config.choice_gradient is ChoiceGradient.GUMBEL:
            weights = self._gumbel_one_hot(log_probs)
        z, log_density = squash(out.mean, out.log_std, self._noise(out.mean))
        q = critics(obs, z).amin(dim=0)
        share, per_param = self._targets(annealed)
        surplus_x = -(log_density @ self._owner.t()) - self._sizes * per_param
        entropy = -(probs * log_probs).sum(dim=-1)
        surplus_k = entropy - share * mask.sum(dim=-1).log()
        alpha = self._log_alpha.detach().exp()
        each = q + alpha[1] * surplus_x
        drawn = self._param_weights(weights.detach(), mask)
        value = (weights * each).sum(dim=-1) + alpha[0] * surplus_k
        value = value + ((drawn - weights.detach()) * (each - each.detach())).sum(dim=-1)  # gradient only
        return _ValueTerms(
            value,
            choice_entropy=entropy.detach(),
            choice_surplus=surplus_k.detach(),
            param_surplus=(drawn * surplus_x.detach()).sum(dim=-1),
            param_entropy=(drawn * -(log_density.detach() @ self._owner.t())).sum(dim=-1),
        )

    def _param_weights(self, weights: Tensor, mask: Tensor) -> Tensor:
        """(B, K) how much each choice's parameters count in the actor's gradient; sums to 1 over the valid choices."""
        even = mask / mask.sum(dim=-1, keepdim=True)
        return torch.lerp(weights, even, self.config.param_spread)

    def _gumbel_one_hot(self, log_probs: Tensor) -> Tensor:
        """(B, K) one-hot choices whose gradient is the softmax's; invalid choices are never drawn."""
        uniform = torch.rand(log_probs.shape, generator=self._generator).clamp_(1e-10, 1.0 - 1e-7)
        soft = torch.softmax((log_probs - (-uniform.log()).log()) / self.config.gumbel_temperature, dim=-1)
        hard = F.one_hot(soft.argmax(dim=-1), log_probs.shape[-1]).to(soft.dtype)
        return hard + (soft - soft.detach())  # in this order exactly one-hot

    def _kl(self, old: PolicyOutput, new: PolicyOutput, mask: Tensor) -> Tensor:
        """Mean over states and over valid choices that have parameters: those not chosen must not drift either."""
        per_choice = normal_kl(old, new) @ self._owner.t()
        counted = mask * (self._sizes > 0).to(mask.dtype)
        return (per_choice * counted).sum() / counted.sum().clamp(min=1.0)

    def _move_multiplier(self, kl: Tensor) -> None:
        """Dual ascent on log β: up while the KL is above its limit, down while below."""
        low, high = np.log(_KL_MULTIPLIER)
        step = ((kl / self.config.kl_limit) - 1.0).clamp(-1.0, 10.0)
        self._log_beta = (self._log_beta + self.config.kl_rate * step).clamp(float(low), float(high))

    def _update_temperatures(self, terms: _ValueTerms) -> None:
        surplus = torch.stack((terms.choice_surplus.mean(), terms.param_surplus.mean()))
        self._log_alpha.grad = self._log_alpha.detach().exp() * surplus
        self._alpha_adam.step()
        with torch.no_grad():
            self._log_alpha.clamp_(-20.0, float(np.log(self.config.temperature_max)))

    def _targets(self, annealed: float) -> tuple[float, float]:
        (a, b), (c, d) = self.config.choice_entropy, self.config.param_entropy
        return a + (b - a) * annealed, c + (d - c) * annealed

    def _noise(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self._generator)

    # ---- keeping ------------------------------------------------------------------------------------------------

    def save(self, path: Path) -> None:
        """Write the agent to an npz file, to act and to go on from (without the optimisers' moments)."""
        files.save(path, self._networks(), self._meta())

    @staticmethod
    def load(path: Path, seed: int = 0) -> Agent:
        """Read what `save` wrote; raises InvalidInputError."""
        state, meta = files.load(path)
        if meta.get("kind") != "hybrid agent":
            fault = Fault(str(path), f"kind {meta.get('kind')!r}", "kind 'hybrid agent'")
            raise InvalidInputError("agent", [fault], "give an agent file (agent.npz)")
        agent = Agent(space_of(meta["space"]), int(meta["obs_size"]), config_of(meta["config"], SacConfig), seed)
        agent._restore_networks(state)
        return agent

    def _meta(self) -> dict[str, object]:
        return {
            "kind": "hybrid agent",
            "space": space_to_plain(self.space),
            "obs_size": self.obs_size,
            "config": config_to_plain(self.config),
        }

    def state(self) -> files.Arrays:
        """All that goes on: networks, optimisers, temperatures, constraint, random state."""
        counts = {"updates": np.array(self._updates), "generator": self._generator.get_state().numpy()}
        info = {"actor_info": torch.stack(self._actor_info).numpy()}
        state = {**self._networks(), **counts, **info}
        for name, adam in self._optimisers().items():
            state |= files.under(name, _adam_state(adam))
        return state

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Become the agent that gave `state`."""
        self._restore_networks(state)
        self._updates = int(state["updates"])
        self._generator.set_state(torch.from_numpy(state["generator"].copy()))
        info = torch.from_numpy(state["actor_info"].copy())
        self._actor_info = (info[0], info[1], info[2], info[3])
        for name, adam in self._optimisers().items():
            _restore_adam(adam, files.part(state, name))

    def _modules(self) -> dict[str, nn.Module]:
        return {"actor": self.actor, "critics": self.critics, "previous": self.previous, "target": self.target}

    def _optimisers(self) -> dict[str, torch.optim.Adam]:
        return {"adam_actor": self._actor_adam, "adam_critic": self._critic_adam, "adam_alpha": self._alpha_adam}

    def _networks(self) -> files.Arrays:
        state = {
            "log_alpha": self._log_alpha.detach().numpy().copy(),
            "log_beta": self._log_beta.numpy().copy(),
            "obs_mean": self._obs_mean.numpy(),
            "obs_scale": self._obs_scale.numpy(),
        }
        for name, module in self._modules().items():
            state |= files.under(name, {key: value.numpy() for key, value in module.state_dict().items()})
        return state

    def _restore_networks(self, state: Mapping[str, NDArray[Any]]) -> None:
        try:
            for name, module in self._modules().items():
                tensors = {key: torch.from_numpy(value.copy()) for key, value in files.part(state, name).items()}
                module.load_state_dict(tensors)
            with torch.no_grad():
                self._log_alpha.copy_(torch.from_numpy(state["log_alpha"]))
            self._log_beta = torch.from_numpy(state["log_beta"].copy())
            self._set_normaliser(state["obs_mean"], state["obs_scale"])
        except (KeyError, RuntimeError) as error:
            fault = Fault("networks", str(error), "the arrays of an agent of the same space and configuration")
            raise InvalidInputError("agent", [fault]) from error


class _ValueTerms(NamedTuple):
    """All (B,); only `value` carries gradients."""

    value: Tensor
    choice_entropy: Tensor
    choice_surplus: Tensor
    param_surplus: Tensor
    param_entropy: Tensor


def _frozen_copy(module: nn.Module) -> nn.Module:
    frozen = copy.deepcopy(module)
    frozen.requires_grad_(False)
    return frozen


def _descend(loss: Tensor, module: nn.Module, flat: nn.Parameter, adam: torch.optim.Adam, max_norm: float) -> None:
    """A step of `module`, whose weights are `flat`, and of nothing else that `loss` depends on."""
    assert flat.grad is not None
    flat.grad.zero_()
    loss.backward(inputs=list(module.parameters()))  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(flat, max_norm)
    adam.step()


def _adam(weights: Tensor, rate: float) -> torch.optim.Adam:
    return torch.optim.Adam([weights], lr=rate, fused=True)


def _adam_state(adam: torch.optim.Adam) -> files.Arrays:
    [weights] = adam.param_groups[0]["params"]
    return {name: value.numpy() for name, value in adam.state.get(weights, {}).items()}


def _restore_adam(adam: torch.optim.Adam, state: Mapping[str, NDArray[Any]]) -> None:
    [weights] = adam.param_groups[0]["params"]
    adam.state.pop(weights, None)
    if not state:
        return
    moments = ("exp_avg", "exp_avg_sq")
    if set(state) != {"step", *moments} or any(state[name].shape != weights.shape for name in moments):
        found = ", ".join(f"{name} {value.shape}" for name, value in sorted(state.items()))
        fault = Fault("optimiser", found, f"step, and {' and '.join(moments)} of {tuple(weights.shape)}")
        raise InvalidInputError(
            "agent", [fault], "a run goes on only with the version that began it: name a new folder"
        )
    adam.state[weights] = {name: torch.from_numpy(value.copy()) for name, value in state.items()}
