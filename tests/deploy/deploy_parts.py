"""What the tests of deploying share."""

from __future__ import annotations

import getpass
import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tether.cli import main
from tether.deploy.layout import Place
from tether.signing.ecdsa import PrivateKey
from tether.signing.sign import sign_file
from tether.signing.statement import Kind


@dataclass(frozen=True)
class Workstation:
    """Where models are made and signed."""

    folder: Path
    key: PrivateKey

    @property
    def manifest(self) -> Path:
        return self.folder / "models" / "teacher" / "manifest.json"

    def sign(self, version: int, key: PrivateKey | None = None) -> None:
        sign_file(self.manifest, Kind.MODEL, key or self.key, "teacher", version)

    def release(self, version: int, note: str) -> None:
        """Another content under a higher version."""
        fields = json.loads(self.manifest.read_text())
        fields["trained_on"]["note"] = note
        self.manifest.write_text(json.dumps(fields))
        self.sign(version)

    def deploy(self, robot: Robot, *more: str, ssh: str | None = None, to: str = "robot@localhost") -> int:
        """`tether deploy` in this process; exit status."""
        words = ["deploy", to, "--ssh", ssh or f"'{robot.folder}/ssh'", "--to", str(robot.place.root)]
        words += ["--tether", str(robot.folder / "tether")]
        words += ["--models", str(self.folder / "models"), "--config", str(self.folder / "config")]
        return main([*words, *more])


@dataclass(frozen=True)
class Robot:
    """Where they are run. tether, ssh: commands; ssh is a stand-in that has the command line read by a shell here."""

    folder: Path

    @property
    def place(self) -> Place:
        return Place(self.folder / "var lib tether")

    @property
    def current(self) -> str | None:
        return self.place.linked("current")

    def agent(self, step: str) -> dict[str, object]:
        """A step as the robot's own service calls it."""
        command = [str(self.folder / "tether"), "deploy", "--agent", step, "--to", str(self.place.root)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    def script(self, name: str, text: str) -> str:
        """A command of the operator's on the robot; returns how to name it."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return f"'{path}'"


@dataclass(frozen=True)
class Sshd:
    """A real server."""

    folder: Path
    port: int

    @property
    def destination(self) -> str:
        return f"{getpass.getuser()}@127.0.0.1"

    def command(self, known: str = "known", key: str = "client", port: int | None = None) -> str:
        """The ssh command that reaches it, to be given to `--ssh`; nothing of this user's own is read."""
        return (
            f"ssh -F none -p {port or self.port} -i '{self.folder}/{key}' -o IdentitiesOnly=yes "
            f"-o IdentityAgent=none -o UserKnownHostsFile='{self.folder}/{known}' -o GlobalKnownHostsFile=none "
            f"-o StrictHostKeyChecking=yes"
        )


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait, long enough for a busy machine."""
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError(f"never: {what}")
