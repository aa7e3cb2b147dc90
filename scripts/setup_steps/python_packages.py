"""Steps that fill the virtual environment with Python packages."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from setup_steps.core import Context, SetupError, digest, digest_files, say

HERE = Path(__file__).resolve().parent


def locks(ctx: Context) -> list[Path]:
    """Lock files of everything that running Tether needs."""
    names = ["colcon", "ros", "sim"] if ctx.ros_prefix is None else ["colcon", "sim-system-ros"]
    return [ctx.root / "requirements" / f"{name}.txt" for name in names]


def install_wheels(ctx: Context) -> None:
    """Pinned run-time and build packages."""
    if ctx.stamped("wheels", digest("wheels-1", ctx.keys["venv"], digest_files(ctx.root, locks(ctx)))):
        return
    ctx.unstamp("cmake-paths")  # pip may bring back the wheels' own files
    with installing(ctx, "wheels", locks(ctx), "ROS 2, simulation and build tools"):
        pass


@contextlib.contextmanager
def dev_alongside(ctx: Context) -> Iterator[None]:
    """Pinned test, lint and type-checking tools, and what training and the agent need, whose tests are among them.

    They are unpacked while the body goes on, which may build but not install by pip.
    """
    files = [ctx.root / "requirements" / f"{name}.txt" for name in ("train", "dev", "agent")]
    if ctx.stamped("dev", digest("dev-1", ctx.keys["venv"], digest_files(ctx.root, files))):
        yield
        return
    with installing(ctx, "dev", files, "training, agent, test and lint tools"):
        yield


@contextlib.contextmanager
def installing(ctx: Context, step: str, files: list[Path], what: str) -> Iterator[None]:
    """Install lock files with pip while the body goes on; first mends what an interrupted pip left half written."""
    ctx.unstamp(step)
    mend(ctx)
    say(f"installing {what} from {', '.join(f.name for f in files)}")
    running = ctx.state / "pip.running"
    running.touch()
    arguments = [word for file in files for word in ("-r", str(file))]
    wheels_only = ["--no-deps", "--only-binary", ":all:", "--no-binary", "empy,up-aries"]
    with pip(ctx, step, ["install", *wheels_only, *arguments]):
        yield
    running.unlink()
    ctx.stamp(step)


def pip(ctx: Context, step: str, arguments: list[str]) -> contextlib.AbstractContextManager[None]:
    """Run the venv's pip without asking anything, while a body goes on."""
    head = [ctx.python, "-m", "pip", "--no-input", "--disable-pip-version-check"]
    return ctx.alongside(f"pip-{step}", [*head, *arguments])


def mend(ctx: Context) -> None:
    """Reinstall packages that a killed pip left incomplete; pip itself would take them for installed."""
    running = ctx.state / "pip.running"
    if not running.exists():
        return
    done = subprocess.run(
        [str(ctx.python), str(HERE / "broken_packages.py")],
        env=ctx.child_env(),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise SetupError(f"cannot look for half-installed packages:\n{done.stderr[-1500:]}\n  fix: make clean setup")
    removed = json.loads(done.stdout)
    names = f": {' '.join(removed)}" if removed else ""
    say(f"an earlier install was interrupted; {len(removed)} incomplete packages are installed again{names}")
    running.unlink()


def install_core(ctx: Context) -> None:
    """The core library and the `tether` command, from where the sources lie."""
    project = ctx.root / "pyproject.toml"
    if ctx.stamped("tether", digest("tether-1", ctx.keys["wheels"], str(ctx.root), digest_files(ctx.root, [project]))):
        return
    say("installing tether (editable)")
    with pip(ctx, "tether", ["install", "--no-deps", "--no-build-isolation", "-e", str(ctx.root)]):
        pass
    ctx.stamp("tether")


def sign_shipped(ctx: Context) -> None:
    """This machine's development key, and its signature under each model that is what the source pins."""
    signing = ctx.root / "src" / "tether" / "signing"
    files = [signing / "pins.py", *(ctx.root / "models").rglob("manifest.json")]
    if ctx.stamped("signing", digest("signing-1", ctx.keys["tether"], digest_files(ctx.root, files))):
        return
    ctx.unstamp("signing")
    ctx.run("signing", [ctx.python.with_name("tether"), "sign", "--shipped"])
    ctx.stamp("signing")
