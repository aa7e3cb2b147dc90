"""Runs the robot's graph with the deployed version that holds, in a unit or a container.

    run-robot policy:=student          the graph, until it ends or this is interrupted
    run-robot --restart                ask the one that runs to start the graph anew; returns once the old one is down

Which version a graph runs is decided before it starts; a deployment meanwhile changes nothing under it. So nobody needs
the right to restart units or containers: `tether deploy --restart '/opt/tether/docker/run-robot --restart'`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
PLACE = Path(os.environ.get("TETHER_PLACE", "/var/lib/tether"))
REQUEST = "restart"
POLL_S = 0.2
STOP_S = 50.0
"""The launch file gives a slow disk 35 s for the end of a recording, and 5 s more to whoever does not stop."""


def say(text: str) -> None:
    """To the journal."""
    sys.stderr.write(f"run-robot: {text}\n")


def environment(place: Path) -> dict[str, str]:
    """The environment of the next graph: $TETHER_RESOURCES is the version that `current` names, if there is one.

    A trial that a crash left unfinished is undone first; one that is under way is left to whoever holds it.
    """
    environ = dict(os.environ)
    if (place / "versions").is_dir():
        command = [str(Path(sys.executable).with_name("tether")), "deploy", "--agent", "settle", "--to", str(place)]
        subprocess.run(command, check=True, timeout=60, stdout=subprocess.DEVNULL)
    if (place / "current").exists():
        environ["TETHER_RESOURCES"] = str((place / "current").resolve())
        say(f"models and configuration of version {(place / 'current').resolve().name}")
    else:
        say(f"nothing deployed: models and configuration of {ROOT}")
    return environ


def stop(process: subprocess.Popen[bytes]) -> None:
    """Take a graph down in its own order; kill what does not go."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        say(f"the graph did not stop within {STOP_S:g} s; killed")
        process.kill()
        process.wait()


def supervise(place: Path, command: Sequence[str]) -> int:
    """Run graphs one after another as they are asked for; the last one's exit status."""
    request = place / REQUEST
    asked_to_stop = False

    def leave(number: int, frame: FrameType | None) -> None:
        nonlocal asked_to_stop
        asked_to_stop = True

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, leave)
    while True:
        request.unlink(missing_ok=True)
        # A session of its own: only this process passes signals on, in whatever way it was sent them.
        process = subprocess.Popen(command, env=environment(place), start_new_session=True)
        while process.poll() is None and not asked_to_stop and not request.exists():
            time.sleep(POLL_S)
        again = request.exists() and process.poll() is None and not asked_to_stop
        if process.poll() is None:
            stop(process)
        if not again:
            return process.returncode if process.returncode >= 0 else 128 - process.returncode
        say("restarting the graph, as asked")


def ask_for_restart(place: Path) -> int:
    """Leave the request and wait until it was taken, which is after the old graph is down."""
    request = place / REQUEST
    request.touch()
    end_s = time.monotonic() + STOP_S + 20.0
    while request.exists():
        if time.monotonic() > end_s:
            request.unlink(missing_ok=True)
            say(f"nobody took the request in {place}; is the robot's service running?")
            return 1
        time.sleep(POLL_S)
    return 0


def main(words: Sequence[str]) -> int:
    """See the module."""
    if list(words) == ["--restart"]:
        return ask_for_restart(PLACE)
    launch = [str(Path(sys.executable).with_name("tether")), "launch", str(ROOT / "launch" / "robot.launch.xml")]
    return supervise(PLACE, [*launch, *words])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
