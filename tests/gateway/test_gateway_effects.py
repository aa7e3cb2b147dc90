"""Effects by the sensors of a live graph: there, absent, or not to be known."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tether.agent.calls import Call
from tether.agent.domain import load_domain
from tether.contracts import (
    Estimate,
    FusedState,
    JointSample,
    Mode,
    Primitive,
    SampleRef,
    SkillContext,
    Stream,
)
from tether.errors import InvalidInputError
from tether.gateway.graph import EffectWatch, GraphCatalogue
from tether.gateway.records import Effect
from tether.robot.roles import COMMAND_JOINTS

OPEN_M, CLOSED_M = 0.022, 0.0


def state(number: int, finger_m: float) -> FusedState:
    stamp_ns = 1_000_000_000 + 50_000_000 * number
    position = np.array([0.0, -1.75, 1.95, 1.37, 0.75, finger_m])
    joints = JointSample(SampleRef(Stream.JOINTS, stamp_ns, number), COMMAND_JOINTS, position, np.zeros(6))
    boxes, features = np.zeros((0, 6), np.float32), np.zeros(0, np.float32)
    anything = SkillContext(0, "fetch", np.zeros(0), 1, 1, np.ones(len(Primitive), np.bool_))
    none = Estimate.none(stamp_ns)
    return FusedState(number, stamp_ns, (), {}, none, joints, np.zeros((6, 0)), boxes, features, anything)


def looked(skill: str, finger_m: float, episodes: int = 1) -> Effect:
    """What is seen of a skill's effect while states come, of that many episodes."""
    watch, over = EffectWatch(load_domain()), threading.Event()

    def publish() -> None:
        for number in range(600):
            if over.is_set():
                return
            watch.on_state(number * episodes // 600, state(number, finger_m), Mode.ACTIVE)
            time.sleep(0.005)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        return watch.look(Call("c", "t", skill, {}, 2**62), 30.0)[0]
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    ("skill", "finger_m", "effect"),
    [
        ("release", OPEN_M, Effect.HAPPENED),
        ("release", CLOSED_M, Effect.ABSENT),
        ("pick", OPEN_M, Effect.ABSENT),
        ("find", OPEN_M, Effect.UNKNOWN),  # no picture has come
    ],
)
def test_an_effect_is_there_absent_or_not_known_by_what_the_sensors_say(
    skill: str, finger_m: float, effect: Effect
) -> None:
    assert looked(skill, finger_m) is effect


def test_without_sensors_an_effect_is_not_known_after_the_time_given() -> None:
    begun_s = time.monotonic()
    effect, facts = EffectWatch(load_domain()).look(Call("c", "t", "release", {}, 2**62), 0.2)
    assert (effect, facts) == (Effect.UNKNOWN, ())
    assert time.monotonic() - begun_s < 20.0


def test_another_episode_is_another_world() -> None:
    watch = EffectWatch(load_domain())
    for number in range(13):
        assert not watch.has_begun()
        watch.on_state(0, state(number, OPEN_M), Mode.ACTIVE)
    assert watch.has_begun()
    assert {fact.name for fact in watch.facts(0.0)} > {"gripper_open"}
    for number in range(13, 26):
        bare = state(number, OPEN_M)
        watch.on_state(1, FusedState(**{**vars(bare), "joints": None}), Mode.ACTIVE)
        assert watch.has_begun() == (number == 25)
    assert {fact.name for fact in watch.facts(0.0)} == {"robot_ok"}


def test_facts_are_told_once_those_that_take_a_while_can_be_known() -> None:
    watch, told = EffectWatch(load_domain()), threading.Event()
    watch.on_state(0, state(0, OPEN_M), Mode.ACTIVE)
    assert watch.facts(0.0) == ()

    def publish() -> None:
        for number in range(1, 600):
            if told.is_set():
                return
            watch.on_state(0, state(number, OPEN_M), Mode.ACTIVE)
            time.sleep(0.005)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        facts = {fact.name: fact.value for fact in watch.facts(30.0)}
    finally:
        told.set()
        thread.join()
    assert watch.has_begun()
    assert facts["gripper_open"] is True


def test_a_running_graph_learns_no_skill_and_says_how_it_would() -> None:
    with pytest.raises(InvalidInputError, match="agent_domain:="):
        GraphCatalogue(load_domain()).register("name: wave")
