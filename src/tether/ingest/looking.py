"""How often the eyes look, in real time: every picture, or fewer where the robot's computer has no time or is hot.

Whoever does not look at a picture coasts: fusion and policy go on with what they predict. One look too few costs a bit
of accuracy; late decisions cost safety, so load and heat take looks away before they take decisions.
"""

from __future__ import annotations

import statistics
from collections import Counter, deque
from dataclasses import dataclass
from enum import Enum, IntEnum
from itertools import pairwise
from pathlib import Path

from tether.config import bounded, load
from tether.contracts import F64, Primitive
from tether.errors import Fault, InvalidInputError
from tether.ingest.machine import MachineState
from tether.ingest.rejection import Reason
from tether.skills import SkillTable

_MS = 1_000_000
_S = 1_000_000_000
_OF_LOOKS = 5
"""The time a look takes is the median of that many: one alone may have been interrupted."""
_EASE = 0.8
"""Share of a limit below which a measured time no longer stands against looking more often."""
_PAUSE_NS = _S
"""Decisions farther apart than this were not late: there were none."""
_ARRIVAL_MS = 50.0
"""Pictures come as irregularly as this after their stamps, which are regular."""


@dataclass(frozen=True)
class LookingConfig:
    """When the eyes look at fewer pictures, and when at more again."""

    least_ms: tuple[float, ...] = bounded(
        0.0,
        160.0,
        unit="ms",
        default=(0.0, 50.0, 90.0, 120.0),
        doc="least time between stamps of two pictures that are looked at, a step; rising, the first is 0",
    )
    gap_max_ms: float = bounded(
        100.0,
        200.0,
        unit="ms",
        default=150.0,
        doc="a picture is looked at where the next is expected later than this after the last that was; well below "
        "the gate's limit for a silent camera",
    )
    late_ms: float = bounded(
        55.0,
        500.0,
        unit="ms",
        default=75.0,
        doc="a decision made later than this after the one before it is late; of the steady clock, whatever stamps say",
    )
    late_of: int = bounded(5, 1000, unit="decisions", default=20, doc="the newest decisions that are judged")
    late_max: int = bounded(1, 1000, unit="decisions", default=2, doc="more late ones among them are overload")
    look_max_ms: float = bounded(10.0, 500.0, unit="ms", default=80.0, doc="looks that take longer are overload")
    hot_c: float = bounded(
        50.0, 95.0, unit="°C", default=78.0, doc="hot from here; a Raspberry Pi 5 slows down from 80 °C on"
    )
    cool_c: float = bounded(40.0, 95.0, unit="°C", default=73.0, doc="no longer hot below")
    memory_min_mb: float = bounded(
        50.0, 4000.0, unit="MB", default=250.0, doc="less memory left without swapping is too little"
    )
    little_memory_px: int = bounded(
        96, 640, unit="px", default=320, doc="widest pictures that a look may ask for where memory is too little"
    )
    settle_s: float = bounded(0.1, 10.0, unit="s", default=1.0, doc="time between two steps down, to see what one did")
    calm_s: float = bounded(1.0, 600.0, unit="s", default=10.0, doc="time without any reason until one step up")

    def __post_init__(self) -> None:
        faults = []
        steps = self.least_ms
        if len(steps) < 2 or steps[0] != 0.0 or any(a >= b for a, b in pairwise(steps)):
            faults.append(Fault("least_ms", f"{list(steps)}", "two or more rising times, the first 0"))
        elif steps[-1] > self.gap_max_ms:
            faults.append(Fault("least_ms", f"{steps[-1]:g} as its last", f"gap_max_ms ({self.gap_max_ms:g}) at most"))
        if self.cool_c >= self.hot_c:
            faults.append(Fault("cool_c", f"{self.cool_c:g}", f"below hot_c ({self.hot_c:g})"))
        if self.late_max >= self.late_of:
            faults.append(Fault("late_max", f"{self.late_max}", f"below late_of ({self.late_of})"))
        if faults:
            raise InvalidInputError("looking", faults, "correct config/looking.yaml")


