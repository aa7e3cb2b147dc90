"""The policy stage holds every policy to the skill table, the mask and its right to the truth."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tether.assembly import make_bridge_stage, make_policy_stage, skill_of_task, skills
from tether.contracts import (
    Estimate,
    FusedState,
    HybridAction,
    Primitive,
    SampleRef,
    Source,
    Stream,
    TruthSample,
)
from tether.errors import InvalidInputError
from tether.policy.stage import PolicyStage, digest

NOW_NS = 1_000_000_000
ZERO3 = np.zeros(3)


def truth(stamp_ns: int = NOW_NS - 7) -> TruthSample:
    six = np.zeros(6)
    return TruthSample(SampleRef(Stream.TRUTH, stamp_ns, 3), ZERO3, ZERO3, ZERO3, ZERO3, six, six, False, 0.0)


def state(mask: Any = None) -> FusedState:
    skill = skill_of_task("pick")
    if mask is not None:
        skill = dataclasses.replace(skill, primitive_mask=mask)
    none = np.zeros((0, 6), np.float32)
    used = (SampleRef(Stream.IMU, NOW_NS - 5, 1), SampleRef(Stream.JOINTS, NOW_NS - 2, 1))
    ages = {Stream.IMU: 5, Stream.JOINTS: 2}
    return FusedState(
        4, NOW_NS, used, ages, Estimate.none(NOW_NS), None, np.zeros((6, 0)), none, np.zeros(0, np.float32), skill
    )


class Fixed:
    """A policy that always wants the same."""

    source = Source.CLASSIC

    def __init__(self, primitive: Primitive, params: Any, oracle: bool = False) -> None:
        self.is_oracle = oracle
        self._wants = primitive, np.asarray(params, np.float64)
        self.seeds: list[int] = []

    def reset(self, seed: int) -> None:
        self.seeds.append(seed)

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        return HybridAction(state.decision_id, state.stamp_ns, *self._wants, state.estimate, self.source)

    def state_hash(self) -> str:
        return "state"

    def rng_hash(self) -> str:
        return "rng"


def stage(primitive: Primitive = Primitive.HOLD, params: Any = None, oracle: bool = False) -> PolicyStage:
    wants = skills()[primitive].default if params is None else params
    return PolicyStage(Fixed(primitive, wants, oracle), skills(), threads=1)


@pytest.mark.parametrize("primitive", list(Primitive))
def test_defaults_of_every_primitive_pass(primitive: Primitive) -> None:
    output = stage(primitive).step(state(), None)
    assert output.action.primitive is primitive
    assert (output.state_hash, output.rng_hash) == ("state", "rng")


@pytest.mark.parametrize("primitive", list(Primitive))
def test_primitive_that_the_task_skill_masks_is_refused_by_name(primitive: Primitive) -> None:
    mask = np.ones(len(Primitive), np.bool_)
    mask[primitive] = False
    with pytest.raises(InvalidInputError, match=primitive.name.lower()):
        stage(primitive).step(state(mask), None)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf"), 1e9, -1e9])
def test_parameter_out_of_bounds_or_not_finite_is_refused_by_name(bad: float) -> None:
    for primitive in Primitive:
        for i, param in enumerate(skills()[primitive].params):
            params = skills()[primitive].default.copy()
            params[i] = bad
            with pytest.raises(InvalidInputError, match=param.name):
                stage(primitive, params).step(state(), None)


def test_wrong_number_of_parameters_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="shape"):
        stage(Primitive.HOLD, np.zeros(40)).step(state(), None)


def test_truth_given_to_a_policy_that_is_no_oracle_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no oracle"):
        stage().step(state(), truth())
    with pytest.raises(InvalidInputError, match="no oracle"):
        make_policy_stage("classic").step(state(), truth())


def test_oracle_without_the_truth_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="WorldTruth"):
        stage(oracle=True).step(state(), None)


def test_truth_that_was_used_is_named_with_its_age() -> None:
    output = stage(oracle=True).step(state(), truth())
    assert truth().ref in output.used
    assert output.age_ns == {Stream.IMU: 5, Stream.JOINTS: 2, Stream.TRUTH: 7}
    assert stage().step(state(), None).age_ns == {Stream.IMU: 5, Stream.JOINTS: 2}


def test_decision_is_the_only_proposal_and_says_so() -> None:
    output = stage().step(state(), None)
    decision = make_bridge_stage().step(output)
    assert decision.action is output.action
    assert (decision.used, decision.age_ns) == (output.used, output.age_ns)
    assert decision.reason == "only policy: classic"


def test_digest_depends_on_where_parts_end() -> None:
    assert digest(b"ab", b"c") != digest(b"a", b"bc")
    assert digest(b"ab", b"c") == digest(b"ab", b"c")
