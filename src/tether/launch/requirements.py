"""What a launch needs besides its file: looked at before any node starts, each of which would find out by itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tether.errors import Fault, InvalidInputError, raise_together
from tether.launch.domain import domain_number
from tether.launch.model import LaunchPlan, ParameterValue


def require_usable(plan: LaunchPlan) -> None:
    """Refuse a ROS domain out of range, and a bag, policy, task or profile that is not there.

    A `<choice>` could not: a file of one's own works wherever a name does. Raises InvalidInputError with the faults
    of all of them.
    """
    errors: list[InvalidInputError] = []
    for check in (_require_domain, _require_bag, _require_settings):
        errors += _refusal(check, plan)
    raise_together("launch", errors)


def _refusal(check: Callable[[LaunchPlan], None], plan: LaunchPlan) -> list[InvalidInputError]:
    try:
        check(plan)
    except InvalidInputError as error:
        return [error]
    return []


def _require_domain(plan: LaunchPlan) -> None:
    inherited = os.environ.get("ROS_DOMAIN_ID", "")
    for text in dict.fromkeys(process.env.get("ROS_DOMAIN_ID", inherited).strip() for process in plan.processes):
        if text:  # an empty one is no choice
            given = plan.variables.get("domain", "").strip() == text
            domain_number(text, "argument 'domain'" if given else "ROS_DOMAIN_ID")


def _require_bag(plan: LaunchPlan) -> None:
    for process in plan.processes:
        if (process.package, process.executable) != ("tether_bringup", "replay_player"):
            continue
        from tether.bags.layout import lay_out
        from tether.bags.report import BagError, LossLog

        for parameter in process.parameters:
            if isinstance(parameter, ParameterValue) and parameter.name == "bag":
                try:
                    lay_out(Path(str(parameter.value)), LossLog())
                except BagError as error:
                    raise InvalidInputError("bag", [Fault("bag", str(error), "a bag's folder or file")]) from None


def _require_settings(plan: LaunchPlan) -> None:
    if any(process.package == "tether_safety" for process in plan.processes):
        from tether.assembly import require_settings  # a second of import, for launches of our graph only

        # a launch file of one's own may have other arguments than ours
        require_settings(*(plan.variables.get(name) for name in ("policy", "task", "profile")))
