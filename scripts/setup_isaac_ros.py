"""ROS 2 beside Isaac Lab in .venv-isaac, so that its world can be a node of the graph. Run by `scripts/setup_isaac`.

The steps are those of `make setup`, with two differences: of the locked packages only those are installed that Isaac
Lab has not brought in a version of its own, and the messages are built once more, since a build is bound to its Python.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

sys.path.insert(0, str(Path(__file__).resolve().parent))

from setup_steps import python_packages, ros, system
from setup_steps.core import Context, SetupError, digest, digest_files, say, setup_lock, write_atomic

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("colcon", "ros")


def missing(files: list[Path]) -> list[str]:
    """Locked requirements for this Python of which no version is installed."""
    have = {dist.metadata["Name"].lower().replace("_", "-") for dist in metadata.distributions()}
    wanted = []
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if not line or line.startswith("#"):
                continue
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate():
                continue
            if requirement.name.lower() not in have:
                wanted.append(f"{requirement.name}{requirement.specifier}")
    return wanted


def install_missing(ctx: Context) -> None:
    """What ROS 2 and the build of its messages need beside Isaac Lab."""
    files = [ctx.root / "requirements" / f"{name}.txt" for name in LOCKS]
    if ctx.stamped("wheels", digest("isaac-wheels-1", digest_files(ctx.root, files))):
        return
    ctx.unstamp("wheels")
    ctx.unstamp("cmake-paths")
    wanted = missing(files)
    if wanted:
        say(f"installing {len(wanted)} packages of ROS 2 and its build tools")
        chosen = ctx.state / "wanted.txt"
        write_atomic(chosen, "\n".join(wanted) + "\n")
        arguments = ["install", "--no-deps", "--only-binary", ":all:", "--no-binary", "empy", "-r", str(chosen)]
        with python_packages.pip(ctx, "wheels", arguments):
            pass
    ctx.stamp("wheels")


def make_importable(ctx: Context) -> None:
    """Isaac Lab's side of Tether, from where its sources lie."""
    write_atomic(ctx.site_packages() / "_tether_isaac.pth", f"{ctx.root / 'isaac_envs'}\n")


def main() -> int:
    """Take the lock, work; errors as text and exit status 1."""
    venv = Path(sys.prefix)
    try:
        with setup_lock(ROOT / ".setup.lock") as lock_fd:
            ctx = Context(ROOT, venv, None, lock_fd, build_base=venv / ".tether-setup" / "build")
            ctx.keys["venv"] = digest(sys.version, str(venv))
            install_missing(ctx)
            ros.fix_cmake_paths(ctx)
            ros.install_hook(ctx)
            python_packages.install_core(ctx)
            python_packages.sign_shipped(ctx)
            ros.build_interfaces(ctx)
            ros.link_nodes(ctx)
            make_importable(ctx)
            ros.prove(ctx)
            system.ensure_gl(ctx)
    except SetupError as error:
        sys.stderr.write(f"[setup_isaac] error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
