"""What the reward breaker catches, what it lets pass, and what it costs: `tether bench breaker`.

Rewards are those that the ledger pays in real episodes of the core loop, successes and failures; faults are put into
them one at a time. Beside each share caught stands what the test on returns alone would catch of it.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tether.arguments import not_negative, positive
from tether.bench.figures import Benchmark, Metric
from tether.contracts import EpisodeSpec
from tether.errors import Fault, InvalidInputError
from tether.progress import Progress
from tether.resources import resource_path
from tether.safety.breaker import BreakerLimits, Reward, RewardBreaker
from tether.safety.moments import SlidingMoments
from tether.safety.settings import load_safety
from tether.safety.stage import for_world

if TYPE_CHECKING:
    from tether.rewards.ledger import Payment
    from tether.world.mujoco_world import MujocoWorld

_AGE_NS = 300_000_000
EPISODE_START_NS = 1_000_000_000
_TASK, _PROFILE, _SKILL = "pick_moving", "real", "task"
_WARM = 60
"""Normal returns before a fault: the test on returns says nothing before 30."""
_DRIFT_EPISODES = 400
Paid = tuple[Reward, ...]
Aged = list[tuple[Reward, int]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of the benchmark."""
    parser.add_argument("--episodes", type=positive, default=60, help="episodes of each sort (default: %(default)s)")
    parser.add_argument("--runs", type=positive, default=100, help="of 1,000 normal episodes (default: %(default)s)")
    parser.add_argument("--injections", type=positive, default=2000, help="of each fault (default: %(default)s)")
    parser.add_argument("--seed", type=not_negative, default=0, help="of what is drawn (default: %(default)s)")


def measure(arguments: argparse.Namespace) -> Benchmark:
    """`tether bench breaker`."""
    for name in ("episodes", "runs", "injections"):
        if getattr(arguments, name) < 1:
            fault = Fault(f"--{name}", str(getattr(arguments, name)), "at least 1")
            raise InvalidInputError("bench breaker", [fault])
    from tether.rewards.build import reward_config  # the whole library; a caller of evaluate brings its own table
    from tether.rewards.config import ORDER

    values = reward_config().value
    table = {subgoal.value: values.of(subgoal) for subgoal in ORDER}
    limits = load_safety(resource_path("config", "safety.yaml")).breaker
    traces = real_episodes(arguments.episodes)
    return evaluate(limits, table, traces, arguments.runs, arguments.injections, arguments.seed)


def real_episodes(count: int) -> list[Paid]:
    """What is paid in `count` episodes each of the oracle on fresh truth (succeeds) and on old truth (often fails)."""
    from tether.assembly import make_world  # MuJoCo

    ages_ms = (0, 120)
    progress = Progress(len(ages_ms) * count, "episodes")
    out: list[Paid] = []
    for age_ms in ages_ms:
        world = make_world(_TASK, _PROFILE, truth_age_ns=age_ms * 1_000_000, pictures=False, measures=True)
        for seed in range(count):
            out.append(_episode(world, seed))
            progress.step()
        world.close()
    return out


def _episode(world: MujocoWorld, seed: int) -> Paid:
    from tether.assembly import make_pipeline, skill_of_task
    from tether.rewards.build import make_ledger

    pipeline, ledger = make_pipeline("scripted", _PROFILE), make_ledger(_TASK)
    paid: list[Payment] = []
    delivery = world.reset(EpisodeSpec(_TASK, _PROFILE, seed), EPISODE_START_NS)
    pipeline.reset(skill_of_task(_TASK), seed)
    while True:
        paid += ledger.take(world.measure(), None if delivery.executed is None else delivery.executed.command)
        if delivery.result is not None:
            return tuple(Reward(_SKILL, 0, p.subgoal.value, p.value, p.stamp_ns, p.task_return) for p in paid)
        delivery = world.step(for_world(pipeline.tick(delivery).gated))


