"""The reward server's core: payments of the ledger, delivered as late as the profile says.

It takes world states (or measurements of the robot's sensors) and executed commands, each in their own order, however
the two arrive between each other, and nothing else: there is no way in for a reward that somebody else made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tether.contracts import Command, ExecutedCommand, TruthSample
from tether.rewards.ledger import Ledger, Payment
from tether.rewards.measured import Measured
from tether.world.profile import Delay
from tether.world.streams import DelayDraw, Draw, generator

_WAITING = 512
"""Bound on states and commands that wait for each other; past it the oldest are given up.

It is for one of the two that stays away altogether. A single one that was lost is told by its successor, at once: to
wait for it would make every reward after it as late as the wait.
"""
_EPISODES = 2
"""The last messages of an episode may come after the first of the next."""


@dataclass(frozen=True)
class Reward:
    """A payment as it reaches learner and breaker. delivered_ns: the payment's stamp and the profile's delay."""

    payment: Payment
    episode: int
    delivered_ns: int


class _Episode:
    """One episode: its ledger, its draws, and the states and commands that wait for each other."""

    def __init__(self, number: int, ledger: Ledger, draw: DelayDraw) -> None:
        self._number = number
        self._ledger = ledger
        self._draw = draw
        self._next_tick = 0
        self._states: dict[int, TruthSample] = {}
        self._commands: dict[int, Command] = {}
        self._newest_state = self._newest_command = -1
        self.lost = 0

    def take_state(self, truth: TruthSample) -> list[Reward]:
        """Rewards that a world state makes complete."""
        tick = truth.ref.sequence
        if tick < self._next_tick:
            return []
        self._states[tick] = truth
        self._newest_state = max(self._newest_state, tick)
        return self._join()

    def take_executed(self, executed: ExecutedCommand) -> list[Reward]:
        """Rewards that an executed command makes complete; it led to the state of the tick after its own."""
        tick = executed.ref.sequence + 1
        if tick < self._next_tick:
            return []
        self._commands[tick] = executed.command
        self._newest_command = max(self._newest_command, tick)
        return self._join()

    def judge(self, measured: Iterable[Measured]) -> list[Reward]:
        """Rewards for measurements, oldest first."""
        return [reward for one in measured for reward in self._rewards(self._ledger.judge(one))]

    def _join(self) -> list[Reward]:
        """Rewards of every tick whose state and command have both come, in order; what never comes is given up."""
        rewards: list[Reward] = []
        while True:
            tick = self._next_tick
            if tick in self._states and (tick in self._commands or tick == 0):
                payments = self._ledger.take(self._states.pop(tick), self._commands.pop(tick, None))
                rewards += self._rewards(payments)
            elif self._never_comes(tick) or max(len(self._states), len(self._commands)) > _WAITING:
                self._states.pop(tick, None)
                self._commands.pop(tick, None)
                self.lost += 1
            else:
                return rewards
            self._next_tick += 1

    def _never_comes(self, tick: int) -> bool:
        """Whether a half of the tick is missing and a later one of its kind has come: each kind comes in order."""
        state_lost = tick not in self._states and self._newest_state > tick
        return state_lost or (tick > 0 and tick not in self._commands and self._newest_command > tick)

    def _rewards(self, payments: Iterable[Payment]) -> list[Reward]:
        drawn = [(payment, self._draw.next_ns()) for payment in payments]
        return [Reward(p, self._number, p.stamp_ns + delay) for p, delay in drawn if delay is not None]


class RewardServer:
    """Judges episodes and hands rewards over when they are due. Deterministic whatever the order of arrival."""

    def __init__(self, make_ledger: Callable[[], Ledger], delay: Delay, seed: int) -> None:
        """seed: of episode 0, those after it count up, as the world's do; delays are drawn from the episode's."""
        self._make_ledger = make_ledger
        self._delay = delay
        self._seed = seed
        self._episodes: dict[int, _Episode] = {}
        self._pending: list[Reward] = []

    def take_state(self, episode: int, truth: TruthSample) -> None:
        """The world's state at the start of tick `truth.ref.sequence`."""
        judged = self._episode(episode)
        if judged is not None:
            self._pending += judged.take_state(truth)

    def take_executed(self, episode: int, executed: ExecutedCommand) -> None:
        """What was executed during tick `executed.ref.sequence`, that is, up to the state of the next."""
        judged = self._episode(episode)
        if judged is not None:
            self._pending += judged.take_executed(executed)

    def take_measured(self, episode: int, measured: Iterable[Measured]) -> None:
        """Measurements of the robot's sensors, oldest first."""
        judged = self._episode(episode)
        if judged is not None:
            self._pending += judged.judge(measured)

    def due(self, now_ns: int) -> list[Reward]:
        """Remove and return what has reached its time of delivery, in order of that."""
        due = [reward for reward in self._pending if reward.delivered_ns <= now_ns]
        self._pending = [reward for reward in self._pending if reward.delivered_ns > now_ns]
        return sorted(due, key=lambda reward: (reward.delivered_ns, reward.payment.stamp_ns))

    def rest(self) -> list[Reward]:
        """Remove and return all that is under way: the world's time stands still, nothing else makes it due."""
        return self.due(max((reward.delivered_ns for reward in self._pending), default=0))

    @property
    def lost(self) -> int:
        """Ticks of the present episodes that were passed over, their state or command never having come."""
        return sum(episode.lost for episode in self._episodes.values())

    def _episode(self, number: int) -> _Episode | None:
        """The episode by number, begun where it is new; None for one that has long ended."""
        if number not in self._episodes:
            if self._episodes and number < max(self._episodes):
                return None
            draw = DelayDraw(self._delay, generator(self._seed + number, Draw.REWARD_DELAY))
            self._episodes[number] = _Episode(number, self._make_ledger(), draw)
            for old in sorted(self._episodes)[:-_EPISODES]:
                del self._episodes[old]
        return self._episodes[number]
