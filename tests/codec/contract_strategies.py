"""Hypothesis strategies for the records of tether.contracts, and each type's way into a message and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tether.codec import convert
from tether.contracts import (
    CameraModel,
    Command,
    Decision,
    EpisodeResult,
    EpisodeSpec,
    Estimate,
    ExecutedCommand,
    FusedState,
    GateOutput,
    HybridAction,
    ImageFeature,
    ImuBatch,
    ImuSample,
    JointSample,
    Mode,
    PolicyOutput,
    Primitive,
    SampleRef,
    SkillContext,
    Source,
    Stream,
    TickPlan,
    TruthSample,
    Verdict,
)

stamps = st.integers(0, (2**31 - 1) * 1_000_000_000)
counts = st.integers(0, 2**63 - 1)
names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False)
ages = st.dictionaries(st.sampled_from(Stream), st.integers(-(2**62), 2**62), max_size=5)
latencies = st.dictionaries(names, st.integers(0, 2**62), max_size=3)


def refs(stream: Stream | None = None) -> st.SearchStrategy[SampleRef]:
    kind = st.sampled_from(Stream) if stream is None else st.just(stream)
    return st.builds(SampleRef, kind, stamps, counts)


def vectors(*shape: int) -> st.SearchStrategy[Any]:
    return npst.arrays(np.float64, shape, elements=numbers)


def singles(*shape: int) -> st.SearchStrategy[Any]:
    return npst.arrays(np.float32, shape, elements=st.floats(width=32, allow_nan=False, allow_infinity=False))


some_refs = st.lists(refs(), max_size=4).map(tuple)
imu_samples = st.builds(ImuSample, refs(Stream.IMU), vectors(3), vectors(3))
cameras = st.builds(CameraModel, st.integers(1, 4096), st.integers(1, 4096), vectors(3, 3), names)
tokens = st.none() | st.tuples(st.integers(1, 3), st.integers(1, 4)).flatmap(lambda shape: singles(*shape))
detections = st.integers(0, 3).flatmap(lambda n: singles(n, 6))
masks = npst.arrays(np.bool_, len(Primitive))
skills = st.builds(
    SkillContext, st.integers(0, 2**32 - 1), names, vectors(2), st.integers(0, 9), st.integers(0, 9), masks
)
estimates = st.builds(
    Estimate, stamps, vectors(3), vectors(3), vectors(3), numbers | st.just(float("inf")), st.booleans()
)
actions = st.integers(0, 4).flatmap(
    lambda n: st.builds(
        HybridAction, counts, stamps, st.sampled_from(Primitive), vectors(n), estimates, st.sampled_from(Source)
    )
)


@st.composite
def joint_samples(draw: st.DrawFn) -> JointSample:
    joints = tuple(draw(st.lists(names, max_size=7)))
    return JointSample(draw(refs(Stream.JOINTS)), joints, draw(vectors(len(joints))), draw(vectors(len(joints))))


@st.composite
def commands(draw: st.DrawFn, stamp_ns: int | None = None, *, gated: bool = False) -> Command:
    joints = tuple(draw(st.lists(names, max_size=7)))
    return Command(
        draw(counts),
        draw(stamps) if stamp_ns is None else stamp_ns,
        convert.NO_DECISION if gated else draw(counts),
        Source.GATE if gated else draw(st.sampled_from(Source)),
        joints,
        draw(vectors(len(joints))),
        draw(vectors(len(joints))),
        draw(vectors(3)),
    )


@st.composite
def executed_commands(draw: st.DrawFn) -> ExecutedCommand:
    ref = draw(refs(Stream.EXECUTED))
    return ExecutedCommand(ref, draw(commands(ref.stamp_ns, gated=True)), draw(st.booleans()))


imu_batches = st.builds(
    ImuBatch,
    counts,
    counts,
    stamps,
    st.lists(imu_samples, max_size=4).map(tuple),
    st.none() | st.integers(1, 4).flatmap(singles),
)
features = st.builds(
    ImageFeature,
    refs(Stream.CAMERA),
    st.none() | cameras,
    detections,
    tokens,
    st.none() | names.filter(bool),
)
fused_states = st.builds(
    FusedState,
    counts,
    stamps,
    some_refs,
    ages,
    estimates,
    st.none() | joint_samples(),
    st.integers(0, 5).flatmap(lambda n: vectors(6, n)),
    detections,
    st.integers(0, 4).flatmap(singles),
    skills,
    st.dictionaries(st.sampled_from(["camera", "imu", "joints", "skill"]), st.sampled_from([0.0, 0.25, 1.0])),
    st.none() | numbers,
)
outputs = st.builds(PolicyOutput, actions, some_refs, ages, names, names, names, st.integers(0, 2**32 - 1), latencies)
decisions = st.builds(
    Decision,
    actions,
    some_refs,
    ages,
    names,
    names,
    names,
    names,
    st.integers(0, 2**32 - 1),
    st.none() | numbers,
    latencies,
)
plans = st.builds(TickPlan, counts, counts, stamps, some_refs, st.none() | counts)
truths = st.builds(
    TruthSample,
    refs(Stream.TRUTH),
    vectors(3),
    vectors(3),
    vectors(3),
    vectors(3),
    vectors(6),
    vectors(6),
    st.booleans(),
    numbers,
)
specs = st.builds(EpisodeSpec, names, names, counts)
results = st.builds(
    EpisodeResult, specs, st.booleans(), st.booleans(), st.integers(0, 4), numbers, st.none() | names.filter(bool)
)
verdicts = st.builds(
    GateOutput,
    commands(),
    st.sampled_from(Mode),
    numbers,
    st.lists(st.builds(Verdict, names, numbers, names), max_size=3).map(tuple),
    st.none() | counts,
)


@dataclass(frozen=True)
class Way:
    """A record's way into a message and back."""

    records: st.SearchStrategy[Any]
    into: Callable[[Any], Any]
    back: Callable[[Any], Any]


