"""`make setup`: everything that Tether needs, on a machine with or without ROS 2.

Steps, each skipped when its stamp in .venv/.tether-setup says that it was done for the same inputs:
venv → pinned wheels → CMake paths of the wheels → start-up hook → tether itself → signatures of what ships →
ROS messages (colcon; with --dev the test tools are unpacked beside it) → ROS node packages → proof that all of it
imports → GL.
Interrupt it anywhere and run it again. TETHER_ROS=wheels or =/opt/ros/jazzy overrides which ROS 2 is used.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from setup_steps import python_packages, ros, system
from setup_steps.core import Context, SetupError, say, setup_lock

ROOT = Path(__file__).resolve().parent.parent


def leave_venv() -> None:
    """An activated venv's Python may be the one that is about to be made anew: go on with the one it came from."""
    if sys.prefix == sys.base_prefix:
        return
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    if not os.access(base, os.X_OK) or Path(base).is_relative_to(sys.prefix):
        raise SetupError(f"run from the venv {sys.prefix}, whose own Python is not found\n  fix: deactivate it first")
    os.execv(base, [base, *sys.argv])


def right_python(prefix: Path | None) -> None:
    """Go on under the Python that the installed ROS 2 was built for, if this is another."""
    if prefix is None:
        return
    needed = ros.python_of(prefix)
    if needed == f"{sys.version_info.major}.{sys.version_info.minor}":
        return
    found = shutil.which(f"python{needed}", path=f"/usr/bin:{os.environ.get('PATH', '')}")
    if found is None:
        raise SetupError(
            f"ROS 2 in {prefix} needs Python {needed}, which is not on PATH.\n"
            f"  fix: {system.apt_command([f'python{needed}', f'python{needed}-venv'])}\n"
            "  or:  make setup TETHER_ROS=wheels   (ROS 2 from wheels, beside the installed one)"
        )
    os.execv(found, [found, *sys.argv])


def work(ctx: Context, *, dev: bool) -> None:
    """All steps in order; later keys build on earlier ones."""
    system.make_venv(ctx)
    python_packages.install_wheels(ctx)
    ros.fix_cmake_paths(ctx)
    ros.install_hook(ctx)
    python_packages.install_core(ctx)
    python_packages.sign_shipped(ctx)
    with python_packages.dev_alongside(ctx) if dev else contextlib.nullcontext():
        ros.build_interfaces(ctx)
    ros.link_nodes(ctx)
    ros.prove(ctx)
    system.ensure_gl(ctx)


def main() -> int:
    """Parse, take the lock, work; errors as text and exit status 1."""
    parser = argparse.ArgumentParser(
        prog="make setup", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dev", action="store_true", help="also install the test, lint and type-checking tools")
    parser.add_argument("--verbose", action="store_true", help="show the output of pip, colcon and apt")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    begin = time.monotonic()
    try:
        if sys.platform != "linux":
            raise SetupError(f"Tether runs on Linux; this is {sys.platform}. fix: use a Linux machine or container")
        leave_venv()
        prefix = ros.installed_ros(dict(os.environ))
        right_python(prefix)
        with setup_lock(ROOT / ".setup.lock") as lock_fd:
            ctx = Context(ROOT, ROOT / ".venv", prefix, lock_fd, options.verbose)
            work(ctx, dev=options.dev)
    except SetupError as error:
        sys.stderr.write(f"[setup] error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("[setup] interrupted; run it again to go on\n")
        return 130
    source = "wheels" if prefix is None else str(prefix)
    say(f"ready in {time.monotonic() - begin:.1f} s (ROS 2 Jazzy from {source}, {system.python_tag()})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