def load_looking_config(path: Path) -> LookingConfig:
    """Read and check config/looking.yaml."""
    return load(path, LookingConfig)


class Wish(IntEnum):
    """What a decision asks of the eyes: the values of `look`'s parameter `where`."""

    LOCAL = 0
    WORKSTATION = 1
    COAST = 2


def wish_of(skills: SkillTable, primitive: int, params: F64) -> Wish:
    """The wish of a decision: that of `look`'s parameters, LOCAL for every other primitive.

    Raises InvalidInputError for parameters that do not fit the table.
    """
    if primitive != Primitive.LOOK:
        return Wish.LOCAL
    checked = skills.checked(Primitive.LOOK, params)
    return Wish(round(float(checked[skills[Primitive.LOOK].index("where")])))


class Where(str, Enum):
    """What is done with one picture."""

    LOCAL = "local"
    COAST = "coast"


@dataclass(frozen=True)
class Choice:
    """What is done with one picture, and why.

    step: position in `LookingConfig.least_ms`. reasons: what holds the step above 0, or a wish that is not LOCAL; a
    picture that is not looked at counts under the first. late: late decisions among the newest, of which a step begins
    a new count. degraded: a workstation was wished for, and there is none.
    """

    where: Where
    step: int
    reasons: tuple[Reason, ...]
    late: int
    degraded: bool

    @property
    def state(self) -> tuple[int, tuple[Reason, ...], bool]:
        """What is worth saying when it changes; `where` changes from picture to picture."""
        return (self.step, self.reasons, self.degraded)