def evaluate(
    limits: BreakerLimits, table: Mapping[str, float], traces: Sequence[Paid], runs: int, injections: int, seed: int
) -> Benchmark:
    """False trips, shares caught and costs, with episodes drawn from `traces`."""
    rng = random.Random(seed)
    metrics = {"false_trips_per_1000": Metric.of(_false_trips(limits, table, traces, runs, rng), "trips")}
    paid = [trace for trace in traces if trace]
    if not paid:
        raise InvalidInputError("bench breaker", [Fault("episodes", "none that pays", "at least one")])
    for name, corrupt in _FAULTS.items():
        caught, alone = zip(*(_inject(limits, table, traces, corrupt, rng) for _ in range(injections)), strict=True)
        metrics[f"caught_{name}"] = _share(caught)
        metrics[f"caught_{name}_by_returns_alone"] = _share(alone)
    for name, change in _SLOW.items():
        found = [_drift(limits, table, traces, change, rng) for _ in range(max(injections // 20, 20))]
        metrics[f"tripped_{name}"] = _share([trip for trip, _ in found])
        metrics[f"said_{name}"] = _share([math.isfinite(after) for _, after in found])
        finite = [after for _, after in found if math.isfinite(after)]
        if finite:
            metrics[f"said_{name}_after"] = Metric.of(finite, "episodes")
    metrics |= _costs(limits, table)
    success = sum(math.isclose(t[-1].task_return, sum(table.values())) for t in paid) / len(traces)
    notes = (
        f"{len(traces)} episodes of the core loop, {success:.0%} paid in full; {injections} injections of each fault",
        "returns in shares of a full one; by_returns_alone: only |r - μ| > 3 σ, the table not asked",
        "drifting values and values that stay the same are not told apart from honest ones by returns alone",
        "a server that pays every subgoal in order at believable times without cause is not caught here",
    )
    return Benchmark("breaker", metrics, {}, notes)


def _false_trips(
    limits: BreakerLimits, table: Mapping[str, float], traces: Sequence[Paid], runs: int, rng: random.Random
) -> list[float]:
    """Trips in each run of 1,000 normal episodes; how often they succeed differs from run to run, and within one."""
    full = sum(table.values())
    good = [t for t in traces if t and math.isclose(t[-1].task_return, full)] or list(traces)
    poor = [t for t in traces if t not in good] or list(traces)
    counts = []
    for _ in range(runs):
        breaker = RewardBreaker(limits, table)
        trips, rate = 0, rng.random()
        for episode in range(1000):
            if episode % 200 == 0:
                rate = rng.choice((1.0, 0.99, 0.9, rate, rng.random(), 0.0))
            trace = rng.choice(good if rng.random() < rate else poor)
            _run(breaker, episode, _aged(trace))
            if breaker.trip is not None:
                trips += 1
                breaker.rearm()
        counts.append(float(trips))
    return counts


def _inject(
    limits: BreakerLimits,
    table: Mapping[str, float],
    traces: Sequence[Paid],
    corrupt: Callable[[Aged, random.Random], Aged],
    rng: random.Random,
) -> tuple[bool, bool]:
    """Whether the breaker, and the test on returns alone, catches one faulty episode after normal ones."""
    breaker, alone = RewardBreaker(limits, table), RewardBreaker(limits, table)
    full = sum(table.values())
    for _ in range(_WARM):
        share = sum(reward.value for reward in rng.choice(traces)) / full
        breaker.judge_return(_SKILL, share, 0)
        alone.judge_return(_SKILL, share, 0)
    bad = corrupt(_aged(rng.choice([trace for trace in traces if trace])), rng)
    _run(breaker, 0, bad)
    alone.judge_return(_SKILL, sum(reward.value for reward, _ in bad) / full, 0)
    return breaker.trip is not None, alone.trip is not None


def _drift(
    limits: BreakerLimits,
    table: Mapping[str, float],
    traces: Sequence[Paid],
    change: Callable[[Aged, float, random.Random], Aged],
    rng: random.Random,
) -> tuple[bool, float]:
    """A fault that grows from the 100th episode on: whether it trips, and episodes until it is said (inf: never)."""
    breaker = RewardBreaker(limits, table)
    full = sum(table.values())
    good = [t for t in traces if t and math.isclose(t[-1].task_return, full)] or list(traces)
    said = math.inf
    for episode in range(_DRIFT_EPISODES):
        strength = max(episode - 100, 0) / (_DRIFT_EPISODES - 100)
        _run(breaker, episode, change(_aged(rng.choice(good)), strength, rng), success=True)
        if breaker.notices() and episode >= 100:
            said = min(said, episode - 100.0)
        if breaker.trip is not None:
            return True, said
    return False, said


def _run(breaker: RewardBreaker, episode: int, rewards: Aged, success: bool | None = None) -> None:
    breaker.begin(_SKILL, episode, 0)
    for reward, age_ns in rewards:
        breaker.observe(dataclasses.replace(reward, episode=episode), age_ns, 0)
    breaker.finish(_SKILL, episode, 0, success)
    breaker.advance(1 << 62)


def _aged(trace: Paid) -> Aged:
    return [(reward, _AGE_NS) for reward in trace]


def _one(change: Callable[[Reward], Reward]) -> Callable[[Aged, random.Random], Aged]:
    """One reward of the episode is changed."""

    def corrupt(rewards: Aged, rng: random.Random) -> Aged:
        at = rng.randrange(len(rewards))
        return [(change(r), age) if i == at else (r, age) for i, (r, age) in enumerate(rewards)]

    return corrupt


def _scaled(factor: float) -> Callable[[Reward], Reward]:
    return lambda r: dataclasses.replace(r, value=r.value * factor, task_return=r.task_return + r.value * (factor - 1))


def _all_scaled(factor: float) -> Callable[[Aged, random.Random], Aged]:
    """Every reward of the episode, and its return with them."""
    return lambda rewards, rng: [
        (dataclasses.replace(r, value=r.value * factor, task_return=r.task_return * factor), age) for r, age in rewards
    ]


def _late(age_ns: int) -> Callable[[Aged, random.Random], Aged]:
    return lambda rewards, rng: [(reward, age_ns) for reward, _ in rewards]


_FAULTS: Mapping[str, Callable[[Aged, random.Random], Aged]] = {
    "spike_10x_of_one_reward": _one(_scaled(10.0)),
    "spike_10x_of_all_rewards": _all_scaled(10.0),
    "spike_10x_of_the_return_only": _one(lambda r: dataclasses.replace(r, task_return=10.0 * r.task_return)),
    "sign_flip_of_one_reward": _one(_scaled(-1.0)),
    "sign_flip_of_all_rewards": _all_scaled(-1.0),
    "nan": _one(lambda r: dataclasses.replace(r, value=math.nan)),
    "unknown_subgoal": _one(lambda r: dataclasses.replace(r, subgoal="near")),
    "paid_twice": lambda rewards, rng: [*rewards, rng.choice(rewards)],
    "stuck_message_sent_on_and_on": lambda rewards, rng: [*rewards, *[rewards[-1]] * 20],
    "from_the_future": _late(-1_000_000_000),
    "absurdly_late": _late(3_000_000_000),
    "stays_away": lambda rewards, rng: [],
}
_SLOW: Mapping[str, Callable[[Aged, float, random.Random], Aged]] = {
    "values_drift_up_to_2x": lambda rewards, s, rng: _all_scaled(1.0 + s)(rewards, rng),
    "more_and_more_episodes_unpaid": lambda rewards, s, rng: [] if rng.random() < s else rewards,
    "stuck_at_nothing": lambda rewards, s, rng: [] if s > 0.0 else rewards,
}


def _share(caught: Sequence[bool]) -> Metric:
    """A share is one figure, whatever the number it was counted from."""
    return dataclasses.replace(Metric.of([sum(caught) / len(caught)], "share"), n=len(caught))


def _costs(limits: BreakerLimits, table: Mapping[str, float]) -> dict[str, Metric]:
    """Microseconds of an update of windows of different sizes, and of taking one reward."""
    out = {}
    for size in (100, 10_000):
        window = SlidingMoments(size)
        values = [random.Random(size).gauss(1.0, 0.3) for _ in range(size)]
        for value in values:
            window.add(value)
        out[f"window_{size}_update"] = _cost(lambda k, w=window, v=values: (w.add(v[k % len(v)]), w.deviation))  # type: ignore[misc]
    breaker = RewardBreaker(limits, table)
    first = next(iter(table))
    rewards = [Reward(_SKILL, k, first, table[first], k, table[first]) for k in range(5000)]

    def take(k: int) -> None:
        breaker.begin(_SKILL, k, 0)
        breaker.observe(rewards[k], 0, 0)
        breaker.finish(_SKILL, k, 0)
        breaker.advance(1 << 62)

    out["reward_and_its_episode"] = _cost(take)
    return out


def _cost(call: Callable[[int], object]) -> Metric:
    took = []
    for k in range(5000):
        start = time.perf_counter_ns()
        call(k)
        took.append((time.perf_counter_ns() - start) * 1e-3)
    return Metric.of(took, "us")
