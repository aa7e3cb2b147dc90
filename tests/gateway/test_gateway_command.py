"""`tether gateway`: what is refused leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.cli import main


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--services", "no_such_module:services"], "no_such_module"),
        (["--services", "os:getcwd"], "tether.gateway.services.Services"),
        (["--services", "os:getcwd", "--port", "99999"], "1 to 65535"),
        (["--services", "os:getcwd", "--host", "0.0.0.0"], "--beyond-this-machine"),
        ([], "--services"),
    ],
)
def test_refused_gateway_makes_neither_token_nor_journal(
    words: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gateway", "--folder", str(tmp_path / "gateway"), *words]) == 2
    assert named in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
