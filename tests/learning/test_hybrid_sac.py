"""The learner: masks hold in actor and critic, parameters stay others', the KL constraint limits drift."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="learning needs the `train` extra")
import torch
from gymnasium import spaces

from tether.errors import InvalidInputError
from tether.learning.config import ChoiceGradient, KlConstraint, SacConfig
from tether.learning.networks import PolicyOutput, flattened, masked_log_probs, normal_kl, squash
from tether.learning.replay import Batch, Replay
from tether.learning.sac import Agent
from tether.learning.spaces import HybridSpace

OBS, SIZES = 3, (1, 2, 0)
SPACE = HybridSpace.of(spaces.Tuple((spaces.Discrete(3), *(spaces.Box(-1.0, 1.0, (n,)) for n in SIZES))))
SMALL = SacConfig(hidden=(32, 32), critic_hidden=(32,), branch_width=16)
BOTH = pytest.mark.parametrize("gradient", list(ChoiceGradient))


def _agent(**changes: object) -> Agent:
    return Agent(SPACE, OBS, dataclasses.replace(SMALL, **changes), seed=0)  # type: ignore[arg-type]


def _batch(mask: list[int], count: int = 64) -> Batch:
    """Random transitions, whose choices are valid and whose reward is the sum of their parameters."""
    rng = np.random.default_rng(0)
    replay = Replay(count, OBS, 3, 3)
    valid = np.array(mask, dtype=np.bool_)
    for _ in range(count):
        choice = int(rng.choice(np.flatnonzero(valid)))
        z = SPACE.to_unit(choice, rng.uniform(-1.0, 1.0, SIZES[choice]).astype(np.float32))
        obs, after = rng.normal(size=(2, OBS)).astype(np.float32)
        replay.add(obs, valid, choice, z, float(z.sum()), 0.9, after, valid)
    return replay.batch(replay.state()["table"])


def test_a_choice_is_valued_by_its_own_parameters_alone() -> None:
    critics = _agent().critics
    obs = torch.randn(5, OBS)
    for choice in range(3):
        params = torch.rand(5, 3, requires_grad=True)
        critics(obs, params)[:, :, choice].sum().backward()
        assert params.grad is not None
        own = torch.tensor(SPACE.owner[choice]).bool()
        assert torch.all(params.grad[:, ~own] == 0.0)
        assert torch.all(params.grad[:, own] != 0.0)


def test_replayed_transitions_teach_only_the_branch_of_their_choice() -> None:
    agent = _agent(layer_norm=False)
    q = (agent.critics(torch.randn(4, OBS), torch.zeros(4, 3)) * torch.tensor([0.0, 1.0, 0.0])).sum()
    q.backward()
    grad = agent.critics.inner_w.grad.view(2, 3, 16, 16)
    assert torch.all(grad[:, [0, 2]] == 0.0) and torch.any(grad[:, 1] != 0.0)


@BOTH
def test_parameters_of_choices_not_weighed_get_no_gradient(gradient: ChoiceGradient) -> None:
    agent = _agent(choice_gradient=gradient)
    obs = torch.randn(40, OBS)
    out = agent.actor(obs)
    mean = out.mean.detach().requires_grad_(True)
    mask = torch.tensor([[1.0, 0.0, 1.0]]).expand(40, 3)
    terms = agent._value(agent.critics, obs, mask, PolicyOutput(out.logits, mean, out.log_std), 0.0)
    terms.value.sum().backward()
    assert mean.grad is not None
    assert torch.all(mean.grad[:, 1:3] == 0.0), "choice 1 is invalid: its two parameters must not move"
    if gradient is ChoiceGradient.GUMBEL:
        drawn = mean.grad[:, 0] != 0.0
        assert 0 < int(drawn.sum()) < 40, "choice 0 is drawn in some states; only there its parameter moves"
    else:
        assert torch.all(mean.grad[:, 0] != 0.0)


def _slopes(spread: float, logits: list[float]) -> tuple[torch.Tensor, torch.Tensor, float]:
    """d(sum of values) by means (B, P) and by logits (B, K), and the value; the same noise for every call."""
    agent = _agent(param_spread=spread)
    obs = torch.randn(40, OBS, generator=torch.Generator().manual_seed(1))
    out = agent.actor(obs)
    mean = out.mean.detach().requires_grad_(True)
    leaf = torch.tensor([logits]).repeat(40, 1).requires_grad_(True)
    mask = torch.tensor([[1.0, 1.0, 0.0]]).expand(40, 3)
    terms = agent._value(agent.critics, obs, mask, PolicyOutput(leaf, mean, out.log_std.detach()), 0.0)
    by_mean, by_logits = torch.autograd.grad(terms.value.sum(), (mean, leaf))
    return by_mean, by_logits, float(terms.value.detach().sum())


def test_spread_moves_parameters_of_choices_that_are_hardly_taken() -> None:
    """Choice 0 has probability 1e-13: spread evenly over the two valid choices, its parameter counts a half of the
    share, whatever the policy's probabilities; value and gradient of the choice stay what they were."""
    sure, _, _ = _slopes(0.0, [30.0, 0.0, 0.0])
    plain, plain_choice, plain_value = _slopes(0.0, [-30.0, 0.0, 0.0])
    spread, spread_choice, spread_value = _slopes(0.4, [-30.0, 0.0, 0.0])
    assert torch.all(plain[:, 0].abs() < 1e-9)
    torch.testing.assert_close(spread[:, 0], 0.2 * sure[:, 0])
    torch.testing.assert_close(spread[:, 1:], 0.8 * plain[:, 1:])
    torch.testing.assert_close(spread_choice, plain_choice)
    assert spread_value == pytest.approx(plain_value)


