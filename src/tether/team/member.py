"""An agent's process, `python -m tether.team.member SETTINGS`, as `tether.team.processes` starts it.

It follows the record of the team's task, takes the steps that are given to it, runs each by the same executor as a
single agent does, on a robot at the other end of a link, and puts the outcome on record. Skills' code runs in a worker
process of its own. It dies with whoever started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tether.agent.calls import Call, Outcome, Status
from tether.agent.declaration import TaskSkill
from tether.agent.domain import Domain, load_domain
from tether.agent.execution import REFUSED, SkillExecutor
from tether.agent.facts import Facts
from tether.agent.orders import context_of
from tether.agent.robot import WorldEndedError
from tether.agent.skill_policy import SkillPolicy
from tether.codec import decode, encode
from tether.codec.convert import action_message, fused_state_from
from tether.contracts import U8
from tether.errors import DeadlineError, InvalidInputError
from tether.memory.redis_server import connect
from tether.memory.working import Action, Change, WorkingMemory
from tether.processes import die_with_parent
from tether.team import record
from tether.team.link import Link, LinkKind, LinkLostError, connected, facts_from, heard_first

ANSWER_S = 120.0
"""For the robot's process to answer; starting a world on a busy small machine is not part of it."""
BEAT_S = 2.0
_LOOK_S = 1.0
"""The record is looked at that often by itself: an announcement may be lost with a server that is killed."""


@dataclass(frozen=True)
class MemberSettings:
    """All that an agent's process is told. ways: skill → way; ttl_s: of its heartbeat. decisions: socket of the process
    that asks for decisions, None where it is whoever owns the robot."""

    name: str
    url: str
    link: str
    folder: str
    ways: Mapping[str, str]
    ttl_s: float
    decisions: str | None = None

    def text(self) -> str:
        """For the command line."""
        return json.dumps(asdict(self))


class LinkedRobot:
    """See `tether.agent.robot.Robot`: the robot at the other end of the link, and the skill's worker at this one."""

    def __init__(self, link: Link, policy: SkillPolicy, decisions: Link) -> None:
        """decisions: by which decisions are asked for; may be the same."""
        self._link, self._policy, self._decisions = link, policy, decisions
        self._facts: Facts = {}
        self._evidence: Mapping[str, float] = {}
        self._now_ns = 0
        self._cancelled = False

    def begin(self, change: Change) -> None:
        """What is known at the hand-over is what stands on record."""
        self._facts = {fact.name: fact for fact in change.facts}
        self._now_ns, self._cancelled = change.stamp_ns, False

    @property
    def facts(self) -> Facts:
        """What the sensors say now."""
        return self._facts

    @property
    def evidence(self) -> Mapping[str, float]:
        """The numbers behind the facts."""
        return self._evidence

    @property
    def fault(self) -> str | None:
        """What became of the running skill's worker."""
        return self._policy.fault

    def cancelled(self) -> bool:
        """Whether the coordinator has taken the step back."""
        return self._cancelled

    def now_ns(self) -> int:
        """The robot's clock."""
        return self._now_ns

    def start(self, call: Call, skill: TaskSkill, way: str, step: tuple[int, int]) -> None:
        """See `Robot.start`."""
        self._policy.start(skill.ways[way], call.parameters, context_of(skill, call.parameters, step))
        self._ask(LinkKind.START, call_id=call.call_id, worker_pid=self._policy.worker_pid)

    def advance(self) -> None:
        """See `Robot.advance`."""
        ended = self._ask(LinkKind.ADVANCE)["ended"]
        if ended is not None:
            raise WorldEndedError(ended)

    def stop(self, *, kill: bool) -> None:
        """See `Robot.stop`."""
        self._policy.stop(kill=kill)
        self._ask(LinkKind.STOP, kill=kill)

    def judged(self) -> Mapping[str, bool]:
        """Nobody judges here."""
        return {}

    def picture(self) -> U8 | None:
        """Pictures stay with the robot."""
        return None

    def _ask(self, kind: LinkKind, **fields: Any) -> dict[str, Any]:
        """The robot's answer; meanwhile its decisions are made here."""
        self._link.send_fields(kind, **fields)
        while True:
            answered, content = heard_first([self._link, self._decisions], ANSWER_S).receive(ANSWER_S)
            if answered is LinkKind.STATE:
                self._decide(content)
            elif answered is LinkKind.FACTS:
                answer: dict[str, Any] = json.loads(content)
                self._facts, self._evidence = facts_from(answer["facts"]), answer["evidence"]
                self._now_ns, self._cancelled = answer["now_ns"], answer["cancelled"]
                return answer
            else:
                raise LinkLostError(f"{answered.name} where FACTS or STATE was due")

    def _decide(self, content: bytes) -> None:
        state = fused_state_from(decode(content, "tether_msgs/msg/FusedState"))
        self._policy.context = state.skill
        action = self._policy.decide(state, None)
        if self._policy.fault is not None:
            self._decisions.send(LinkKind.HOLD, self._policy.fault.encode())
        else:
            self._decisions.send(LinkKind.ACTION, encode(action_message(action, 0)))