class Looking:
    """Chooses for each picture. Pure and deterministic in the sequence of calls.

    Steps down at once, at most one per `settle_s`; up one step after `calm_s` without reason. Between a limit and the
    lower one at which it is let go, the step stays.
    """

    def __init__(self, config: LookingConfig) -> None:
        self.config = config
        self.coasted: Counter[Reason] = Counter()
        self._took_ms: deque[float] = deque(maxlen=_OF_LOOKS)
        self._machine = MachineState()
        self._step = 0
        self._held_by: tuple[Reason, ...] = ()
        self._stepped_ns: int | None = None
        self._calm_since_ns: int | None = None
        self.begin_episode()

    @property
    def look_ms(self) -> float | None:
        """Median time of the newest looks, None before the first."""
        return statistics.median(self._took_ms) if self._took_ms else None

    @property
    def late(self) -> int:
        """Late decisions among the newest `late_of`."""
        return sum(self._lates)

    @property
    def machine(self) -> MachineState:
        """What was last heard of the computer."""
        return self._machine

    @property
    def image_size_max(self) -> int | None:
        """The widest pictures, px, that a look may ask for with the memory there is; None: any."""
        return self.config.little_memory_px if self._memory_is_little() else None

    def begin_episode(self) -> None:
        """Stamps and decisions start anew; load and heat are what they were."""
        self._wish = Wish.LOCAL
        self._lates: deque[bool] = deque(maxlen=self.config.late_of)
        self._looked_ns: int | None = None
        self._looked_steady_ns = 0
        self._since_looked = 0
        self._stamp_ns: int | None = None

    def decided(self, since_ns: int | None, wish: Wish) -> None:
        """A decision was made; its wish holds until the next.

        since_ns: steady time since the one before it, None where there was none. Stamps would not do: under /clock they
        are as far apart as a bag's rate of play or a simulator's speed makes them.
        """
        self._wish = wish
        if since_ns is not None and 0 < since_ns < _PAUSE_NS:
            self._lates.append(since_ns > self.config.late_ms * _MS)

    def looked(self, took_ns: int) -> None:
        """A picture was decoded and looked at in so much steady time."""
        self._took_ms.append(took_ns / _MS)

    def hear(self, machine: MachineState) -> None:
        """The computer's state was read."""
        self._machine = machine

    def choose(self, stamp_ns: int, steady_ns: int) -> Choice:
        """What to do with a picture stamped `stamp_ns` that is there at `steady_ns`."""
        late = self.late
        self._adapt(steady_ns)
        reasons, step = self._held_by, self._step
        if self._wish is Wish.COAST:
            reasons, step = (Reason.COAST_ASKED, *reasons), len(self.config.least_ms) - 1
        self._since_looked += 1
        spared = self._spares(stamp_ns, self.config.least_ms[step]) and not self._falls_silent(steady_ns)
        self._stamp_ns = stamp_ns
        if spared:
            self.coasted[reasons[0]] += 1
        else:
            self._looked_ns, self._looked_steady_ns, self._since_looked = stamp_ns, steady_ns, 0
        where = Where.COAST if spared else Where.LOCAL
        return Choice(where, step, reasons, late, degraded=self._wish is Wish.WORKSTATION)

    def _spares(self, stamp_ns: int, least_ms: float) -> bool:
        """Whether a picture so soon after the last one looked at is left out, and the next is expected in time.

        Stamps that do not rise are left to admission, which refuses them by name.
        """
        if self._looked_ns is None or self._stamp_ns is None or stamp_ns <= self._stamp_ns:
            return False
        since_ns, spacing_ns = stamp_ns - self._looked_ns, stamp_ns - self._stamp_ns
        return since_ns < least_ms * _MS and since_ns + spacing_ns <= self.config.gap_max_ms * _MS

    def _falls_silent(self, steady_ns: int) -> bool:
        """Whether the next picture is expected too late by the steady clock, on which the gate finds a camera silent.

        Where a world's /clock goes slower than that, pictures come later than their stamps say.
        """
        since_ns = steady_ns - self._looked_steady_ns
        next_ns = since_ns + since_ns / self._since_looked
        return next_ns > (self.config.gap_max_ms + _ARRIVAL_MS) * _MS

    def _adapt(self, steady_ns: int) -> None:
        pressures = self._pressures()
        if pressures:
            self._held_by, self._calm_since_ns = pressures, None
            if self._stepped_ns is None or steady_ns - self._stepped_ns >= self.config.settle_s * _S:
                self._move(min(self._step + 1, len(self.config.least_ms) - 1), steady_ns)
        elif self._step == 0 or self._strained():
            self._calm_since_ns = None
        elif self._calm_since_ns is None:
            self._calm_since_ns = steady_ns
        elif steady_ns - self._calm_since_ns >= self.config.calm_s * _S:
            self._move(self._step - 1, steady_ns)
            self._calm_since_ns = steady_ns
        if self._step == 0:
            self._held_by = ()

    def _move(self, step: int, steady_ns: int) -> None:
        if step != self._step:
            self._step, self._stepped_ns = step, steady_ns
            self._lates.clear()

    def _pressures(self) -> tuple[Reason, ...]:
        """Reasons to look less often; those that go on by themselves last."""
        c, m, look_ms = self.config, self._machine, self.look_ms
        found = (
            (Reason.OVERLOAD, self.late > c.late_max or (look_ms is not None and look_ms > c.look_max_ms)),
            (Reason.THROTTLED, m.is_throttled),
            (Reason.HOT, m.cpu_c is not None and m.cpu_c >= c.hot_c),
            (Reason.LITTLE_MEMORY, self._memory_is_little()),
        )
        return tuple(reason for reason, is_so in found if is_so)

    def _memory_is_little(self) -> bool:
        available_mb = self._machine.available_mb
        return available_mb is not None and available_mb < self.config.memory_min_mb

    def _strained(self) -> bool:
        """Nothing is over its limit, but something is too near to look more often."""
        c, m, look_ms = self.config, self._machine, self.look_ms
        return (
            (look_ms is not None and look_ms > _EASE * c.look_max_ms)
            or self.late > 0
            or (m.cpu_c is not None and m.cpu_c >= c.cool_c)
            or (m.available_mb is not None and m.available_mb * _EASE < c.memory_min_mb)
        )