def _parameter_of_the_worse_choice(spread: float) -> float:
    """Choice 0 pays 2. Choice 1 pays 1 where its first parameter is 0.6, -0.2 where that begins: what it ends at."""
    rng = np.random.default_rng(0)
    replay = Replay(512, OBS, 3, 3)
    valid = np.array([True, True, False])
    obs = np.zeros(OBS, dtype=np.float32)
    for i in range(512):
        z = SPACE.to_unit(i % 2, rng.uniform(-1.0, 1.0, SIZES[i % 2]).astype(np.float32))
        reward = 2.0 if i % 2 == 0 else 1.0 - 2.0 * abs(float(z[1]) - 0.6)
        replay.add(obs, valid, i % 2, z, reward, 0.0, obs, valid)
    agent = _agent(
        param_spread=spread, critic_rate=3e-3, actor_rate=3e-3, choice_entropy=(0.0, 0.0), param_entropy=(-2.0, -2.0)
    )
    for _ in range(400):
        agent.update(replay.batch(replay.rows(rng, 64)), 0.0)
    with torch.no_grad():
        mean = agent.actor(torch.from_numpy(obs)[None]).mean
    return float(torch.tanh(mean[0, 1]))


def test_a_choice_that_is_not_taken_still_learns_its_best_parameter() -> None:
    """Else it stays as bad as it was when it was given up, and is never taken again: the plateau of Platform."""
    assert _parameter_of_the_worse_choice(0.5) == pytest.approx(0.6, abs=0.15)
    assert abs(_parameter_of_the_worse_choice(0.0) - 0.6) > 0.2


def test_all_weights_are_one_vector_that_its_module_sees() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    inputs = torch.randn(4, 2)
    before = module(inputs)
    wanted = torch.autograd.grad(before.sum(), list(module.parameters()))
    flat = flattened(module)
    assert flat.shape == (13,)
    torch.testing.assert_close(module(inputs), before)
    module(inputs).sum().backward()
    assert flat.grad is not None
    torch.testing.assert_close(flat.grad, torch.cat([slope.reshape(-1) for slope in wanted]))
    torch.optim.SGD([flat], lr=0.1).step()
    moved = torch.cat([weight.detach().reshape(-1) for weight in module.parameters()])
    torch.testing.assert_close(moved, flat.detach())
    assert not torch.allclose(module(inputs), before)


@BOTH
def test_the_choice_gets_a_gradient(gradient: ChoiceGradient) -> None:
    agent = _agent(choice_gradient=gradient)
    obs = torch.randn(40, OBS)
    out = agent.actor(obs)
    logits = out.logits.detach().requires_grad_(True)
    terms = agent._value(agent.critics, obs, torch.ones(40, 3), PolicyOutput(logits, out.mean, out.log_std), 0.0)
    terms.value.sum().backward()
    assert logits.grad is not None and torch.all(torch.any(logits.grad != 0.0, dim=1))


def test_both_ways_agree_on_the_value_in_expectation() -> None:
    obs, mask = torch.randn(1, OBS).expand(40_000, OBS), torch.ones(40_000, 3)
    means = []
    for gradient in ChoiceGradient:
        agent = _agent(choice_gradient=gradient)
        with torch.no_grad():
            means.append(float(agent._value(agent.critics, obs, mask, agent.actor(obs), 0.0).value.mean()))
    assert means[0] == pytest.approx(means[1], abs=0.02)


def test_invalid_choices_are_never_taken() -> None:
    agent = _agent()
    mask = np.array([False, True, False])
    obs = np.zeros(OBS, dtype=np.float32)
    for deterministic in (True, False):
        for _ in range(30):
            choice, params = agent.act(obs, deterministic, mask)
            assert choice == 1 and params.shape == (2,) and np.all(np.abs(params) <= 1.0)


