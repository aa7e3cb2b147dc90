"""What vouches for the gate's ground: critical state that is intact and the newest, and models that are signed.

Real time only: in lockstep a run is recomputed, and must not depend on what a disk holds.
"""

from __future__ import annotations

import time
from pathlib import Path

from tether_ros.node import StageNode

from tether.codec import sensors
from tether.contracts import Mode
from tether.errors import DeadlineError
from tether.integrity.attest import STATE_INTEGRITY, state_attestation
from tether.integrity.critical import INITIAL, Item
from tether.integrity.keeper import Keeper
from tether.safety.attest import Attestation
from tether.safety.machine import Change
from tether.signing.artefacts import signed_artefacts
from tether.signing.files import state_folder
from tether.signing.policy import Trust, required_trust
from tether.signing.verify import signature_attestation

END_S = 1.0
"""How long going down waits for the disk; the manager waits 2 s for all nodes."""


class Vouching:
    """Attestations for a gate, and the state that it writes down. Nothing here waits for a disk after `begin`.

    was_stopped: a latched stop was kept from before this process began; ending a process is no way out of it.
    """

    def __init__(self, node: StageNode) -> None:
        self._node = node
        self._wanted = node.param("keep_state", False, "keep critical state across restarts; always so with motors")
        self._folder = node.param(
            "state_folder", "", "folder of critical state, of this graph alone; empty: the user's"
        )
        self._keeper: Keeper | None = None
        self.was_stopped = False

    def begin(self, policy: str, physical: bool) -> list[Attestation]:
        """Open and verify. Raises TetherError: state that another process uses, or that cannot be written."""
        trust = Trust.PHYSICAL if physical else required_trust()
        out: list[Attestation] = []
        if trust is not Trust.ANY:
            out.append(signature_attestation(signed_artefacts(policy), trust is Trust.PHYSICAL))
        if self._wanted or physical:
            folder = Path(self._folder) if self._folder else state_folder() / "gate"
            self._keeper = Keeper(folder, INITIAL, time.time_ns())
            self.was_stopped = self._keeper.snapshot.values[Item.MODE.value] == Mode.STOP.name.encode()
            mode = Mode.STOP if self.was_stopped else Mode.INIT
            self._note({Item.MODEL: policy, Item.MODE: mode.name})
            out.append(state_attestation(self._keeper))
        return out

    def changed(self, change: Change) -> None:
        """The gate is in another mode."""
        self._note({Item.MODE: change.target.name})

    def acknowledge(self, reason: str) -> None:
        """A person arms the gate, and with it takes a state that is not known to be the newest."""
        if self._keeper is not None and self._keeper.fault is not None:
            self._keeper.acknowledge(reason)

    def report(self) -> None:
        """Say what was found wrong with the state."""
        if self._keeper is not None:
            for finding in self._keeper.take_findings():
                self._node.event(sensors.Severity.ERROR, STATE_INTEGRITY, str(finding))

    def end(self) -> None:
        """Write what waits; a disk that does not take it is said."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            try:
                keeper.close(END_S)
            except DeadlineError as error:
                self._node.get_logger().error(f"{STATE_INTEGRITY}: {error}")

    def _note(self, values: dict[Item, str]) -> None:
        if self._keeper is not None:
            self._keeper.submit({item.value: text.encode() for item, text in values.items()}, time.time_ns())
