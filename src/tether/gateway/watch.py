"""What the gateway does by itself: it hears what ended, ends what is late, and gives up agents that no longer beat."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

from tether.gateway.journal import Agent, GatewayJournal
from tether.gateway.records import FINAL, CallRecord, GatewayConfig
from tether.gateway.supervisor import fence
from tether.safety.heartbeat import AgentRule, Beat, Consequence, HeartbeatMonitor, HeartbeatRules

_LOG = logging.getLogger(__name__)
_PREFIX = "agent/"
_LOOK_S = 1.0
"""A waiting request looks by itself that often: an announcement may be lost with a server that is killed."""


class Waiters:
    """Who waits for which call to end."""

    def __init__(self, client: Any, journal: GatewayJournal) -> None:
        self._client, self._journal = client, journal
        self._events: dict[str, set[asyncio.Event]] = {}

    async def wait(self, call_id: str, wait_s: float) -> CallRecord | None:
        """The call once it is final, or as it is after `wait_s`; None where there is none."""
        event = asyncio.Event()
        self._events.setdefault(call_id, set()).add(event)
        until_s = time.monotonic() + wait_s
        try:
            while True:
                record = await self._journal.call(call_id)
                left_s = until_s - time.monotonic()
                if record is None or record.state in FINAL or left_s <= 0.0:
                    return record
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(event.wait(), min(left_s, _LOOK_S))
                event.clear()
        finally:
            self._events[call_id].discard(event)
            if not self._events[call_id]:
                del self._events[call_id]

    async def listen(self) -> None:
        """Runs until it is cancelled."""
        from redis.exceptions import RedisError

        pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        subscribed = False
        while True:
            try:
                if not subscribed:
                    await pubsub.subscribe(self._journal.done_channel)
                    subscribed = True
                message = await pubsub.get_message(timeout=1.0)
            except RedisError:
                await asyncio.sleep(0.1)
                continue
            if message is not None:
                for event in self._events.get(message["data"], ()):
                    event.set()


class Watch:
    """Deadlines and heartbeats."""

    def __init__(self, journal: GatewayJournal, config: GatewayConfig) -> None:
        self._journal, self._config = journal, config
        offline_s, forget_s = config.offline_s, config.forget_s
        rule = AgentRule(_PREFIX, Consequence.NAME, max(0.5, min(5.0, offline_s / 3)), offline_s, forget_s)
        self._monitor = HeartbeatMonitor(HeartbeatRules({}, rule, 50.0, 300.0, 500.0))
        self._given_up: set[str] = set()
        self._agents: dict[str, Agent] = {}

    @property
    def can_verify(self) -> bool:
        """Whether some agent that beats can verify effects."""
        return any(a.verifies for a in self._agents.values() if a.name not in self._given_up)

    def offline(self) -> frozenset[str]:
        """Agents that no longer beat and are not yet forgotten."""
        return frozenset(self._given_up)

    async def run(self) -> None:
        """Runs until it is cancelled."""
        from redis.exceptions import RedisError

        while True:
            try:
                await self.turn(time.monotonic_ns())
            except RedisError as error:
                # While the journal is gone nobody's beat can be heard: that is no sign of death.
                _LOG.warning("journal: %s", error)
                self._monitor.forget()
            await asyncio.sleep(self._config.sweep_s)

    async def turn(self, now_ns: int) -> None:
        """Look once. now_ns: of the steady clock."""
        self._agents = {agent.name: agent for agent in await self._journal.agents()}
        for agent in self._agents.values():
            self._monitor.hear(Beat(agent.name, agent.pid, (_PREFIX + agent.name,), (agent.turns,)), now_ns)
        silent = {each.loop.removeprefix(_PREFIX) for each in self._monitor.offline(now_ns)}
        for name in silent - self._given_up:
            await self._give_up(name)
        self._given_up = {name for name in self._given_up if name in silent} | silent
        for loop in self._monitor.forgotten():
            name = loop.removeprefix(_PREFIX)
            self._given_up.discard(name)
            await self._journal.lose(name, fenced=False, why="forgotten", forget=True)
        await self._journal.sweep(can_verify=self.can_verify)

    async def _give_up(self, name: str) -> None:
        agent = self._agents.get(name)
        dead = agent is not None and await fence(agent)
        why = f"agent {name} has not beaten for {self._config.offline_s:g} s"
        _LOG.error("%s; it is %s", why, "dead now" if dead else "out of reach, so nothing it had begun is tried again")
        await self._journal.lose(name, fenced=dead, why=why, forget=False)
