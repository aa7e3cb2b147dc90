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
        (["--graph", "--services", "os:getcwd"], "one of them"),
    ],
)
def test_refused_gateway_makes_neither_token_nor_journal(
    words: list[str], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gateway", "--folder", str(tmp_path / "gateway"), *words]) == 2
    assert named in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", [None, "", "/no/such/folder"])
def test_services_to_try_say_what_they_need(
    folder: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TETHER_BENCH_EFFECTS", raising=False)
    if folder is not None:
        monkeypatch.setenv("TETHER_BENCH_EFFECTS", folder)
    words = ["gateway", "--folder", str(tmp_path / "gateway"), "--services", "tether.bench.gateway:services"]
    assert main(words) == 2
    assert "export TETHER_BENCH_EFFECTS=" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