WAYS = {
    "SampleRef": Way(refs(), convert.ref_message, convert.ref_from),
    "TickPlan": Way(plans, convert.tick_plan_message, convert.tick_plan_from),
    "SkillContext": Way(skills, convert.skill_message, convert.skill_from),
    "EpisodeSpec": Way(
        specs,
        lambda spec: convert.episode_start_message(3, 7, spec, "classic", False, SKILL),
        convert.episode_spec_from,
    ),
    "EpisodeEnd": Way(results, lambda r: convert.episode_end_message(3, 7, r), convert.episode_result_from),
    "ImuBatch": Way(imu_batches, convert.imu_batch_message, convert.imu_batch_from),
    "ImageFeature": Way(
        features, lambda f: convert.image_feature_message(f, 3, {"decode": 5}), convert.image_feature_from
    ),
    "Estimate": Way(estimates, convert.estimate_message, convert.estimate_from),
    "FusedState": Way(fused_states, lambda s: convert.fused_state_message(s, 3), convert.fused_state_from),
    "HybridAction": Way(actions, lambda a: convert.action_message(a, 3), convert.action_from),
    "PolicyOutput": Way(outputs, lambda o: convert.policy_output_message(o, 3), convert.policy_output_from),
    "Decision": Way(decisions, lambda d: convert.decision_message(d, 3), convert.decision_from),
    "ExecutedCommand": Way(executed_commands(), lambda e: convert.executed_message(e, 3), convert.executed_from),
    "WorldTruth": Way(truths, lambda t: convert.truth_message(t, 3), convert.truth_from),
}
"""Records that have a way back. ProposedCommand and SafetyVerdict have rules of their own and stand in their tests."""

SKILL = SkillContext(0, "pick", np.zeros(0), 1, 1, np.ones(len(Primitive), np.bool_))


def same(a: Any, b: Any) -> bool:
    """Equality of records down to the bits of their arrays, NaN like NaN."""
    if is_dataclass(a) and not isinstance(a, type):
        return type(a) is type(b) and all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return isinstance(b, float) and np.float64(a).tobytes() == np.float64(b).tobytes()
    return bool(a == b)
