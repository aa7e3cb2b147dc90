"""The system's ssh client as a way to call the agent: one process a step, with deadlines, failures by name."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from tether.deploy.agent import Step
from tether.deploy.errors import DeployError, Reason
from tether.errors import Fault, InvalidInputError

# Never ask, never hang: a dead link is noticed after 15 s.
_OPTIONS = ("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3")
_DRAIN_S = 5.0
_SSH_FAILED = 255
_MISSING = (126, 127)
# What OpenSSH's client says, most telling first.
_SAID = (
    ("Host key verification failed", Reason.HOST_KEY),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", Reason.HOST_KEY),
    ("Permission denied", Reason.NOT_PERMITTED),
    ("Too many authentication failures", Reason.NOT_PERMITTED),
    ("Could not resolve", Reason.UNREACHABLE),
    ("Connection refused", Reason.UNREACHABLE),
    ("Connection timed out", Reason.UNREACHABLE),
    ("No route to host", Reason.UNREACHABLE),
    ("Network is unreachable", Reason.UNREACHABLE),
)
_FIXES = {
    Reason.HOST_KEY: "look at the robot's key (`ssh-keyscan`), compare it on the robot, then `ssh-keygen -R HOST`",
    Reason.NOT_PERMITTED: "put your public key there: `ssh-copy-id USER@HOST`; nothing is asked for while deploying",
    Reason.UNREACHABLE: "is the robot on, in this network, and sshd running? try `ssh USER@HOST true`",
    Reason.INTERRUPTED: "deploy again: nothing half-done is left in use",
}


@dataclass(frozen=True)
class Host:
    """Where the robot is and how it is reached. destination: [user@]host, as ssh takes it. ssh, tether: words of the
    commands here and there."""

    destination: str
    ssh: tuple[str, ...] = ("ssh",)
    tether: tuple[str, ...] = ("tether",)

    def __post_init__(self) -> None:
        name = self.destination
        if not name or name.startswith("-") or any(c.isspace() or not c.isprintable() for c in name):
            raise InvalidInputError("deploy", [Fault("host", repr(name)[:80], "[user@]host")])

    def command(self, step: Step, arguments: Sequence[str]) -> list[str]:
        """The whole command of one step."""
        options = [word for option in _OPTIONS for word in ("-o", option)]
        remote = shlex.join([*self.tether, "deploy", "--agent", step.value, *arguments])
        return [*self.ssh, *options, "-T", "--", self.destination, remote]


def call(
    host: Host,
    step: Step,
    arguments: Sequence[str],
    timeout_s: float,
    send: Callable[[BinaryIO], None] | None = None,
) -> dict[str, Any]:
    """Run a step over there; returns its answer. send: writes what the step reads.

    Raises DeployError: the robot's own reasons, or those of the way to it.
    """
    try:
        process = subprocess.Popen(
            host.command(step, arguments), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        fix = "install an ssh client: `sudo apt-get install -y openssh-client`"
        raise DeployError(Reason.UNREACHABLE, f"{host.ssh[0]}: {error.strerror or error}", fix) from None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(timeout_s, give_up)
    timer.daemon = True
    timer.start()
    said: dict[str, bytes] = {}
    threads = [
        threading.Thread(target=lambda n=name, p=pipe: said.__setitem__(n, p.read()), daemon=True)
        for name, pipe in (("out", process.stdout), ("err", process.stderr))
    ]
    for thread in threads:
        thread.start()
    try:
        _feed(process, send)
        code = process.wait()
        for thread in threads:
            # What outlives ssh may hold its pipes; it has nothing to say to us any more.
            thread.join(_DRAIN_S)
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    out, err = (said.get(name, b"").decode(errors="replace") for name in ("out", "err"))
    if late.is_set():
        text = f"{step.value} on {host.destination}: no answer within {timeout_s:.0f} s"
        raise DeployError(Reason.TIMEOUT, text, "what it had begun it ends or undoes by itself; look at its log")
    return _answer(host, step, code, out, err)


def _feed(process: subprocess.Popen[bytes], send: Callable[[BinaryIO], None] | None) -> None:
    stdin = process.stdin
    if stdin is None:
        return
    try:
        if send is not None:
            send(stdin)  # type: ignore[arg-type]
        stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        return  # the other side says why


def _answer(host: Host, step: Step, code: int, out: str, err: str) -> dict[str, Any]:
    lines = out.strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except ValueError:
        answer = None
    if isinstance(answer, dict) and answer.get("ok") is True:
        return answer
    if isinstance(answer, dict) and answer.get("reason") in {reason.value for reason in Reason}:
        text = f"{host.destination}: {answer.get('text', '')}"
        raise DeployError(Reason(answer["reason"]), text, str(answer.get("fix", "")))
    raise _failed(host, step, code, out, err)


def _failed(host: Host, step: Step, code: int, out: str, err: str) -> DeployError:
    """No answer of the agent's: what ssh or the shell over there said."""
    said = (err.strip() or out.strip())[-1000:]
    if code in _MISSING:
        fix = "name the command there: --tether /opt/tether/.venv/bin/tether (or `docker exec -i tether tether`)"
        return DeployError(Reason.NO_TETHER, f"{host.destination} has no {shlex.join(host.tether)}: {said}", fix)
    if code == _SSH_FAILED or code < 0:
        reason = next((reason for words, reason in _SAID if words in err), Reason.INTERRUPTED)
        return DeployError(
            reason, f"{host.destination}, {step.value}: {said or 'the connection ended'}", _FIXES[reason]
        )
    text = f"{host.destination}, {step.value}: exit status {code}: {said}"
    return DeployError(Reason.OTHER_FORMAT, text, "install the same version of Tether on both sides")
