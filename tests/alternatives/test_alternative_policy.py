"""`classic` with alternatives: parameters, calls, and what is recorded of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tether.alternatives.models import Kind
from tether.alternatives.policy import AlternativePolicy
from tether.assembly import policy_kit, robot, settings_hashes, skill_of_task, skills
from tether.contracts import Estimate, FusedState, JointSample, Primitive, SampleRef, Stream, TruthSample
from tether.errors import InvalidInputError
from tether.motion.kinematics import ArmKinematics
from tether.robot.roles import COMMAND_JOINTS
from tether.signing.artefacts import signed_artefacts

CUBE = np.array([0.25, 0.02, 0.012])


def state(decision_id: int, *, height_m: float = 0.15, seen: bool = True) -> FusedState:
    """The tool above a cube that lies still."""
    now_ns = 1_000_000_000 + decision_id * 50_000_000
    q, _ = ArmKinematics(robot()).inverse(CUBE + np.array([0.0, 0.0, height_m]), np.zeros(3), 0.0)
    position = np.append(q, 0.022)
    zero = np.zeros(3)
    estimate = Estimate(now_ns, CUBE, zero, zero, 0.002, True) if seen else Estimate.none(now_ns)
    joints = JointSample(SampleRef(Stream.JOINTS, now_ns, decision_id), COMMAND_JOINTS, position, np.zeros(6))
    nothing = np.zeros(0, np.float32)
    return FusedState(
        decision_id, now_ns, (), {}, estimate, joints, np.zeros((6, 0)), np.zeros((0, 6), np.float32), nothing,
        skill_of_task("pick"),
    )  # fmt: skip


def policy_of(trained: tuple[Path, dict], wanted: str) -> AlternativePolicy:
    made = policy_kit(f"classic+{wanted}@{trained[0]}").make()
    assert isinstance(made, AlternativePolicy)
    made.reset(3)
    return made


@pytest.mark.parametrize("wanted", ["codebook", "diffusion", "speed", "precision", "staged"])
def test_where_classic_tracks_the_tool_reaches_over_the_cube(trained: tuple[Path, dict], wanted: str) -> None:
    policy = policy_of(trained, wanted)
    action = policy.decide(state(0), None)
    assert action.primitive is Primitive.REACH
    skills().checked(action.primitive, action.params)
    coarse_m = 0.06 if policy.calls[0].choice.kind is Kind.CODEBOOK else 0.03
    assert np.linalg.norm(action.params[:3] - (CUBE + np.array([0.0, 0.0, 0.05]))) < coarse_m


def test_a_call_is_one_run_of_a_primitive_and_is_kept_with_its_reason(trained: tuple[Path, dict]) -> None:
    policy = policy_of(trained, "staged")
    primitives = [policy.decide(state(i, height_m=0.05), None).primitive for i in range(4)]
    assert primitives == [Primitive.REACH, Primitive.GRASP, Primitive.GRASP, Primitive.GRASP]
    assert [(call.decision_id, call.primitive) for call in policy.calls] == [(0, Primitive.REACH), (1, Primitive.GRASP)]
    assert policy.calls[0].choice.reason.startswith("speed: ")
    assert policy.calls[1].choice.reason.startswith("precision: ")
    assert policy.calls[1].choice.kind.value in policy.runtime


def test_a_cube_that_was_never_seen_is_left_to_classic(trained: tuple[Path, dict]) -> None:
    policy = policy_of(trained, "codebook")
    assert policy.decide(state(0, seen=False), None).primitive is Primitive.LOOK
    assert policy.runtime == "numpy" and not policy.calls


def test_the_same_seed_gives_the_same_decisions_and_hashes(trained: tuple[Path, dict]) -> None:
    runs = []
    for _ in range(2):
        policy = policy_of(trained, "diffusion")
        params = [policy.decide(state(i), None).params.tobytes() for i in range(3)]
        runs.append((params, policy.state_hash(), policy.rng_hash()))
    assert runs[0] == runs[1]


def test_the_truth_is_refused(trained: tuple[Path, dict]) -> None:
    ref = SampleRef(Stream.TRUTH, 1, 0)
    zero = np.zeros(3)
    truth = TruthSample(ref, CUBE, zero, zero, zero, np.zeros(6), np.zeros(6), False, 0.0)
    with pytest.raises(InvalidInputError, match="acts on sensors"):
        policy_of(trained, "codebook").decide(state(0), truth)


def test_its_models_are_among_what_is_signed_and_hashed(trained: tuple[Path, dict]) -> None:
    name = f"classic+codebook@{trained[0]}"
    assert len(signed_artefacts(name)) == 2
    assert {"codebook-reach", "codebook-grasp"} <= set(settings_hashes("pick", "real", name))
