"""Who may say and hear what in the robot's graph: the policy of SROS 2's enclaves, config/sros2/robot.policy.xml.

Written for `ros2 security generate_artifacts` (policy format 0.2.0, policy.xsd of sros2); read here to be held
to what the nodes have, and so that `tether doctor` knows which enclaves a keystore needs. See docs/security.md.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from tether.errors import Fault, InvalidInputError
from tether.resources import resource_path

POLICY = "sros2/robot.policy.xml"
"""Below config/."""
VERSION = "0.2.0"
_LISTS = {"topics": ("publish", "subscribe"), "services": ("reply", "request")}
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Profile:
    """What one node may do: names of topics and services, from the root. Whatever is not named is refused."""

    node: str
    publish: frozenset[str] = _NONE
    subscribe: frozenset[str] = _NONE
    reply: frozenset[str] = _NONE
    request: frozenset[str] = _NONE


def load_policy(path: Path | None = None) -> dict[str, tuple[Profile, ...]]:
    """Enclave → profiles of its nodes. path: another file than the one that ships.

    Raises InvalidInputError that names every fault: no XML, another version, something that is neither a topic nor a
    service, a rule that does not allow, an enclave or a node of an enclave that comes twice.
    """
    file = resource_path("config", POLICY) if path is None else path
    try:
        root = ElementTree.parse(file).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise InvalidInputError("policy", [Fault(str(file), str(error), "a policy of SROS 2 in XML")]) from None
    faults: list[Fault] = []
    if root.tag != "policy" or root.get("version") != VERSION:
        found = f"<{root.tag}> of version {root.get('version')}"
        faults.append(Fault(str(file), found, f"<policy> of version {VERSION}"))
    enclaves: dict[str, tuple[Profile, ...]] = {}
    for enclave in root.iterfind("enclaves/enclave"):
        name = enclave.get("path", "")
        profiles = tuple(_profile(one, f"{file}: {name}", faults) for one in enclave.iterfind("profiles/profile"))
        if name in enclaves or not name.startswith("/") or not profiles:
            faults.append(Fault(str(file), f"enclave {name!r}", "a path from the root, once, with profiles"))
        if len({profile.node for profile in profiles}) < len(profiles):
            faults.append(Fault(f"{file}: {name}", "a node twice", "one profile a node"))
        enclaves[name] = profiles
    if faults:
        raise InvalidInputError("policy", faults)
    return enclaves


def _profile(element: ElementTree.Element, where: str, faults: list[Fault]) -> Profile:
    node, namespace = element.get("node", ""), element.get("ns", "")
    allowed: dict[str, set[str]] = {rule: set() for rules in _LISTS.values() for rule in rules}
    if not node or namespace != "/":
        faults.append(Fault(where, f"node {node!r} in {namespace!r}", "a node's name, in the namespace /"))
    for group in element:
        rules = _LISTS.get(group.tag, ())
        if not group.attrib or any(rule not in rules or group.get(rule) != "ALLOW" for rule in group.attrib):
            found = f"<{group.tag} {' '.join(f'{k}={v}' for k, v in group.attrib.items())}>"
            faults.append(Fault(f"{where}: {node}", found, "topics or services that are allowed"))
            continue
        for rule in group.attrib:
            allowed[rule] |= {_from_root(one.text or "", node) for one in group}
    return Profile(node, **{rule: frozenset(names) for rule, names in allowed.items()})


def _from_root(name: str, node: str) -> str:
    if name.startswith("~/"):
        return f"/{node}/{name[2:]}"
    return name if name.startswith("/") else f"/{name}"
