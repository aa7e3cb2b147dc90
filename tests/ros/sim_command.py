"""`tether sim` as a child, at a terminal of its own."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from graph_tools import wait_for

RUN = "from tether.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
SIM = ["sim", "--policy", "scripted", "--profile", "ideal", "--no-record", "--no-report", "--seed", "5"]


class Sim:
    """The command at a terminal of its own."""

    def __init__(self, folder: Path, episodes: int) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        ours, theirs = pty.openpty()
        command = [sys.executable, "-c", RUN, *SIM, "--episodes", str(episodes)]
        self._process = subprocess.Popen(command, cwd=folder, stderr=theirs, start_new_session=True)
        os.close(theirs)
        os.set_blocking(ours, False)
        self._terminal, self._said = ours, b""

    def said(self) -> str:
        try:
            while data := os.read(self._terminal, 4096):
                self._said += data
        except OSError:
            pass  # nothing more for now, or for good
        return self._said.decode()

    def until_said(self, text: str) -> None:
        """Wait until the command has said it; fails with all that it and its graph have said."""
        try:
            wait_for(repr(text), lambda: text in self.said())
        except AssertionError as error:
            raise AssertionError(f"{error}; the command: {self.said()!r}; the graph:\n{self.log()}") from None

    def press(self, number: int = signal.SIGINT) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        return self._process.wait(120.0)

    def log(self) -> str:
        """What the graph has said."""
        return "".join(path.read_text() for path in self.folder.glob("runs/*/log/launch.log"))

    def kill(self) -> None:
        self._process.kill()
