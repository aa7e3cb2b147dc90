"""Which agent has which skill: config/agent/agents.yaml, beside the skills."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tether.agent.domain import Domain
from tether.config import bounded, load
from tether.errors import Fault, InvalidInputError


@dataclass(frozen=True)
class Role:
    """An agent. skills: by name, no other agent's."""

    skills: tuple[str, ...]
    doc: str = bounded(default="")


@dataclass(frozen=True)
class Roster:
    """The agents of a domain, by name."""

    agents: dict[str, Role]
    restarts: int = bounded(0, 100, default=4, doc="of one agent within a task; after them it is offline")

    def owner(self, skill: str) -> str:
        """Whose skill it is. KeyError where it is nobody's."""
        return next(name for name, role in self.agents.items() if skill in role.skills)


def load_roster(domain: Domain, names: Sequence[str]) -> Roster:
    """Those of `names`, from agents.yaml in the domain's folder.

    Raises InvalidInputError where a name is no agent, or a skill of the domain is nobody's or several agents'.
    """
    path = domain.folder / "agents.yaml"
    whole = load(path, Roster)
    unknown = [name for name in names if name not in whole.agents]
    if unknown or not names or len(set(names)) != len(names):
        found = ", ".join(unknown) or ", ".join(names) or "none"
        raise InvalidInputError("agents", [Fault("--agents", found, f"some of {', '.join(whole.agents)}, each once")])
    chosen = {name: whole.agents[name] for name in names}
    owned = Counter(skill for role in chosen.values() for skill in role.skills)
    faults = [
        Fault(f"{path}: {name}", "no skill of the domain", "a skill") for name in owned if name not in domain.skills
    ]
    faults += [Fault(f"{path}: {name}", f"{n} agents'", "one agent's") for name, n in owned.items() if n > 1]
    faults += [
        Fault(name, f"no skill of {', '.join(names)}", "an agent's") for name in domain.skills if not owned[name]
    ]
    if faults:
        raise InvalidInputError("agents", faults, "name more agents, or give the skill to one in agents.yaml")
    return Roster(chosen, whole.restarts)
