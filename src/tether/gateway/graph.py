"""What a gateway knows of the live graph behind it: the shipped domain, and effects by the graph's own sensors."""

from __future__ import annotations

import threading
import time

from tether.agent.calls import Call, Fact
from tether.agent.domain import Domain, parameters_of
from tether.agent.execution import SETTLED, VERIFY_NS
from tether.agent.facts import Condition, Unmet, unmet
from tether.agent.observing import FactSense
from tether.agent.services import DomainCatalogue
from tether.assembly import robot
from tether.contracts import DECISION_NS, TICK_NS, FusedState, Mode
from tether.errors import Fault, InvalidInputError
from tether.fusion.classic_config import load_classic_config
from tether.gateway.records import Effect
from tether.gateway.services import SkillInfo
from tether.resources import resource_path


class GraphCatalogue(DomainCatalogue):
    """The domain that the graph's agent was started with."""

    def register(self, declaration: str) -> SkillInfo:
        """Refused: the agent reads its domain once, and would know nothing of it."""
        fault = Fault("declaration", "a skill for a running graph", "a skill that its agent was started with")
        fix = "put the file into the domain's folder and start the graph anew with agent_domain:=FOLDER"
        raise InvalidInputError("skill", [fault], fix)


class EffectWatch:
    """Facts from what fusion and gate publish, by the agent's own rules, told from any thread.

    Nobody is asked: an effect can be seen, or not, when the agent that was to bring it about is gone.
    """

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._sense = FactSense(robot(), load_classic_config(resource_path("config", "classic.yaml")))
        self._came = threading.Condition()
        self._turn = threading.Lock()
        self._episode: int | None = None
        self._now_ns = 0
        self._count = 0
        self._in_episode = 0

    def on_state(self, episode: int, state: FusedState, mode: Mode) -> None:
        """Fusion has made a state; mode: the gate's newest. Another episode is another world: all is forgotten."""
        with self._came:
            if episode != self._episode:
                self._episode = episode
                self._sense.reset()
                self._in_episode = 0
            self._sense.take(state, mode)
            self._now_ns = state.stamp_ns + TICK_NS
            self._count += 1
            self._in_episode += 1
            self._came.notify_all()

    def has_begun(self) -> bool:
        """Whether states of this episode have come for 0.6 s, so that facts which take a while are known."""
        with self._came:
            return self._in_episode * DECISION_NS > VERIFY_NS

    def facts(self, within_s: float) -> tuple[Fact, ...]:
        """Facts of the next state to come, or after that long of the newest one; nothing before it `has_begun`."""
        with self._came:
            count = self._count
            self._came.wait_for(lambda: self._count > count and self.has_begun(), within_s)
            return tuple(self._sense.facts.values()) if self.has_begun() else ()

    def look(self, call: Call, within_s: float) -> tuple[Effect, tuple[Fact, ...]]:
        """Whether the effect of a call is there: seen in two states in a row, or not for 0.6 s of the world's time.

        UNKNOWN where a fact that it takes is not known, or no states come within `within_s` of the steady clock.
        """
        wanted, until_s = self._wanted(call), time.monotonic() + within_s
        with self._turn, self._came:
            begun_ns: int | None = None
            count, seen = self._count, 0
            missing: tuple[Unmet, ...] = ()
            while seen < SETTLED and (begun_ns is None or self._now_ns - begun_ns < VERIFY_NS):
                if not self._came.wait_for(lambda: self._count > count, until_s - time.monotonic()):  # noqa: B023
                    return Effect.UNKNOWN, tuple(self._sense.facts.values())
                if begun_ns is None or self._now_ns < begun_ns:
                    begun_ns = self._now_ns
                count = self._count
                missing = unmet(wanted, self._sense.facts, self._now_ns, self._domain.max_age_ns)
                seen = 0 if missing else seen + 1
            facts = tuple(self._sense.facts.values())
        if seen >= SETTLED:
            return Effect.HAPPENED, facts
        return Effect.UNKNOWN if any(one.fact is None for one in missing) else Effect.ABSENT, facts

    def _wanted(self, call: Call) -> Condition:
        skill = self._domain.skills[call.skill]
        values = parameters_of(skill.parameters, call.parameters, f"skill {skill.name}")
        with self._came:
            self._sense.look_at(values)
        return skill.achieves
