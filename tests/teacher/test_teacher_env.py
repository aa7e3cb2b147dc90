"""The teacher's environment: Gymnasium's rules, the core loop's episodes, and starts from which retries begin."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest

from tether.assembly import make_pipeline, make_world, robot, skill_of_task, skills
from tether.contracts import EpisodeSpec, Primitive
from tether.motion.kinematics import ArmKinematics
from tether.policy.scripted import ScriptedPolicy
from tether.rewards.build import reward_config
from tether.rollout import EPISODE_START_NS
from tether.safety.stage import for_world
from tether.teacher.actions import PRIMITIVES, choices
from tether.teacher.env import EnvConfig, TeacherEnv
from tether.teacher.loop import OracleLoop
from tether.teacher.observation import FIELDS, LIMIT, SIZE, TeacherMemory, names
from tether.teacher.starts import RETRIES, Start, prefix
from tether.world.profile import Delay

AT_ONCE = Delay(0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def env() -> TeacherEnv:
    return TeacherEnv()


def scripted_episode(env: TeacherEnv, policy: ScriptedPolicy) -> tuple[list[float], dict[str, Any]]:
    """Rewards of an episode that has been reset, and the last info."""
    policy.reset(0)
    rewards = []
    while True:
        wanted = policy.decide(env.loop.state(), env.loop.truth)
        choice = PRIMITIVES.index(wanted.primitive)
        boxes = [np.zeros(len(c.low), np.float32) for c in env.choices]
        boxes[choice] = wanted.params.astype(np.float32)
        _, reward, terminated, truncated, info = env.step((choice, *boxes))
        rewards.append(reward)
        if terminated or truncated:
            return rewards, info


@pytest.mark.parametrize("task", ["pick", "pick_moving"])
def test_commands_are_those_of_the_whole_pipeline(task: str) -> None:
    policy = ScriptedPolicy(robot(), skills())
    loop = OracleLoop(task, "ideal_lagged", AT_ONCE)
    loop.reset(5)
    ours = []
    result = None
    while result is None:
        action = policy.decide(loop.state(), loop.truth)
        result = loop.act(action.primitive, action.params, action.estimate).result
        ours.append(loop.truth.joint_position)
    loop.close()

    world = make_world(task, "ideal_lagged", truth_age_ns=0, pictures=False, measures=True)
    pipeline = make_pipeline("scripted", "ideal_lagged")
    delivery = world.reset(EpisodeSpec(task, "ideal_lagged", 5), EPISODE_START_NS)
    pipeline.reset(skill_of_task(task), 5)
    theirs = []
    while delivery.result is None:
        delivery = world.step(for_world(pipeline.tick(delivery).gated))
        if delivery.tick % 5 == 0 and delivery.result is None:
            theirs.append(world.measure().joint_position)
    world.close()
    assert result == delivery.result
    assert len(ours) - len(theirs) in (0, 1)
    for mine, full in zip(ours, theirs, strict=False):
        assert np.array_equal(mine, full)


def test_observations_are_within_their_space_and_episodes_repeat_with_their_seed(env: TeacherEnv) -> None:
    assert isinstance(env.action_space, gymnasium.spaces.Tuple)
    runs = []
    for _ in range(2):
        observation, info = env.reset(seed=11)
        env.action_space.seed(3)
        kept = [observation]
        for _ in range(15):
            observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
            assert env.observation_space.contains(observation)
            assert reward >= 0.0
            assert info["action_mask"].shape == (len(PRIMITIVES),)
            kept.append(observation)
            if terminated or truncated:
                break
        runs.append(np.array(kept))
    assert np.array_equal(*runs)


def test_every_number_of_the_observation_has_a_name_and_a_unit() -> None:
    assert len(names()) == len(set(names())) == SIZE
    assert all(f.unit and len(f.scale) == f.size for f in FIELDS)


@pytest.mark.parametrize("task", ["pick", "pick_moving"])
def test_the_scripted_policy_earns_the_whole_table_and_no_more(env: TeacherEnv, task: str) -> None:
    env.reset(seed=2, options={"task": task, "start": Start.FRESH})
    rewards, info = scripted_episode(env, ScriptedPolicy(robot(), skills()))
    assert info["result"].success
    assert sum(rewards) == pytest.approx(reward_config().value.total)
    assert sorted(r for r in rewards if r) == pytest.approx([0.1, 0.1, 0.2, 0.2, 0.4])


def test_delayed_rewards_come_later_and_are_the_same_in_sum() -> None:
    late = TeacherEnv(EnvConfig(tasks=("pick",), reward_delay_s=0.3, retry_share=0.0))
    soon = TeacherEnv(EnvConfig(tasks=("pick",), retry_share=0.0))
    when = []
    for each in (late, soon):
        each.reset(seed=4)
        rewards, _ = scripted_episode(each, ScriptedPolicy(robot(), skills()))
        when.append(next(i for i, reward in enumerate(rewards) if reward))
        assert sum(rewards) == pytest.approx(reward_config().value.total)
        each.close()
    assert when[0] - when[1] == 6, "0.3 s are six decisions"


@pytest.mark.parametrize("start", RETRIES)
def test_a_retry_begins_elsewhere_than_a_fresh_episode_and_can_be_won(env: TeacherEnv, start: Start) -> None:
    fresh, _ = env.reset(seed=21, options={"task": "pick", "start": Start.FRESH})
    observation, _ = env.reset(seed=21, options={"task": "pick", "start": start})
    assert not np.allclose(fresh, observation)
    _, info = scripted_episode(env, ScriptedPolicy(robot(), skills()))
    assert info["result"].success


def test_legs_of_every_start_keep_to_the_skill_table() -> None:
    for start in Start:
        for seed in range(30):
            for leg in prefix(start, skills(), np.random.default_rng(seed)):
                skills().checked(leg.primitive, leg.params)
                assert leg.decisions > 0


def test_choices_stay_within_the_hardwares_bounds_and_hold_the_defaults() -> None:
    for choice in choices(skills()):
        spec = skills()[choice.primitive]
        assert (choice.low >= spec.low).all() and (choice.high <= spec.high).all()
        assert (choice.low <= spec.default).all() and (spec.default <= choice.high).all()
        for z in (-1.0, 0.0, 1.0):
            unit = np.full(len(choice.low), z, np.float32)
            skills().checked(choice.primitive, choice.from_unit(unit))
            assert choice.to_unit(choice.from_unit(unit)) == pytest.approx(unit, abs=1e-6)


def test_memory_knows_what_is_under_way_whoever_chose_it() -> None:
    loop = OracleLoop("pick", "ideal_lagged", AT_ONCE)
    loop.reset(0)
    memory = TeacherMemory(ArmKinematics(robot()))
    at = names().index("pending_0")
    memory.observe(loop.truth, 0)
    for i, primitive in enumerate((Primitive.TRACK, Primitive.GRASP, Primitive.LOOK)):
        memory.decided(primitive, i * 50_000_000)
    vector, estimate = memory.observe(loop.truth, 150_000_000)
    pending = vector[at : at + 3 * len(PRIMITIVES)].reshape(3, -1)
    assert pending[0].sum() == 0.0, "look is none of the teacher's"
    assert pending[1][PRIMITIVES.index(Primitive.GRASP)] == 1.0
    assert pending[2][PRIMITIVES.index(Primitive.TRACK)] == 1.0
    assert vector[names().index("since")] == pytest.approx(0.05 / 0.5)
    assert estimate.stamp_ns == 150_000_000
    assert np.abs(vector).max() <= LIMIT
    loop.close()
