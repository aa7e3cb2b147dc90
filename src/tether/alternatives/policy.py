"""`classic` with the parameters of `reach` and `grasp` from an alternative, chosen call by call.

`classic` decides what to do and when. Where it would track the cube, the tool reaches for the point that the
alternative names; where it grasps, the alternative gives the parameters. A call is one run of a primitive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tether.alternatives.features import state_vector
from tether.alternatives.models import Alternative, Kind
from tether.alternatives.selection import Choice, Need, choose, measured
from tether.contracts import F32, FusedState, HybridAction, Primitive, Source, TruthSample
from tether.models.session import Session
from tether.motion.kinematics import ArmKinematics
from tether.policy.protocol import Policy
from tether.policy.stage import digest
from tether.robot.model import RobotModel
from tether.skills import SkillTable
from tether.student.labels import Scaling

REPLACED = {Primitive.TRACK: Primitive.REACH, Primitive.GRASP: Primitive.GRASP}
"""What `classic` chooses → the primitive whose parameters an alternative gives in its place."""
KEPT_CALLS = 1000

Offers = Mapping[Primitive, Mapping[Kind, Alternative]]


@dataclass(frozen=True)
class Call:
    """A call as it is kept: from which decision on, of what, served by which alternative, and why by this one."""

    decision_id: int
    stamp_ns: int
    primitive: Primitive
    choice: Choice


class AlternativePolicy:
    """See the module and `tether.policy.protocol.Policy`. Draws one noise vector a call."""

    source = Source.CLASSIC
    is_oracle = False

    def __init__(
        self,
        base: Policy,
        robot: RobotModel,
        skills: SkillTable,
        offers: Offers,
        wanted: Kind | Mapping[Primitive, Need],
    ) -> None:
        """wanted: one alternative for every call, or the need by which each primitive's calls are served."""
        self._base, self._offers, self._wanted = base, offers, wanted
        self._kinematics = ArmKinematics(robot)
        self._scaling = Scaling(skills)
        self._figures = (
            {}
            if isinstance(wanted, Kind)
            else {p: {k: measured(a.session.manifest) for k, a in kinds.items()} for p, kinds in offers.items()}
        )
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Start over."""
        self._base.reset(seed)
        self._rng = np.random.default_rng(seed)
        self._noise: F32 = np.zeros(0, np.float32)
        self._call: Call | None = None
        self.calls: deque[Call] = deque(maxlen=KEPT_CALLS)

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """What `classic` does, with an alternative's parameters where it tracks or grasps and knows where the cube is.

        Raises InvalidInputError where it is given the truth.
        """
        action = self._base.decide(state, truth)
        primitive = REPLACED.get(action.primitive)
        vector = None if primitive is None else state_vector(state, self._kinematics)
        if primitive is None or vector is None or not state.skill.primitive_mask[primitive]:
            self._call = None
            return action
        call = self._call_of(state, primitive)
        alternative = self._offers[primitive][call.choice.kind]
        params = self._scaling.params(primitive, alternative.scaled(vector, self._noise))
        return replace(action, primitive=primitive, params=params)

    @property
    def runtime(self) -> str:
        """The alternative that serves the present call, on what it runs and why it; recorded with each decision."""
        if self._call is None:
            return "numpy"
        session = self._offers[self._call.primitive][self._call.choice.kind].session
        return f"{session.runtime}; {self._call.choice.kind.value} ({self._call.choice.reason})"

    def sessions(self) -> tuple[Session, ...]:
        """See `tether.models.running.RunsModels`."""
        return tuple(alternative.session for kinds in self._offers.values() for alternative in kinds.values())

    def state_hash(self) -> str:
        """Digest of everything the next action depends on besides its inputs."""
        models = [session.manifest.sha256.encode() for session in self.sessions()]
        return digest(self._base.state_hash().encode(), repr(self._call).encode(), self._noise.tobytes(), *models)

    def rng_hash(self) -> str:
        """Digest of the random state."""
        return digest(repr(self._rng.bit_generator.state).encode())

    def _call_of(self, state: FusedState, primitive: Primitive) -> Call:
        """The call that this decision belongs to; a new one where another primitive ran before."""
        if self._call is None or self._call.primitive is not primitive:
            self._call = Call(state.decision_id, state.stamp_ns, primitive, self._choice(primitive))
            self.calls.append(self._call)
            n = int(self._scaling.used[primitive].sum())
            self._noise = self._rng.standard_normal(n).astype(np.float32)
        return self._call

    def _choice(self, primitive: Primitive) -> Choice:
        if isinstance(self._wanted, Kind):
            return Choice(self._wanted, "named")
        return choose(self._wanted[primitive], primitive, self._figures[primitive])
