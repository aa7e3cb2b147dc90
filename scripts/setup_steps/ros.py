"""ROS 2 steps: which ROS, the wheels' CMake files, the start-up hook, messages and nodes of ros2_ws."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

from setup_steps.core import Context, SetupError, digest, digest_files, say, write_atomic

HERE = Path(__file__).resolve().parent
DISTRO = "jazzy"
PATH_LISTS = (
    "AMENT_PREFIX_PATH",
    "CMAKE_PREFIX_PATH",
    "LD_LIBRARY_PATH",
    "PATH",
    "PYTHONPATH",
    "COLCON_PREFIX_PATH",
)
PLAIN = ("ROS_DISTRO", "ROS_VERSION", "ROS_PYTHON_VERSION")
HOOK = "_tether_env"
GENERATED = {".msg", ".srv", ".action", ".idl", ".json", ".py", ".c", ".h", ".hpp", ".so"}
# Folders that the machine which built the wheels had; CMake refuses include folders that do not exist.
BUILDER_PYTHON = re.compile(r'[^";\s]*/cp3\d+-cp3\d+/include/python3\.\d+')
BUILDER_NUMPY = re.compile(r'[^";\s]*/cp3\d+-cp3\d+/lib/python3\.\d+/site-packages/numpy/(?:_core|core)/include')


def installed_ros(environ: dict[str, str]) -> Path | None:
    """Prefix of an installed ROS 2 Jazzy: TETHER_ROS, the sourced one, or /opt/ros/jazzy; None for wheels."""
    asked = environ.get("TETHER_ROS")
    if asked == "wheels":
        return None
    if asked:
        if not (Path(asked) / "setup.bash").is_file():
            raise SetupError(f"TETHER_ROS names no ROS 2: got '{asked}', expected 'wheels' or a folder with setup.bash")
        return Path(asked)
    sourced = environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if environ.get("ROS_DISTRO") == DISTRO else []
    for prefix in [*map(Path, filter(None, sourced)), Path("/opt/ros") / DISTRO]:
        ours = (prefix / "pyvenv.cfg").exists()  # a venv with the wheels, activated: not an installed ROS
        if not ours and (prefix / "setup.bash").is_file() and python_of(prefix) is not None:
            return prefix
    return None


def python_of(prefix: Path) -> str | None:
    """Python version that this ROS's rclpy was built for, such as '3.12'."""
    found = sorted(prefix.glob("lib/python3.*/*-packages/rclpy"))
    return found[0].parent.parent.name.removeprefix("python") if found else None