class Member:
    """Takes and runs steps until the link is lost."""

    def __init__(self, settings: MemberSettings, domain: Domain, link: Link, decisions: Link) -> None:
        self._settings, self._domain, self._link = settings, domain, link
        self._taker = f"{settings.name}-{os.getpid()}-{time.monotonic_ns()}"
        self._client = connect(settings.url)
        self._policy = SkillPolicy(domain.folder)
        self._decisions = decisions
        self._robot = LinkedRobot(link, self._policy, decisions)
        self._task_id = ""
        self._after = 0

    def run(self) -> None:
        """Raises LinkLostError once whoever owns the robot is gone."""
        from redis.exceptions import RedisError

        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        pubsub.psubscribe("tether:working:*")
        for link in dict.fromkeys((self._decisions, self._link)):  # whoever owns the robot is told last, and lends it
            link.send_fields(LinkKind.HELLO, name=self._settings.name, pid=os.getpid())
        while True:
            self._look()
            try:
                pubsub.get_message(timeout=_LOOK_S)
            except RedisError:
                time.sleep(0.02)

    def _look(self) -> None:
        """Take what is new on the record of the task that the team is at."""
        found = self._client.get(record.TASK_KEY)
        if found is None:
            return
        task = json.loads(found)
        memory = WorkingMemory(self._client, task["task_id"])
        if task["task_id"] != self._task_id:
            self._task_id, self._after = task["task_id"], 0
            self._executor = SkillExecutor(self._domain, self._robot, self._settings.ways)
            self._policy.reset(task["seed"])
        for change in memory.changes(self._after):
            self._after = change.sequence
            if change.action is not None and change.action.agent == self._settings.name:
                self._step(memory, change, change.action)

    def _step(self, memory: WorkingMemory, change: Change, action: Action) -> None:
        received_ns, name = time.monotonic_ns(), self._settings.name
        if not record.take(memory, action.call_id, name, self._taker, change.stamp_ns, received_ns):
            return
        self._robot.begin(change)
        outcome = self._run(action)
        record.end(memory, name, self._robot.now_ns(), outcome)
        self._link.send_fields(LinkKind.ENDED, call_id=action.call_id)

    def _run(self, action: Action) -> Outcome:
        call = Call(action.call_id, self._task_id, action.skill, action.parameters, action.deadline_ns)
        step = action.step, action.steps
        try:
            return self._executor.execute(
                call, lambda feedback: None, self._robot.cancelled, step=step, attempt=action.attempt
            )
        except InvalidInputError as error:
            return Outcome(call.call_id, Status.FAILED, f"{REFUSED}: {error}")

    def _beat(self) -> None:
        """From a thread, since a step may wait long for a worker to start: a stopped process no longer beats."""
        from redis.exceptions import RedisError

        client, turns = connect(self._settings.url), 0
        while True:
            turns += 1
            try:
                beat = json.dumps({"pid": os.getpid(), "turns": turns})
                client.set(record.BEAT_KEY + self._settings.name, beat, ex=max(1, round(self._settings.ttl_s)))
            except RedisError:
                pass  # the server is being started anew
            time.sleep(BEAT_S)


def main() -> int:
    """Run as the settings on the command line say, until whoever started it is gone."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    settings = MemberSettings(**json.loads(sys.argv[1]))
    domain = load_domain(Path(settings.folder))
    with contextlib.ExitStack() as stack:
        link = stack.enter_context(connected(settings.link))
        decisions = link if settings.decisions is None else stack.enter_context(connected(settings.decisions))
        try:
            Member(settings, domain, link, decisions).run()
        except (LinkLostError, DeadlineError) as error:
            sys.stderr.write(f"{settings.name}: {error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
