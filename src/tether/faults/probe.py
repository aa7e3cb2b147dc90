"""The campaign's end of the probe (`tether_bringup.fault_probe`): orders out, answers in."""

from __future__ import annotations

import json
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tether.errors import DeadlineError

_START_S = 60.0
_ANSWER_S = 10.0
_END_S = 5.0


class Probe:
    """A running probe; use as a context manager. recording: the file it writes. env: the graph's."""

    def __init__(self, recording: Path, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tether_bringup.fault_probe", str(recording)],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Probe:
        try:
            self._answer(_START_S)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End it; one that does not listen is killed."""
        try:
            self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def order(self, do: str, **words: Any) -> dict[str, Any]:
        """Have it do something; its answer, with `at_ns`, when it was done. Raises DeadlineError without one."""
        assert self._process.stdin is not None
        self._process.stdin.write((json.dumps({"do": do, **words}) + "\n").encode())
        self._process.stdin.flush()
        return self._answer(_ANSWER_S)

    def _answer(self, deadline_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        end_s = time.monotonic() + deadline_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(max(end_s - time.monotonic(), 0.0)):
                raise DeadlineError("the probe answers", deadline_s, ["a line of JSON"])
        line = self._process.stdout.readline()
        if not line:
            raise DeadlineError(f"the probe answers (it ended with {self._process.wait()})", deadline_s)
        answer: dict[str, Any] = json.loads(line)
        return answer
