"""Steps outside Python: packages of the system, the virtual environment, GL."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from setup_steps.core import Context, SetupError, digest, say

GL_PACKAGES = ("libegl1", "libgl1", "libgl1-mesa-dri", "libosmesa6")
GL_MODULE = "tether.world.gl"


def apt_command(packages: Sequence[str]) -> str:
    """What a person would type."""
    return "sudo apt-get update && sudo apt-get install -y " + " ".join(packages)


def privilege() -> list[str] | None:
    """Prefix that makes a command run as root without asking; None when there is no such way."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode == 0:
        return ["sudo", "-n"]
    return None


def apt_install(ctx: Context, name: str, packages: Sequence[str]) -> bool:
    """Install system packages where root or password-free sudo allow it; False where it did not happen."""
    root = privilege()
    if root is None:
        return False
    say(f"installing system packages: {' '.join(packages)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Environment goes through `env`, because sudo drops it.
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-o", "DPkg::Lock::Timeout=300"]
    try:
        ctx.run(f"{name}-apt-update", [*apt, "update"], env=env)
    except SetupError as error:
        say(f"apt-get update failed; going on with the lists that are there ({str(error).splitlines()[0]})")
    try:
        ctx.run(f"{name}-apt", [*apt, "install", "-y", "--no-install-recommends", *packages], env=env)
    except SetupError as error:
        say(str(error).splitlines()[0])
        return False
    return True


def python_tag() -> str:
    """Version of the running interpreter, as in Debian's package names."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def make_venv(ctx: Context) -> None:
    """The virtual environment, from the running interpreter; one that works already is kept."""
    key = digest("venv-1", python_tag(), str(ctx.venv), str(ctx.ros_prefix))
    done = ctx.stamped("venv", key)
    if done and ctx.python.exists():
        return
    if ctx.venv.exists() and not usable(ctx):
        say(f"{ctx.venv.name} does not fit {python_tag()} at this place; making it anew")
        shutil.rmtree(ctx.venv)
    if not ctx.works([ctx.python, "-m", "pip", "--version"]):
        say(f"virtual environment {ctx.venv.name} ({python_tag()} from {sys.executable})")
        create(ctx)
    ctx.stamp("venv", python=python_tag())


def usable(ctx: Context) -> bool:
    """Whether the venv's interpreter runs, has our version and believes to be at this place."""
    check = (
        "import sys; ok = sys.prefix == sys.argv[1] and sys.version_info[:2] == "
        f"{tuple(sys.version_info[:2])}; sys.exit(not ok)"
    )
    if not ctx.works([ctx.python, "-c", check, ctx.venv]):
        return False
    settings = (ctx.venv / "pyvenv.cfg").read_text(encoding="utf-8").replace(" ", "").lower()
    if (ctx.ros_prefix is not None) != ("include-system-site-packages=true" in settings):
        return False
    # The scripts of a moved venv still name the old place.
    pip = ctx.venv / "bin" / "pip"
    return not pip.exists() or str(ctx.venv) in pip.read_text(encoding="utf-8", errors="replace").splitlines()[0]


def create(ctx: Context) -> None:
    """Make the venv by the first way that this machine offers."""
    flags = ["--system-site-packages"] if ctx.ros_prefix is not None else []
    env = ctx.child_env()
    if not has_ensurepip() and not has_module("virtualenv"):
        apt_install(ctx, "venv", ["python3-venv", f"{python_tag()}-venv"])
    if has_ensurepip():
        ctx.run("venv", [sys.executable, "-m", "venv", *flags, ctx.venv], env=env)
    elif has_module("virtualenv"):
        ctx.run("venv", [sys.executable, "-m", "virtualenv", *flags, ctx.venv], env=env)
    else:
        raise SetupError(
            f"{sys.executable} cannot make a virtual environment: no venv with ensurepip, no virtualenv.\n"
            f"  fix: {apt_command(['python3-venv'])}\n"
            f"  or:  {sys.executable} -m pip install virtualenv"
        )


def has_module(name: str) -> bool:
    """Whether the base interpreter can import this module."""
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode == 0


def has_ensurepip() -> bool:
    """Whether `python -m venv` can install pip; Debian splits that off into python3-venv."""
    return has_module("ensurepip, venv")


def need_compilers(ctx: Context) -> None:
    """A C++ compiler and Python's headers, which the message packages are built with."""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    missing = []
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        missing.append("g++")
    if not header.is_file():
        missing.append(f"{python_tag()}-dev")
    if not missing:
        return
    if apt_install(ctx, "compilers", missing) and header.is_file():
        return
    raise SetupError(
        f"the ROS messages cannot be built: missing {' and '.join(missing)} "
        f"(looked for c++ on PATH and for {header}).\n"
        f"  fix: {apt_command(missing)}"
    )


def gl_backends(ctx: Context) -> list[str]:
    """Headless GL ways that can draw a picture here, best first."""
    done = subprocess.run(
        [str(ctx.python), "-m", GL_MODULE], env=ctx.child_env(), capture_output=True, text=True, timeout=180
    )
    try:
        tried = json.loads(done.stdout)
    except ValueError:
        raise SetupError(
            f"{GL_MODULE} gave no JSON (exit status {done.returncode}): {done.stderr.strip()[-500:]}"
        ) from None
    return [name for name, fault in tried.items() if fault is None]


def ensure_gl(ctx: Context) -> None:
    """GL for drawing camera pictures without a screen; a machine without it still gets everything else."""
    if ctx.stamped("gl", digest("gl-1", ctx.keys["wheels"])):
        return
    working = gl_backends(ctx)
    if not working:
        if not (apt_install(ctx, "gl", GL_PACKAGES) or apt_install(ctx, "gl", GL_PACKAGES[:-1])):
            say("no headless GL works here, and set-up may not install it; camera pictures need it. Run:")
            say(f"  {apt_command(GL_PACKAGES)}")
            return
        working = gl_backends(ctx)
    if not working:
        say(f"no headless GL works here although {' '.join(GL_PACKAGES)} are installed; see `tether doctor`")
        return
    say(f"headless GL: {', '.join(working)}")
    ctx.stamp("gl", backend=working[0])
