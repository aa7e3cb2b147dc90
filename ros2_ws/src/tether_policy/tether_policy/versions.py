"""Newer versions of the student's model in the policy's node: taken between decisions, on request or as published."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tether_ros.node import StageNode

from tether import topics
from tether.assembly import skills
from tether.bridge.guard import VersionGuard
from tether.bridge.student_switch import student_switch
from tether.bridge.swap import SwapEvent, SwapKind, VersionWatcher
from tether.codec import sensors
from tether.contracts import FusedState
from tether.errors import Fault, InvalidInputError, TetherError
from tether.policy.protocol import Policy
from tether.safety.token import TokenVerifier, key_file
from tether_msgs.srv import SwapModel

SERVICE = "swap_model"
STAGE = "policy"
_PATH_MAX = 4096
_SEVERITIES = {
    SwapKind.SWAPPED: sensors.Severity.INFO,
    SwapKind.CONFIRMED: sensors.Severity.INFO,
    SwapKind.ROLLED_BACK: sensors.Severity.WARN,
    SwapKind.REFUSED: sensors.Severity.WARN,
}


class Versions:
    """Which model the policy of `node` runs. Every swap, roll-back and refusal is an event."""

    def __init__(self, node: StageNode, name: str, policy: Policy, folder: str) -> None:
        """folder: where a trainer publishes; empty where nobody does. Raises InvalidInputError for no student."""
        self._node = node
        self._switch = student_switch(name, policy, skills().sha256, VersionGuard())
        self._verifier: TokenVerifier | None = None
        self._watcher: VersionWatcher | None = None
        if folder:
            self._watcher = VersionWatcher(Path(folder), self._switch)
            self._watcher.start()
            node.inlet(topics.EPISODE_END, lambda msg: self._switch.ended(bool(msg.success)))
        self._service = node.create_service(SwapModel, f"{node.get_name()}/{SERVICE}", self._answer)

    def close(self) -> None:
        """Stop watching, and give up the service."""
        if self._watcher is not None:
            self._watcher.stop()
        self._node.destroy_service(self._service)

    def before_decision(self) -> None:
        """Swap or go back, where it is time."""
        event = self._switch.before_decision()
        if event is not None:
            self._say(event)
        for refused in self._watcher.refused() if self._watcher is not None else []:
            self._say(refused)

    def decided(self, state: FusedState) -> None:
        """A decision was made on a state."""
        self._switch.saw(state.prediction_error)

    def _answer(self, request: Any, response: Any) -> Any:
        try:
            self._check(request)
            offered = self._switch.offer(Path(request.path), request.sha256)
            response.accepted = True
            response.message = f"{offered.version} runs once the running version has shown what it can"
        except (TetherError, OSError, ValueError) as error:
            response.accepted, response.message = False, str(error)
            self._say(SwapEvent(SwapKind.REFUSED, request.path[:_PATH_MAX], request.sha256[:64], str(error)))
        response.running_sha256 = self._switch.running.sha256
        return response

    def _check(self, request: Any) -> None:
        """Only somebody with the robot's key may ask, and only for this stage and a model named by its hash."""
        fields = {"stage": request.stage, "path": request.path, "sha256": request.sha256}
        if self._verifier is None:
            self._verifier = TokenVerifier(key_file(), f"{self._node.get_name()}.{SERVICE}")
        self._verifier.check(SERVICE, fields, request.token, time.monotonic_ns())
        faults = []
        if request.stage != STAGE:
            faults.append(Fault("stage", repr(request.stage[:64]), repr(STAGE)))
        if len(request.sha256) != 64:
            faults.append(Fault("sha256", repr(request.sha256[:80]), "64 hexadecimal digits of the model file's hash"))
        if not request.path or len(request.path) > _PATH_MAX:
            faults.append(Fault("path", f"{len(request.path)} characters", "the folder of a version"))
        if faults:
            raise InvalidInputError("swap of a model", faults)

    def _say(self, event: SwapEvent) -> None:
        data = {"version": event.version, "sha256": event.sha256}
        self._node.event(_SEVERITIES[event.kind], event.kind.value, f"{event.version}: {event.reason}", data)
