"""The code of the task skills that ship: each entry makes the policy that chooses primitives while its skill runs.

An entry takes the skill's parameters by name and gives a `tether.policy.protocol.Policy` that acts on sensors alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tether.assembly import policy_kit, skills
from tether.contracts import F64, FusedState, HybridAction, Primitive, Source, TruthSample
from tether.fusion.classic_config import ClassicConfig, load_classic_config
from tether.fusion.grip import Grip, GripSense
from tether.policy.protocol import Policy
from tether.policy.stage import digest
from tether.resources import resource_path
from tether.robot.roles import COMMAND_JOINTS

CARRY_M = 0.10
"""Height of the tool while it carries: clears a cube on the floor by twice its side."""
_CLEAR = {"x": 0.17, "y": -0.12, "z": 0.20}
_LET_GO_DECISIONS = 3

Choice = Callable[[FusedState, Grip], tuple[Primitive, F64]]


class Body:
    """A hand-written policy of one skill: from the fused state and what the fingers feel to a primitive."""

    source = Source.CLASSIC
    is_oracle = False

    def __init__(self, choose: Choice, config: ClassicConfig) -> None:
        self._choose = choose
        self._sense = GripSense(config.grip)

    def reset(self, seed: int) -> None:
        """Start over; nothing is drawn."""
        self._sense.reset()

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The action of this decision. The truth is never looked at."""
        if state.joints is not None:
            at = state.joints.names.index(COMMAND_JOINTS[-1])
            self._sense.take(state.joints.ref.stamp_ns, 2.0 * float(state.joints.position[at]))
        primitive, params = self._choose(state, self._sense.state)
        return HybridAction(state.decision_id, state.stamp_ns, primitive, params, state.estimate, self.source)

    def state_hash(self) -> str:
        """Digest of what the fingers felt."""
        return digest(self._sense.dump())

    def rng_hash(self) -> str:
        """Constant: nothing is drawn."""
        return "none"


def student(parameters: Mapping[str, float]) -> Policy:
    """The distilled policy; the task skill's mask leaves it the primitives that belong to the skill."""
    return policy_kit("student").make()


def find(parameters: Mapping[str, float]) -> Policy:
    """Look."""
    return _always(Primitive.LOOK)


def stand(parameters: Mapping[str, float]) -> Policy:
    """Stand still."""
    return _always(Primitive.HOLD)


def approach(parameters: Mapping[str, float]) -> Policy:
    """Keep over the cube with the gripper open."""
    config = _config()
    decision = config.decision
    return _always(Primitive.TRACK, height=decision.hover_m, opening=decision.opening_m)


def pick(parameters: Mapping[str, float]) -> Policy:
    """Grasp until the fingers feel something, then lift."""
    config = _config()
    decision = config.decision
    down = skills().clipped(Primitive.GRASP, lead=decision.lead_s)
    up = skills().clipped(Primitive.LIFT, height=decision.lift_m, speed=decision.lift_speed_m_s)
    lifting = False

    def choose(state: FusedState, grip: Grip) -> tuple[Primitive, F64]:
        nonlocal lifting
        lifting = lifting or grip is Grip.HOLDING
        return (Primitive.LIFT, up) if lifting else (Primitive.GRASP, down)

    return Body(choose, config)


def carry(parameters: Mapping[str, float]) -> Policy:
    """Reach over the place with the gripper closed."""
    return _always(Primitive.REACH, x=parameters["x"], y=parameters["y"], z=CARRY_M, opening=0.0, speed=0.4)


def place(parameters: Mapping[str, float]) -> Policy:
    """Lower and open; once the fingers have been open for a while, rise."""
    config = _config()
    down = skills().clipped(Primitive.PLACE, x=parameters["x"], y=parameters["y"], z=parameters["z"])
    up = skills().clipped(Primitive.RETREAT, height=config.decision.retreat_m)
    open_for = 0

    def choose(state: FusedState, grip: Grip) -> tuple[Primitive, F64]:
        nonlocal open_for
        open_for = open_for + 1 if grip is Grip.OPEN or open_for >= _LET_GO_DECISIONS else 0
        return (Primitive.RETREAT, up) if open_for >= _LET_GO_DECISIONS else (Primitive.PLACE, down)

    return Body(choose, config)


def release(parameters: Mapping[str, float]) -> Policy:
    """Open and rise."""
    return _always(Primitive.RETREAT, height=_config().decision.retreat_m)


def clear_view(parameters: Mapping[str, float]) -> Policy:
    """Take the arm to where it hides nothing from the camera."""
    return _always(Primitive.REACH, **_CLEAR)


def _always(primitive: Primitive, **values: float) -> Policy:
    params = skills().clipped(primitive, **values)
    return Body(lambda state, grip: (primitive, params), _config())


def _config() -> ClassicConfig:
    return load_classic_config(resource_path("config", "classic.yaml"))


ENTRIES: Mapping[str, Callable[[Mapping[str, float]], Policy]] = {
    made.__name__: made for made in (student, find, stand, approach, pick, carry, place, release, clear_view)
}
"""What ships, by name."""
