"""A machine made of files, for probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tether.doctor.finding import Answer, Machine

MakeMachine = Callable[..., Machine]


@pytest.fixture
def make_machine(tmp_path: Path) -> MakeMachine:
    """Factory: files below the root, environment, and answers of commands by their first word."""

    def make(
        files: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        answers: Mapping[str, Answer] | None = None,
    ) -> Machine:
        root = tmp_path / "root"
        root.mkdir(exist_ok=True)
        for name, text in (files or {}).items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

        def run(command: Sequence[str]) -> Answer | None:
            return (answers or {}).get(command[0])

        return Machine(root=root, here=tmp_path, prefix=tmp_path / "venv", environ=environ or {}, run=run)

    return make
