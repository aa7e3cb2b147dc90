"""What a launch needs besides its file: looked at before any node starts, each of which would find out by itself."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tether.bags.player import MAX_RATE, MIN_RATE
from tether.errors import Fault, InvalidInputError, raise_together
from tether.launch.domain import domain_number
from tether.launch.model import LaunchPlan, ParameterValue

_RUN = {"episodes": (1, math.inf), "seed": (0, math.inf), "truth_age_ms": (0, math.inf)}
_PLAYER = {"rate": (MIN_RATE, MAX_RATE), "start_s": (0.0, math.inf)}
"""What parameters of our nodes are at least and at most."""


def require_usable(plan: LaunchPlan) -> None:
    """Refuse a ROS domain out of range, a bag, policy, task or profile that is not there, and numbers out of range.

    A `<choice>` could not: a file of one's own works wherever a name does. Raises InvalidInputError with the faults
    of all of them.
    """
    errors: list[InvalidInputError] = []
    for check in (_require_domain, _require_bag, _require_settings, _require_numbers):
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
    for text in dict.fromkeys(process.env.get("ROS_DOMAIN_ID", inherited) for process in plan.processes):
        if text:  # an empty one is no choice
            given = plan.variables.get("domain") == text
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


def _require_numbers(plan: LaunchPlan) -> None:
    faults: dict[str, Fault] = {}
    for process in plan.processes:
        if not process.package.startswith("tether_"):
            continue
        values = {p.name: p.value for p in process.parameters if isinstance(p, ParameterValue)}
        for name, (least, most) in (_PLAYER if process.executable == "replay_player" else _RUN).items():
            value = values.get(name)
            if name == "rate" and values.get("unpaced"):  # it says nothing then
                continue
            if isinstance(value, int | float) and not least <= value <= most:
                expected = f"at least {least:g}" + (f", at most {most:g}" if most < math.inf else "")
                faults[name] = Fault(f"argument '{name}'", str(value), expected)
    if any(process.package == "tether_safety" for process in plan.processes):
        threads = plan.variables.get("threads", "1").strip()
        if not (threads.isdecimal() and int(threads)):
            faults["threads"] = Fault("argument 'threads'", repr(threads), "a whole number from 1")
        if "truth_age_ms" not in faults and _never_sees_its_truth(plan.variables):
            found = f"{plan.variables['truth_age_ms']} for {plan.variables['policy']}, which never sees the truth"
            expected = "an oracle: scripted, teacher; or arbiter:=oracle_teacher"
            faults["truth_age_ms"] = Fault("argument 'truth_age_ms'", found, expected)
    if faults:
        raise InvalidInputError("arguments", list(faults.values()))


def _never_sees_its_truth(variables: Mapping[str, str]) -> bool:
    """Whether an age of the truth is given for a policy that does not ask for it."""
    from tether.assembly import needs_truth
    from tether.bridge.arbiter import Arbitration

    policy, arbiter = variables.get("policy"), variables.get("arbiter")
    if policy is None or variables.get("truth_age_ms", "0").strip("0 ") == "":
        return False
    try:
        return not needs_truth(policy, Arbitration(arbiter))
    except (InvalidInputError, ValueError):  # told elsewhere, or no arbiter of ours
        return False
