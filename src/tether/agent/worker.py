"""The process in which a skill's code runs, `python -m tether.agent.worker`, as `tether.agent.workers` starts it.

Frames on the standard streams: four bytes of length (little end first), one of kind, the content. BEGIN (JSON: entry,
folder, parameters, keep, fresh, seed) is answered by READY; STATE (CDR of tether_msgs/FusedState) by ACTION (CDR of
tether_msgs/HybridAction); either by ERROR (text) where the skill's code raises. Neither side unpickles anything.
"""

from __future__ import annotations

import importlib
import json
import signal
import struct
import sys
from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import BinaryIO

from tether.codec import decode, encode
from tether.codec.convert import action_message, fused_state_from
from tether.errors import Fault, InvalidInputError
from tether.own_stdout import own_stdout
from tether.policy.protocol import Policy
from tether.processes import die_with_parent
from tether.signing.policy import Trust, required_trust
from tether.signing.skills import load_skill
from tether.signing.verify import Verifier

HEAD = struct.Struct("<IB")
FRAME_MAX = 16 * 2**20


class Kind(IntEnum):
    """Kinds of frames."""

    BEGIN = 1
    READY = 2
    STATE = 3
    ACTION = 4
    ERROR = 5


def write_frame(stream: BinaryIO, kind: Kind, content: bytes) -> None:
    """One frame, flushed."""
    stream.write(HEAD.pack(len(content), kind) + content)
    stream.flush()


def entry_point(entry: str, folder: Path) -> Callable[[Mapping[str, float]], Policy]:
    """The function behind an entry of a declaration in `folder`.

    Raises SignatureRefusedError for a file that $TETHER_TRUST does not trust, InvalidInputError where nothing is there.
    """
    where, _, name = entry.rpartition(":")
    if where.endswith(".py"):
        trust = required_trust()
        if trust is Trust.ANY:
            fault = Fault("$TETHER_TRUST", trust.value, "signed or physical, for skills that come as files")
            raise InvalidInputError(f"skill {entry}", [fault], "sign the file with `tether sign` and say so")
        module = load_skill(Verifier(trust is Trust.PHYSICAL), folder / where)
    else:
        try:
            module = importlib.import_module(where)
        except ModuleNotFoundError as error:
            raise InvalidInputError("skill", [Fault("entry", str(error), "an installed module")]) from error
    made = getattr(module, name, None)
    if not callable(made):
        raise InvalidInputError("skill", [Fault("entry", entry, f"a function {name!r} in {where}")])
    return made  # type: ignore[no-any-return]  # what it gives is used as a Policy and held to the mask


class KeptPolicies:
    """Policies of entries, those that remember kept for the rest of the episode."""

    def __init__(self) -> None:
        self._kept: dict[str, Policy] = {}

    def begin(self, entry: str, folder: Path, parameters: Mapping[str, float], *, keep: bool, seed: int) -> Policy:
        """The policy of `entry`; keep: the one of before, where there is one. Raises what `entry_point` does."""
        key = json.dumps([entry, {} if keep else dict(parameters)])
        if key not in self._kept or not keep:
            policy = entry_point(entry, folder)(parameters)
            policy.reset(seed)
            self._kept[key] = policy
        return self._kept[key]


class _Server:
    """One worker: the policy of the newest BEGIN, and those that are kept."""

    def __init__(self) -> None:
        self._kept = KeptPolicies()
        self._policy: Policy | None = None

    def begin(self, content: bytes) -> bytes:
        order = json.loads(content)
        if order["fresh"]:
            self._kept = KeptPolicies()
        entry, folder = order["entry"], Path(order["folder"])
        self._policy = self._kept.begin(entry, folder, order["parameters"], keep=order["keep"], seed=order["seed"])
        return b""

    def decide(self, content: bytes) -> bytes:
        if self._policy is None:
            raise InvalidInputError("worker", [Fault("STATE", "before any BEGIN", "BEGIN first")])
        state = fused_state_from(decode(content, "tether_msgs/msg/FusedState"))
        return encode(action_message(self._policy.decide(state, None), 0))


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer frames until the stream ends."""
    server = _Server()
    answers = {Kind.BEGIN: (server.begin, Kind.READY), Kind.STATE: (server.decide, Kind.ACTION)}
    while True:
        head = source.read(HEAD.size)
        if len(head) < HEAD.size:
            return
        size, kind = HEAD.unpack(head)
        content = source.read(size)
        answer, answered = answers[Kind(kind)]
        try:
            write_frame(sink, answered, answer(content))
        except Exception as error:  # noqa: BLE001 - whatever a skill raises is told by name, and ends nothing here
            write_frame(sink, Kind.ERROR, f"{type(error).__name__}: {error}".encode())


def main() -> int:
    """Serve on the standard streams; dies with its parent."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    serve(sys.stdin.buffer, own_stdout())
    return 0


if __name__ == "__main__":
    sys.exit(main())