def sourced_environment(prefix: Path) -> dict[str, list[str] | str]:
    """What sourcing this ROS's setup.bash sets in an empty shell: path lists as lists, the rest as text."""
    base = {"PATH": os.defpath, "HOME": os.environ.get("HOME", "/")}
    script = 'set -e; . "$1/setup.bash" >&2; env -0'
    done = subprocess.run(
        ["bash", "--norc", "-c", script, "bash", str(prefix)], env=base, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SetupError(f"sourcing {prefix}/setup.bash failed:\n{done.stderr[-1000:]}")
    env = dict(line.split("=", 1) for line in done.stdout.split("\0") if "=" in line)
    usual = os.defpath.split(os.pathsep)
    out: dict[str, list[str] | str] = {
        n: [e for e in env[n].split(os.pathsep) if e and e not in usual] for n in PATH_LISTS if n in env
    }
    out.update({n: env[n] for n in PLAIN if n in env})
    return out


def fix_cmake_paths(ctx: Context) -> None:
    """Point the wheels' exported CMake files at this venv's Python and NumPy headers."""
    if ctx.ros_prefix is not None or ctx.stamped("cmake-paths", digest("cmake-1", ctx.keys["wheels"])):
        return
    ask = "import sysconfig, numpy; print(sysconfig.get_path('include')); print(numpy.get_include())"
    done = subprocess.run([str(ctx.python), "-c", ask], env=ctx.child_env(), capture_output=True, text=True, check=True)
    python_include, numpy_include = done.stdout.splitlines()
    changed = 0
    for path in sorted((ctx.venv / "share").glob("*/cmake/*.cmake")):
        text = path.read_text(encoding="utf-8")
        fixed = repoint(text, python_include, numpy_include)
        if fixed != text:
            write_atomic(path, fixed)
            changed += 1
    say(f"CMake files of the wheels: {changed} pointed at this venv")
    ctx.stamp("cmake-paths")


def repoint(text: str, python_include: str, numpy_include: str) -> str:
    """One CMake file with the builder's include folders replaced."""
    return BUILDER_PYTHON.sub(lambda _: python_include, BUILDER_NUMPY.sub(lambda _: numpy_include, text))


def install_hook(ctx: Context) -> None:
    """The start-up hook that makes `.venv/bin/…` work without sourcing anything."""
    source = (HERE / "env_hook.py").read_text(encoding="utf-8")
    facts: dict[str, object] = {"ros": "wheels"}
    if ctx.ros_prefix is not None:
        facts = {"ros": str(ctx.ros_prefix), "environment": sourced_environment(ctx.ros_prefix)}
    text = json.dumps(facts, indent=1)
    if ctx.stamped("hook", digest(source, text)):
        return
    site = ctx.site_packages()
    write_atomic(site / f"{HOOK}.json", text)
    write_atomic(site / f"{HOOK}.py", source)
    # Last, since from here on every start of the venv's Python imports the two above.
    write_atomic(site / f"{HOOK}.pth", f"import {HOOK}\n")
    ctx.stamp("hook", ros=str(facts["ros"]))


@dataclass(frozen=True)
class RosPackage:
    """A package of ros2_ws/src."""

    name: str
    build_type: str
    folder: Path

    def files(self) -> list[Path]:
        """Its files, without what Python and editors leave behind."""
        return [
            p
            for p in self.folder.rglob("*")
            if p.is_file() and "__pycache__" not in p.parts and not any(d.endswith(".egg-info") for d in p.parts)
        ]


def ros_packages(src: Path) -> list[RosPackage]:
    """Packages of the workspace by name; a package.xml that says no name or build type is an error."""
    found = []
    for manifest in sorted(src.glob("*/package.xml")):
        try:
            tree = ElementTree.parse(manifest)
        except ElementTree.ParseError as error:
            raise SetupError(f"{manifest}: not well-formed XML: {error}") from None
        name, build_type = tree.findtext("name"), tree.findtext("export/build_type")
        if not name or build_type not in ("ament_cmake", "ament_python"):
            raise SetupError(
                f"{manifest}: expected <name> and <build_type> ament_cmake or ament_python, "
                f"got {name!r} and {build_type!r}"
            )
        found.append(RosPackage(name.strip(), build_type, manifest.parent))
    return found


def build_interfaces(ctx: Context) -> bool:
    """colcon build of the ament_cmake packages, merged into the venv; True when something was built."""
    packages = [p for p in ros_packages(ctx.root / "ros2_ws" / "src") if p.build_type == "ament_cmake"]
    sources = digest_files(ctx.root, [f for p in packages for f in p.files()])
    if not packages or ctx.stamped("interfaces", digest("interfaces-1", sources, ctx.keys["wheels"], str(ctx.venv))):
        return False
    from setup_steps.system import need_compilers

    need_compilers(ctx)
    ctx.unstamp("interfaces")
    names = [p.name for p in packages]
    say(f"building {', '.join(names)} with colcon (about two minutes)")
    try:
        ctx.run("colcon", colcon_command(ctx, names), env=build_env(ctx))
    except SetupError:
        # A build folder left by an interrupt, by another Python or by another NumPy; once more from nothing.
        say("colcon failed; once more with clean build folders")
        for name in names:
            shutil.rmtree(ctx.build / name, ignore_errors=True)
        ctx.run("colcon", colcon_command(ctx, names), env=build_env(ctx))
    for name in names:
        remove_stale(ctx, name)
    ctx.stamp("interfaces", packages=" ".join(names))
    return True


def remove_stale(ctx: Context, name: str) -> None:
    """Take out what an older build installed and this one did not, so that no removed message lives on."""
    manifest = ctx.build / name / "install_manifest.txt"
    installed = {Path(line) for line in manifest.read_text(encoding="utf-8").splitlines()}
    for folder in (ctx.venv / "share" / name, ctx.venv / "include" / name, ctx.site_packages() / name):
        for path in sorted(folder.rglob("*")) if folder.is_dir() else []:
            if path.suffix in GENERATED and path.is_file() and path not in installed:
                path.unlink()


def build_env(ctx: Context) -> dict[str, str]:
    """Environment of the build: the venv first, then the installed ROS, if any."""
    env = ctx.child_env()
    # By itself colcon also caps the load (-l), and then builds one file at a time beside the training wheels' pip.
    jobs = str(len(os.sched_getaffinity(0)))
    env["MAKEFLAGS"], env["CMAKE_BUILD_PARALLEL_LEVEL"] = f"-j{jobs}", jobs
    prefixes = [str(ctx.venv)]
    if ctx.ros_prefix is not None:
        for name, value in sourced_environment(ctx.ros_prefix).items():
            env[name] = os.pathsep.join([*value, *filter(None, [env.get(name)])]) if isinstance(value, list) else value
        prefixes.append(str(ctx.ros_prefix))
        env["PATH"] = f"{ctx.venv / 'bin'}:{env['PATH']}"
    env["AMENT_PREFIX_PATH"] = env["CMAKE_PREFIX_PATH"] = os.pathsep.join(prefixes)
    return env


def colcon_command(ctx: Context, names: list[str]) -> list[str | Path]:
    """The build itself; merged into the venv, whose `lib` the loader searches anyway."""
    workspace = ctx.root / "ros2_ws"
    return [
        ctx.python, "-m", "colcon", "--log-base", workspace / "log", "build",
        "--base-paths", workspace / "src", "--packages-select", *names,
        "--build-base", ctx.build, "--install-base", ctx.venv, "--merge-install",
        "--cmake-args", "-G", "Ninja", "-DBUILD_TESTING=OFF", "-DCMAKE_BUILD_TYPE=Release",
        f"-DPython3_EXECUTABLE={ctx.python}",
    ]  # fmt: skip


def link_nodes(ctx: Context) -> None:
    """Make the ament_python packages importable, launchable and findable from where they lie.

    `colcon build --symlink-install` needs setuptools' abandoned `develop`, and `pip install -e` leaves data
    files out. So each setup.py is asked what it would install, and links are laid to the sources: edits to a
    node, a launch file or a configuration act at once.
    """
    packages = [p for p in ros_packages(ctx.root / "ros2_ws" / "src") if p.build_type == "ament_python"]
    names = [str(f.relative_to(ctx.root)) for p in packages for f in p.files()]
    heads = [f for p in packages for f in p.files() if f.name in ("setup.py", "setup.cfg", "package.xml")]
    outside = [f"{d}/{f.name}" for d in ("launch", "config", "urdf") for f in sorted((ctx.root / d).glob("**/*"))]
    key = digest("nodes-1", digest_files(ctx.root, heads), *sorted(names), *outside, str(ctx.venv), ctx.keys["wheels"])
    if ctx.stamped("nodes", key):
        return
    ctx.unstamp("nodes")
    unlink_nodes(ctx)
    laid: list[Path] = []
    imports = []
    faults = []
    for package in packages:
        try:
            facts = ask_setup_py(ctx, package)
            laid += link_data(ctx, package, facts["data_files"])
            laid += write_executables(ctx, package, facts["console_scripts"])
        except SetupError as error:
            faults.append(str(error))
            continue
        imports.append(str(package.folder / facts["package_dir"].get("", ".")))
    pth = ctx.site_packages() / "_tether_nodes.pth"
    write_atomic(pth, "\n".join(os.path.normpath(p) for p in imports) + "\n")
    write_atomic(ctx.state / "nodes.laid", "".join(f"{p}\n" for p in laid))
    if faults:
        raise SetupError("\n".join(faults))
    say(f"node packages linked: {', '.join(p.name for p in packages) or 'none yet'}")
    ctx.stamp("nodes")


def unlink_nodes(ctx: Context) -> None:
    """Take away what an earlier run laid."""
    laid = ctx.state / "nodes.laid"
    for line in laid.read_text(encoding="utf-8").splitlines() if laid.exists() else []:
        Path(line).unlink(missing_ok=True)


def ask_setup_py(ctx: Context, package: RosPackage) -> dict:
    """Data files, console scripts and package_dir of a setup.py, evaluated by the venv's setuptools."""
    command = [str(ctx.python), str(HERE / "read_setup_py.py")]
    done = subprocess.run(command, cwd=package.folder, env=ctx.child_env(), capture_output=True, text=True)
    if done.returncode != 0:
        raise SetupError(f"{package.folder}/setup.py cannot be evaluated:\n{done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def link_data(ctx: Context, package: RosPackage, data_files: list[tuple[str, list[str]]]) -> list[Path]:
    """Symbolic links for setup.py's data_files, the ament index marker among them."""
    laid = []
    for folder, files in data_files:
        for file in files:
            source = (package.folder / file).resolve()
            if not source.is_file():
                raise SetupError(f"{package.folder}/setup.py: data file '{file}' does not exist")
            target = ctx.venv / folder / source.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            target.symlink_to(source)
            laid.append(target)
    return laid


def write_executables(ctx: Context, package: RosPackage, scripts: list[str]) -> list[Path]:
    """lib/<package>/<executable> for each console script, where `ros2 run` and launch files look."""
    laid = []
    for script in scripts:
        match = re.fullmatch(r"\s*([\w.-]+)\s*=\s*([\w.]+)\s*:\s*(\w+)\s*", script)
        if match is None:
            raise SetupError(f"{package.folder}/setup.py: console script '{script}' is not 'name = module:function'")
        name, module, function = match.groups()
        target = ctx.venv / "lib" / package.name / name
        text = f"{shebang(ctx.python)}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        write_atomic(target, text)
        target.chmod(0o755)
        laid.append(target)
    return laid


def shebang(python: Path) -> str:
    """First line(s) that start this Python; Linux takes neither spaces nor more than 127 bytes after `#!`."""
    if " " not in str(python) and len(str(python)) < 125:
        return f"#!{python}"
    # As pip does: a line that is a command to sh and a string to Python.
    return f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''"


def prove(ctx: Context) -> None:
    """Every part can be imported by the venv's Python as a user will start it."""
    packages = ros_packages(ctx.root / "ros2_ws" / "src")
    modules = ["rclpy", "tether", *(p.name for p in packages if p.build_type == "ament_cmake")]
    if ctx.stamped(
        "proof", digest(*modules, *(ctx.keys[k] for k in ("hook", "interfaces", "nodes", "wheels", "tether")))
    ):
        return
    check = f"import {', '.join(modules)}; rclpy.init(); rclpy.shutdown()"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    ctx.run("proof", [ctx.python, "-c", check], env=env, cwd=ctx.venv)
    ctx.stamp("proof")
