"""config/faults.yaml: what is done to the graph, and what has to come of it. Data; `tether.faults.inject` does it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from tether.config import bounded, load
from tether.errors import Fault, InvalidInputError
from tether.faults.wire import BY_NAME, WIRED, Effect
from tether.resources import resource_path

PROCESSES = ("safety_supervisor", *WIRED)


class Action(str, Enum):
    """How a fault is put into the graph."""

    KILL = "kill"
    """SIGKILL to a process."""
    FREEZE = "freeze"
    """SIGSTOP to a process, SIGCONT where the fault ends."""
    RAISE = "raise"
    """An exception out of whatever the process is doing."""
    ABORT = "abort"
    """SIGABRT to a process, as a failed assertion in a library."""
    WIRE = "wire"
    """A topic's wire gets an effect (`tether.faults.wire`)."""
    FLOOD = "flood"
    """A topic's newest message again, `amount` times a second."""
    INTRUDE = "intrude"
    """Commands that are no numbers, said to world or driver past the gate, throughout the fault."""
    CLOCK = "clock"
    """Somebody says a /clock that is `amount` ms off."""
    REWARD = "reward"
    """A reward of `amount` that nobody earned, from somebody who has the run's key: the server itself gone wrong."""
    UNSIGNED = "unsigned"
    """A reward of `amount` from somebody who does not have the run's key."""
    STARVE = "starve"
    """`amount` busy loops a core."""
    FULL_DISK = "full_disk"
    """No file of the process takes a byte more (RLIMIT_FSIZE), while it has a trip to write down."""
    TAMPER = "tamper"
    """The gate's database of critical state is rewritten beneath it."""
    NOTHING = "nothing"
    """What the figures look like without a fault."""


class Group(str, Enum):
    """Classes of faults. The first two carry a bar."""

    COMMAND_LOSS = "command_loss"
    SENSOR_LOSS = "sensor_loss"
    BAD_NUMBERS = "bad_numbers"
    TIMING = "timing"
    CLOCK = "clock"
    RESOURCES = "resources"
    INTRUSION = "intrusion"
    GATE_LOSS = "gate_loss"
    WORLD_LOSS = "world_loss"
    BYSTANDER_LOSS = "bystander_loss"
    TWO_AT_ONCE = "two_at_once"
    CONTROL = "control"


class End(str, Enum):
    """How the robot stands when the fault has lasted its time."""

    MOVES = "moves"
    """It goes on: the fault changes nothing that it needs."""
    HOLD = "hold"
    """The gate holds it, until the cause is gone."""
    SAFE_MODE = "safe_mode"
    """Only white-listed primitives, until somebody arms the gate."""
    LATCHED = "latched"
    """The gate holds it, until somebody resets."""
    WATCHDOG = "watchdog"
    """The gate is silent, and the world's own watchdog holds it."""
    UNDRIVEN = "undriven"
    """Neither gate nor watchdog: not a safe end, whatever the table says."""


class Recovery(str, Enum):
    """What it takes to go on."""

    AUTOMATIC = "automatic"
    """Nothing: it moves again once the fault is over."""
    REARM = "rearm"
    """A person's reset and arming."""
    RESTART = "restart"
    """A new graph."""


@dataclass(frozen=True)
class FaultSpec:
    """One fault of the table."""

    group: Group = field(metadata={"doc": "class of the fault"})
    action: Action = field(metadata={"doc": "how it is put in"})
    ends: tuple[End, ...] = field(metadata={"doc": "ends that are right, any of them"})
    recovery: Recovery = field(metadata={"doc": "what it takes to go on"})
    target: str = bounded(default="", doc="process or topic")
    effect: Effect = field(default=Effect.PASS, metadata={"doc": "what the wire does"})
    amount: float = bounded(-1e8, 1e8, default=0.0, doc="how much: ms, share, factor, Hz or processes, by action")
    stop_max_ms: float | None = bounded(1.0, 60000.0, unit="ms", default=None, doc="bar of the first safe set-point")
    lasts_s: float = bounded(0.05, 30.0, unit="s", default=2.0, doc="how long the fault is there")
    repeat: int = bounded(0, 100, default=1, doc="injections a round")
    says: str = bounded(default="", doc="kind of event that somebody has to publish")
    beside: str = bounded(default="", doc="name of a fault that is put in at the same moment")

    def __post_init__(self) -> None:
        faults = []
        process = self.action in (Action.KILL, Action.FREEZE, Action.RAISE, Action.ABORT, Action.FULL_DISK)
        known = PROCESSES if process else tuple(BY_NAME) if self.action in (Action.WIRE, Action.FLOOD) else ("",)
        if self.target not in known:
            faults.append(Fault("target", repr(self.target), f"for {self.action.value}: one of {', '.join(known)}"))
        if (self.action is Action.WIRE) != (self.effect is not Effect.PASS):
            faults.append(Fault("effect", self.effect.value, "an effect where action is wire, and only there"))
        if not self.ends or End.UNDRIVEN in self.ends:
            faults.append(Fault("ends", str([end.value for end in self.ends]), "one or more, none of them undriven"))
        if self.group in (Group.COMMAND_LOSS, Group.SENSOR_LOSS) and self.stop_max_ms is None:
            faults.append(Fault("stop_max_ms", "nothing", f"a bar, as every fault of {self.group.value} has"))
        if faults:
            raise InvalidInputError("fault", faults, "see docs/faults.md")

    @property
    def must_stop(self) -> bool:
        """Whether an end at which the robot goes on would be wrong."""
        return End.MOVES not in self.ends


@dataclass(frozen=True)
class FaultTable:
    """All faults by name."""

    faults: dict[str, FaultSpec]
    not_run: dict[str, str]
    """Faults that the campaign cannot make here, and why: said in every result."""

    def __post_init__(self) -> None:
        unknown = [
            Fault(f"faults: {name}: beside", spec.beside, "the name of a fault of this table, that has none beside it")
            for name, spec in self.faults.items()
            if spec.beside and (spec.beside not in self.faults or self.faults[spec.beside].beside)
        ]
        if unknown:
            raise InvalidInputError("faults", unknown, "correct the names")


def load_faults(path: Path | None = None) -> FaultTable:
    """Read the table, the shipped one without a path. Raises InvalidInputError with every fault in it."""
    return load(resource_path("config", "faults.yaml") if path is None else path, FaultTable)
