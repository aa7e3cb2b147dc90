"""What stands where a policy stands while several agents are at work: it asks the one that has the robot, or holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tether.agent.declaration import Way
from tether.agent.skill_policy import ANSWER_S, SkillPolicy, fitting, hold
from tether.codec import decode, encode
from tether.codec.convert import action_from, fused_state_message
from tether.contracts import FusedState, HybridAction, SkillContext, TruthSample
from tether.errors import DeadlineError, InvalidInputError
from tether.team.link import Link, LinkKind, LinkLostError, Listener


class LinkedPolicy(SkillPolicy):
    """Asks the agent that the robot is lent to, or holds where there is none or it is gone."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.link: Link | None = None
        self.linked_pid = 0
        self.lost: str | None = None
        """What became of the link to the agent that runs the skill, None while it is well."""

    @property
    def worker_pid(self) -> int:
        """Process id of the agent's worker, 0 where there is none."""
        return self.linked_pid

    def lend(self, agent: str, pid: int, link: Link | None) -> None:
        """Ask this agent from now on; None: nobody."""
        self.link, self.agent_pid = link, pid

    def reset(self, seed: int) -> None:
        """See `SkillPolicy.reset`."""
        super().reset(seed)
        self.lost = None

    def start(self, way: Way, parameters: Mapping[str, float], context: SkillContext) -> None:
        """The agent's worker has started."""
        self.fault, self.lost, self.context = None, None, context

    def stop(self, *, kill: bool) -> None:
        """See `SkillPolicy.stop`; the worker is the agent's to kill."""
        super().stop(kill=kill)
        self.lost = None

    def decide(self, state: FusedState, truth: TruthSample | None) -> HybridAction:
        """The agent's action. Whatever is wrong with it, or with its worker, becomes `fault`, and the robot holds."""
        if self.link is None or self.context is None or self.fault is not None:
            return hold(state)
        asked = replace(state, skill=self.context)
        try:
            self.link.send(LinkKind.STATE, encode(fused_state_message(asked, 0)))
            kind, content = self.link.receive(ANSWER_S)
            if kind is LinkKind.HOLD:
                self.fault = content.decode("utf-8", "replace")
                return hold(state)
            return fitting(action_from(decode(content, "tether_msgs/msg/HybridAction")), state, self.context)
        except (LinkLostError, DeadlineError, InvalidInputError, ValueError) as error:
            self.lost = self.fault = f"process {self.agent_pid}: {error}"
            return hold(state)


class CalledPolicy(LinkedPolicy):
    """As LinkedPolicy, in a process of its own: agents' processes call it, and each order says which is to be asked."""

    def __init__(self, folder: Path, path: Path) -> None:
        """path: where they call. Raises InvalidInputError where there can be no socket."""
        super().__init__(folder)
        self._listener = Listener(path)
        self._callers: dict[str, tuple[int, Link]] = {}

    def close(self) -> None:
        """Hear nobody any more."""
        self._listener.close()
        for _, link in self._callers.values():
            link.close()

    def turn_to(self, agent: str, pid: int, worker_pid: int) -> None:
        """Ask this agent from now on. Where that process has not called, it counts as lost."""
        for name, called_by, link in self._listener.callers():
            if name in self._callers:
                self._callers[name][1].close()
            self._callers[name] = called_by, link
        caller = self._callers.get(agent)
        self.lend(agent, pid, caller[1] if caller is not None and caller[0] == pid else None)
        self.linked_pid = worker_pid
        if self.link is None:
            self.lost = self.fault = f"process {pid} of {agent or 'nobody'} has not called"
