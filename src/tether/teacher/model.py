"""The teacher's network at run time: what its model takes and gives, and its word on a state as a distribution."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from tether.contracts import F32, F64, Primitive
from tether.errors import Fault
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.manifest import TensorSpec
from tether.models.session import Expectation, Session, open_model
from tether.robot.roles import COMMAND_JOINTS
from tether.skills import SkillTable
from tether.teacher.actions import PRIMITIVES, Choice, choices
from tether.teacher.observation import SIZE, layout_sha256

KIND = "teacher"
OBSERVATION = TensorSpec("observation", (1, SIZE), doc="see tether.teacher.observation")
LAYOUT = "observation_sha256"
"""Key of the manifest's `trained_on` with the hash of the observation's layout."""


def outputs(n_params: int) -> tuple[TensorSpec, ...]:
    """Of the model: logits of the choices; mean and log deviation, before tanh, of all their parameters in a row."""
    return (
        TensorSpec("logits", (1, len(PRIMITIVES)), doc="of " + ", ".join(p.name.lower() for p in PRIMITIVES)),
        TensorSpec("mean", (1, n_params)),
        TensorSpec("log_std", (1, n_params)),
    )


def open_teacher(folder: Path, skills: SkillTable) -> Session:
    """Load a teacher; raises ModelRefusedError, also where it was trained on another layout of the observation."""
    n_params = sum(len(choice.low) for choice in choices(skills))
    expectation = Expectation(
        kind=KIND,
        inputs=(OBSERVATION,),
        outputs=outputs(n_params),
        joint_order=COMMAND_JOINTS,
        skills_sha256=skills.sha256,
    )
    session = open_model(folder, expectation)
    found = session.manifest.trained_on.get(LAYOUT)
    if found != layout_sha256():
        fault = Fault(LAYOUT, repr(found), repr(layout_sha256()))
        raise ModelRefusedError(Refusal.FOREIGN, "teacher", [fault], "train it anew: `tether train teacher`")
    return session


@dataclass(frozen=True, eq=False)
class Verdict:
    """The teacher's distribution on a state.

    probability: (len(PRIMITIVES),) of the choices, masked ones 0. mean, std: for each choice, its parameters (n,) in
    their units; std is that of the law before tanh, carried through tanh's slope.
    """

    probability: F64
    mean: tuple[F64, ...]
    std: tuple[F64, ...]

    @property
    def best(self) -> int:
        """The likeliest choice."""
        return int(np.argmax(self.probability))


class TeacherNetwork:
    """The model with its choices' bounds."""

    def __init__(self, skills: SkillTable, session: Session) -> None:
        self.choices: tuple[Choice, ...] = choices(skills)
        self.session = session
        ends = np.cumsum([0, *(len(choice.low) for choice in self.choices)])
        self._slices = [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def judge(self, observation: F32, allowed: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Verdict:
        """The distribution; allowed: (len(Primitive),) of the task skill. Raises ValueError where it leaves nothing."""
        mask = np.array([bool(allowed[choice.primitive]) for choice in self.choices])
        if not mask.any():
            names = ", ".join(p.name.lower() for p in PRIMITIVES)
            raise ValueError(f"the task skill allows none of the teacher's primitives: {names}")
        out = self.session.run({OBSERVATION.name: observation[None]})
        logits = np.where(mask, out["logits"][0].astype(np.float64), -np.inf)
        weights = np.exp(logits - logits.max())
        centre, std = np.tanh(out["mean"][0]), np.exp(out["log_std"][0])
        slope = 1.0 - centre.astype(np.float64) ** 2
        return Verdict(
            probability=weights / weights.sum(),
            mean=tuple(c.from_unit(centre[part]) for c, part in zip(self.choices, self._slices, strict=True)),
            std=tuple(
                0.5 * (c.high - c.low) * np.maximum(slope[part] * std[part], 1e-3)
                for c, part in zip(self.choices, self._slices, strict=True)
            ),
        )


def spread_over_primitives(probability: F64) -> F32:
    """(len(Primitive),) from the probability of the choices."""
    full = np.zeros(len(Primitive), np.float32)
    full[[int(p) for p in PRIMITIVES]] = probability
    return full
