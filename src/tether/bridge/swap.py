"""Swapping a policy's model between two decisions, and taking it back.

A version is loaded and checked beside the running one, by whoever offers it, in whatever thread; nothing of a refused
one stays. `before_decision` is the only place where another model starts to run, and it only exchanges two references.
The version before stays loaded, so that going back needs no disk and no trainer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

from tether.bridge.guard import Outcome, VersionGuard
from tether.bridge.versions import versions_in
from tether.errors import Fault, TetherError
from tether.models.errors import ModelRefusedError, Refusal
from tether.models.session import Session


class Swappable(Protocol):
    """Something that runs a model and can run another."""

    def use(self, session: Session) -> None:
        """Run another model from the next decision on."""


class SwapKind(str, Enum):
    """What happened to the versions."""

    SWAPPED = "model_swapped"
    ROLLED_BACK = "model_rolled_back"
    CONFIRMED = "model_confirmed"
    REFUSED = "model_refused"


@dataclass(frozen=True)
class SwapEvent:
    """Something to be kept. sha256: of the model that runs from now on; of the one refused, where known."""

    kind: SwapKind
    version: str
    sha256: str
    reason: str


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model in memory, with the name it is spoken of by."""

    version: str
    session: Session

    @property
    def sha256(self) -> str:
        """Of the model file."""
        return self.session.manifest.sha256


class ModelSwitch:
    """Which model a policy runs. `offer` may be called from any thread, everything else from that of the decisions."""

    def __init__(
        self, policy: Swappable, running: Loaded, open_model: Callable[[Path], Session], guard: VersionGuard
    ) -> None:
        """open_model: loads the model in a folder, or raises ModelRefusedError; what fits is for it to know."""
        self._policy = policy
        self._open = open_model
        self._guard = guard
        self._running = running
        self._before: Loaded | None = None
        self._lock = threading.Lock()
        self._staged: Loaded | None = None
        self._bad: set[str] = set()

    @property
    def running(self) -> Loaded:
        """The version that runs."""
        return self._running

    def offer(self, folder: Path, sha256: str | None = None) -> Loaded:
        """Load the version in `folder`; it runs once the running one has shown what it can, the newest of several.

        sha256: what the model file's hash has to be, where whoever offers it knows. Raises ModelRefusedError, changing
        nothing, where it does not fit, is the running one, or was taken back before.
        """
        session = self._open(folder)
        loaded = Loaded(folder.name, session)
        faults: list[Fault] = []
        if sha256 is not None and sha256 != loaded.sha256:
            faults.append(Fault("sha256", f"{loaded.sha256} in {folder}", f"{sha256}, as asked for"))
        if loaded.sha256 == self._running.sha256:
            faults.append(Fault("version", f"{loaded.version}, which runs already", "another one"))
        if loaded.sha256 in self._bad:
            faults.append(Fault("version", f"{loaded.version}, which did worse and was taken back", "a new one"))
        if faults:
            raise ModelRefusedError(Refusal.HASH, f"version {loaded.version}", faults, "train and publish another one")
        with self._lock:
            self._staged = loaded
        return loaded

    def saw(self, error: float | None) -> None:
        """A decision's prediction error."""
        self._guard.saw(error)

    def ended(self, success: bool) -> None:
        """An episode ended."""
        self._guard.ended(success)

    def before_decision(self) -> SwapEvent | None:
        """Between two decisions: go back where the running version does worse, else take what is offered."""
        judgement = self._guard.judge()
        if judgement.outcome is Outcome.ROLL_BACK and self._before is not None:
            worse, self._running, self._before = self._running, self._before, None
            self._bad.add(worse.sha256)
            self._policy.use(self._running.session)
            self._guard.rolled_back()
            reason = f"{worse.version} is worse: {judgement.reason}"
            return SwapEvent(SwapKind.ROLLED_BACK, self._running.version, self._running.sha256, reason)
        if judgement.outcome is Outcome.CONFIRM:
            return SwapEvent(SwapKind.CONFIRMED, self._running.version, self._running.sha256, judgement.reason)
        if not self._guard.may_swap:
            return None
        with self._lock:
            staged, self._staged = self._staged, None
        if staged is None:
            return None
        self._before, self._running = self._running, staged
        self._policy.use(staged.session)
        self._guard.swapped()
        reason = f"in place of {self._before.version}"
        return SwapEvent(SwapKind.SWAPPED, staged.version, staged.sha256, reason)


class VersionWatcher:
    """A thread that offers what a trainer publishes to a switch. The folder need not exist, nor the trainer."""

    def __init__(self, folder: Path, switch: ModelSwitch, period_s: float = 0.5) -> None:
        self._folder = folder
        self._switch = switch
        self._period_s = period_s
        self._seen = max((number for number, _ in versions_in(folder)), default=0)
        self._refused: list[SwapEvent] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="versions", daemon=True)

    def start(self) -> None:
        """Begin; versions that lie there already are those of another time, and are not taken."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(2.0)

    def refused(self) -> list[SwapEvent]:
        """Versions that were refused since the last call."""
        taken, self._refused = self._refused, []
        return taken

    def look(self) -> None:
        """Offer the newest version where it is a new one."""
        versions = versions_in(self._folder)
        if not versions or versions[-1][0] <= self._seen:
            return
        self._seen, folder = versions[-1]
        try:
            self._switch.offer(folder)
        except (TetherError, OSError, ValueError) as error:
            self._refused = [*self._refused, SwapEvent(SwapKind.REFUSED, folder.name, "", str(error))]

    def _watch(self) -> None:
        while not self._stop.wait(self._period_s):
            self.look()
