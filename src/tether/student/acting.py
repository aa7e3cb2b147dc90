"""Who acts while data is collected, and what is noted of each decision.

The actor stands in the pipeline where a policy stands. It is given the true state, for the teacher's label; what it
hands to a policy that is no oracle has no truth in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.contracts import (
    F64,
    Estimate,
    FusedState,
    HybridAction,
    Primitive,
    SkillContext,
    Source,
    TruthSample,
)
from tether.fusion.estimator import Arrivals, Encoder, Estimator, Insight
from tether.motion.kinematics import ArmKinematics
from tether.policy.protocol import Policy
from tether.robot.model import RobotModel
from tether.student.labels import Labeller, ScriptedLabeller
from tether.student.memory import PolicyMemory
from tether.student.observation import Observation, Observer

_NOISE_M, _NOISE_M_S = 0.004, 0.02
_NOISE_KEEP = 0.9
_STRAY_PROBABILITY = 0.02
_STRAY_DECISIONS = (2, 10)
_STRAYS = (Primitive.TRACK, Primitive.GRASP, Primitive.LIFT, Primitive.RETREAT, Primitive.HOLD)


class WatchedEstimator:
    """An estimator of whatever kind beside the student's view of the same arrivals."""

    def __init__(self, inner: Estimator, observer: Observer) -> None:
        self._inner = inner
        self._observer = observer
        self.observation: Observation = {}
        self.newest_picture_ns: int | None = None

    def reset(self, skill: SkillContext) -> None:
        """Start an episode."""
        self._inner.reset(skill)
        self._observer.reset(skill)

    def update(self, stamp_ns: int, arrivals: Arrivals) -> Estimate:
        """The inner estimator's estimate."""
        self.observation = self._observer.take(stamp_ns, arrivals)
        self.newest_picture_ns = self._observer.newest_picture_ns
        return self._inner.update(stamp_ns, arrivals)

    def insight(self) -> Insight:
        """The inner estimator's, where it is an encoder."""
        return self._inner.insight() if isinstance(self._inner, Encoder) else Insight()

    def state_hash(self) -> str:
        """The inner estimator's."""
        return self._inner.state_hash()


class NoisyTeacher:
    """The teacher's own actions on a blurred truth, with strays: it shows what to do after a mistake."""

    source = Source.SCRIPTED
    is_oracle = True

    def __init__(self, labeller: ScriptedLabeller, rng: np.random.Generator) -> None:
        self._labeller = labeller
        self._rng = rng
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Start an episode; randomness comes from the generator it was made with."""
        self._labeller.reset()
        self._offset = np.zeros(3)
        self._scale = self._rng.uniform(0.0, 1.5)
        self._last: Primitive | None = None
        self._stray: tuple[Primitive, int] | None = None

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The teacher's primitive, or a stray's, on the blurred truth."""
        if truth is None:
            raise ValueError("a noisy teacher needs the truth channel")
        rng = self._rng
        kick = rng.standard_normal(3) * _NOISE_M * self._scale * (1.0 - _NOISE_KEEP**2) ** 0.5
        self._offset = self._offset * _NOISE_KEEP + kick * (1.0, 1.0, 0.3)
        speed = rng.standard_normal(3) * (_NOISE_M_S, _NOISE_M_S, 0.0) * self._scale
        v, zero = truth.v_base_cube + speed, np.zeros(3)
        estimate = Estimate(state.stamp_ns, truth.p_base_cube + self._offset, v, zero, 0.0, True)
        primitive = self._labeller.choose(truth, self._last)
        if self._stray is None and rng.random() < _STRAY_PROBABILITY * self._scale:
            self._stray = (_STRAYS[rng.integers(len(_STRAYS))], int(rng.integers(*_STRAY_DECISIONS)))
        if self._stray is not None:
            primitive, left = self._stray
            self._stray = (primitive, left - 1) if left > 1 else None
        self._last = primitive
        params = self._labeller.params_of(primitive) if primitive is not Primitive.HOLD else zero[:0]
        return HybridAction(state.decision_id, state.stamp_ns, primitive, params, estimate, self.source)

    def state_hash(self) -> str:
        """Not replayed."""
        return "collection"

    def rng_hash(self) -> str:
        """Not replayed."""
        return "collection"


class Actor:
    """Wraps the policy that acts; notes the student's input, the true state and the teacher's label."""

    is_oracle = True

    def __init__(self, acting: Policy, labeller: Labeller, estimator: WatchedEstimator, robot: RobotModel) -> None:
        self.source = acting.source
        self._acting = acting
        self._labeller = labeller
        self._estimator = estimator
        self._kinematics = ArmKinematics(robot)
        self._memory = PolicyMemory()
        self.rows: list[dict[str, Any]] = []

    def reset(self, seed: int) -> None:
        """Start an episode."""
        self._acting.reset(seed)
        self._labeller.reset()
        self._memory.reset()
        self.rows = []

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The acting policy's action, with everything noted."""
        if truth is None:
            raise ValueError("collection needs the truth channel")
        memory = self._memory.before(state.stamp_ns, state.joints)
        label = self._labeller.label(truth, self._memory.primitive)
        action = self._acting.decide(state, truth if self._acting.is_oracle else None)
        estimate = action.estimate
        self.rows.append(
            {
                **{name: value for name, value in self._estimator.observation.items() if name != "tokens"},
                "memory": memory,
                "label_probability": label.probability,
                "label_mean": label.mean,
                "label_spread": label.spread,
                "true_cube": _single(truth.p_base_cube, truth.v_base_cube),
                "true_tool": _single(self._kinematics.tcp(truth.joint_position)),
                "true_twist": _single(truth.base_twist),
                "true_joints": _single(truth.joint_position),
                "true_held": np.float32(truth.held),
                "stamp_ns": np.int64(state.stamp_ns),
                "picture_ns": np.int64(self._estimator.newest_picture_ns or 0),
                "acted": np.int8(action.primitive),
                "acted_estimate": _single(
                    estimate.p_base_cube, estimate.v_base_cube, estimate.a_base_cube, [min(estimate.sigma_m, 9.0)]
                ),
                "acted_valid": np.float32(estimate.valid),
            }
        )
        self._memory.after(state.stamp_ns, action.primitive)
        return action

    def state_hash(self) -> str:
        """Not replayed."""
        return "collection"

    def rng_hash(self) -> str:
        """Not replayed."""
        return "collection"

    def columns(self, true_acceleration: dict[int, F64]) -> dict[str, NDArray[Any]]:
        """The episode's rows, stacked; true_acceleration: stamp → (3,) of the cube against the base."""
        out = {name: np.stack([row[name] for row in self.rows]) for name in self.rows[0]}
        zero = np.zeros(3)
        a = [true_acceleration.get(int(stamp_ns), zero) for stamp_ns in out["stamp_ns"]]
        out["true_acceleration"] = np.array(a, np.float32)
        return out


def _single(*parts: Any) -> NDArray[np.float32]:
    return np.concatenate([np.asarray(part, np.float32) for part in parts])
