"""Opens the models that a policy's name asks for."""

from __future__ import annotations

from tether.alternatives.models import PRIMITIVES, Kind, open_alternative
from tether.alternatives.naming import AlternativeName
from tether.alternatives.policy import AlternativePolicy
from tether.policy.protocol import Policy
from tether.robot.model import RobotModel
from tether.skills import SkillTable


def policy_with_alternatives(
    name: AlternativeName, base: Policy, robot: RobotModel, skills: SkillTable
) -> AlternativePolicy:
    """`base` with alternatives; raises ModelRefusedError where a model is missing or does not fit, and
    InvalidInputError where a choice is to be made by figures that were never measured."""
    kinds = [name.wanted] if isinstance(name.wanted, Kind) else list(Kind)
    offers = {p: {k: open_alternative(name.folder, k, p, skills) for k in kinds} for p in PRIMITIVES}
    return AlternativePolicy(base, robot, skills, offers, name.wanted)