@BOTH
def test_updates_with_a_single_valid_choice_stay_finite(gradient: ChoiceGradient) -> None:
    agent = _agent(choice_gradient=gradient)
    batch = _batch([0, 0, 1])
    for _ in range(5):
        info = agent.update(batch, 0.0)
    assert all(bool(torch.isfinite(value)) for value in info)
    assert all(bool(torch.isfinite(p).all()) for p in agent.actor.parameters())


def test_densities_are_those_of_a_tanh_normal() -> None:
    mean, log_std = torch.tensor([[0.3, -1.0]]), torch.tensor([[-0.5, 0.2]])
    z, log_density = squash(mean, log_std, torch.tensor([[0.7, -1.1]]))
    law = torch.distributions.TransformedDistribution(
        torch.distributions.Normal(mean, log_std.exp()), torch.distributions.TanhTransform()
    )
    torch.testing.assert_close(log_density, law.log_prob(z), rtol=1e-4, atol=1e-4)


def test_the_kl_is_torchs() -> None:
    old = PolicyOutput(torch.zeros(1, 1), torch.tensor([[0.3]]), torch.tensor([[-0.5]]))
    new = PolicyOutput(torch.zeros(1, 1), torch.tensor([[-0.2]]), torch.tensor([[0.1]]))
    laws = [torch.distributions.Normal(out.mean, out.log_std.exp()) for out in (old, new)]
    torch.testing.assert_close(normal_kl(old, new), torch.distributions.kl_divergence(*laws))


def test_masked_probabilities_have_finite_gradients() -> None:
    logits = torch.zeros(1, 3, requires_grad=True)
    log_probs = masked_log_probs(logits, torch.tensor([[1.0, 0.0, 1.0]]))
    (log_probs.exp() * log_probs).sum().backward()
    assert logits.grad is not None and torch.all(torch.isfinite(logits.grad))


def _drift(constraint: KlConstraint) -> float:
    """KL of every parameter's law after 150 updates, towards rewards that pull all parameters to their bounds."""
    agent = _agent(
        kl_constraint=constraint, kl_limit=0.01, kl_rate=0.5, kl_period=100_000, actor_rate=3e-3, critic_rate=3e-3
    )
    batch = _batch([1, 1, 1])
    with torch.no_grad():
        before = agent.actor(batch.obs)
    for _ in range(150):
        agent.update(batch, 0.0)
    with torch.no_grad():
        return float(agent._kl(before, agent.actor(batch.obs), batch.mask))


def test_the_kl_constraint_limits_drift() -> None:
    held, free = _drift(KlConstraint.ON), _drift(KlConstraint.OFF)
    assert held < 0.1, "the limit is 0.01; the multiplier needs a few updates to find its place"
    assert free > 10.0 * held, "without the constraint the same updates carry the parameters far away"


@BOTH
def test_an_agent_survives_its_file(gradient: ChoiceGradient, tmp_path: Path) -> None:
    agent = _agent(choice_gradient=gradient)
    for _ in range(3):
        agent.update(_batch([1, 1, 1]), 0.5)
    agent.save(tmp_path / "agent.npz")
    again = Agent.load(tmp_path / "agent.npz")
    for obs in np.random.default_rng(1).normal(size=(10, OBS)).astype(np.float32):
        a, b = agent.act(obs, deterministic=True), again.act(obs, deterministic=True)
        assert a.choice == b.choice and np.array_equal(a.params, b.params)
    assert again.config == agent.config


@BOTH
def test_a_restored_agent_goes_on_bit_for_bit(gradient: ChoiceGradient) -> None:
    agent, again = _agent(choice_gradient=gradient, actor_period=2), _agent(choice_gradient=gradient, actor_period=2)
    batch = _batch([1, 1, 1])
    for _ in range(5):
        agent.update(batch, 0.5)
    again.restore(agent.state())
    for _ in range(4):
        agent.update(batch, 0.5)
        again.update(batch, 0.5)
    for name, value in agent.state().items():
        assert np.array_equal(value, again.state()[name]), name


def test_a_file_of_another_network_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="networks"):
        _agent(hidden=(16,)).restore(_agent().state())


def test_moments_of_another_optimiser_are_refused() -> None:
    agent = _agent()
    agent.update(_batch([1, 1, 1]), 0.5)
    state = agent.state()
    state["adam_critic/exp_avg"] = state["adam_critic/exp_avg"][1:]
    with pytest.raises(InvalidInputError, match="optimiser"):
        _agent().restore(state)
