"""Rules of the repository that a test can hold: who imports whom, sizes, manifests, names, words that do not belong."""

from __future__ import annotations

import ast
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "src" / "tether"
PACKAGES = sorted(path.parent for path in (ROOT / "ros2_ws" / "src").glob("*/package.xml"))
NODES = [package for package in PACKAGES if (package / "setup.py").exists()]
LAUNCH_FILES = sorted((ROOT / "launch").glob("*.launch.xml"))

LINES_MAX = 400
FUNCTION_LINES_MAX = 60
OUTSIDE_THE_CORE = ("rclpy", "rosidl", "ament", "launch", "launch_ros", "isaac", "omni", "pxr", "ros2_ws", "tether_")
"""Beginnings of top-level modules that the core must not import."""
MUJOCO_ONLY_IN = ("world/", "eval/film.py")
NOT_BUILT_YET: dict[str, str] = {}
"""Packages that a launch file names and the workspace does not hold."""


def python_files(*folders: Path) -> Iterator[Path]:
    for folder in folders:
        yield from sorted(path for path in folder.rglob("*.py") if "build" not in path.parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every absolute import, in functions and under TYPE_CHECKING too."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module is not None:
            yield node.lineno, node.module


def at(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_core_imports_no_ros_no_isaac_and_no_node() -> None:
    wrong = [
        f"{at(path, line)} imports {name}"
        for path in python_files(CORE)
        for line, name in imports(path)
        if any(name.partition(".")[0].startswith(begin) for begin in OUTSIDE_THE_CORE)
    ]
    assert not wrong


def test_mujoco_is_imported_in_the_world_only() -> None:
    wrong = [
        f"{at(path, line)} imports {name}"
        for path in python_files(CORE)
        if not path.relative_to(CORE).as_posix().startswith(MUJOCO_ONLY_IN)
        for line, name in imports(path)
        if name.partition(".")[0] == "mujoco"
    ]
    assert not wrong


def test_safety_gate_imports_neither_world_nor_policies() -> None:
    others = {"tether.policy", "tether.world", "tether.motion", "tether.fusion", "tether.assembly"}
    wrong = [
        f"{at(path, line)} imports {name}"
        for path in python_files(CORE / "safety")
        if path.name != "bench.py"  # measures, and is no part of the gate
        for line, name in imports(path)
        if ".".join(name.split(".")[:2]) in others
    ]
    assert not wrong


def test_files_stay_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in python_files(CORE, *PACKAGES)}
    too_long = [f"{path.relative_to(ROOT)}: {lines} lines" for path, lines in lengths.items() if lines > LINES_MAX]
    assert not too_long


def test_functions_stay_short() -> None:
    too_long = [
        f"{at(path, node.lineno)} {node.name}: {node.end_lineno - node.lineno + 1} lines"
        for path in python_files(CORE, *PACKAGES)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not too_long


def test_public_things_have_docstrings() -> None:
    without = []
    for path in python_files(CORE, *NODES):
        if path.name == "setup.py":
            continue
        if ast.get_docstring(tree(path)) is None:
            without.append(at(path, 1))
        for node in tree(path).body:
            is_public = isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
            if is_public and ast.get_docstring(node) is None:
                without.append(f"{at(path, node.lineno)} {node.name}")
    assert not without


@pytest.mark.parametrize("package", NODES, ids=lambda path: path.name)
def test_package_xml_lists_what_the_modules_import(package: Path) -> None:
    manifest = ElementTree.parse(package / "package.xml").getroot()
    listed = {node.text for tag in ("depend", "exec_depend") for node in manifest.iter(tag)}
    ros = {path.name for path in PACKAGES} | {"rclpy", "rcl_interfaces"}
    needed = {
        top
        for path in python_files(package / package.name)
        for _, name in imports(path)
        if (top := name.partition(".")[0]) != package.name and (top in ros or top.endswith(("_msgs", "_interfaces")))
    }
    assert needed <= listed, f"missing in {at(package / 'package.xml', 1)}: {sorted(needed - listed)}"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_package_is_called_what_its_folder_is_called(package: Path) -> None:
    manifest = ElementTree.parse(package / "package.xml").getroot()
    assert manifest.findtext("name") == package.name
    assert manifest.findtext("license") == "Apache-2.0"


def executables(package: Path) -> set[str]:
    text = (package / "setup.py").read_text(encoding="utf-8")
    return set(re.findall(r"['\"](\w+) ?= ?\w+\.\w+:\w+['\"]", text))


@pytest.mark.parametrize("path", LAUNCH_FILES, ids=lambda path: path.name)
def test_every_executable_that_a_launch_file_names_exists(path: Path) -> None:
    known = {package.name: executables(package) for package in NODES}
    missing = [
        f"{node.get('pkg')}/{node.get('exec')}"
        for node in ElementTree.parse(path).getroot().iter("node")
        if node.get("pkg") not in NOT_BUILT_YET and node.get("exec") not in known.get(node.get("pkg", ""), set())
    ]
    assert not missing


def test_what_is_said_not_to_be_built_is_not_built() -> None:
    assert not [name for name in NOT_BUILT_YET if name in {package.name for package in PACKAGES}]


@pytest.mark.parametrize("path", LAUNCH_FILES, ids=lambda path: path.name)
def test_every_file_that_a_launch_file_includes_exists(path: Path) -> None:
    files = [node.get("file", "") for node in ElementTree.parse(path).getroot().iter("include")]
    assert all((path.parent / file.replace("$(dirname)/", "")).exists() for file in files)


def test_entry_points_name_modules_and_functions_that_exist() -> None:
    missing = []
    for package in NODES:
        text = (package / "setup.py").read_text(encoding="utf-8")
        for module, function in re.findall(r"= ?([\w.]+):(\w+)['\"]", text):
            path = package / Path(*module.split(".")).with_suffix(".py")
            names = (
                {node.name for node in tree(path).body if isinstance(node, ast.FunctionDef)} if path.exists() else ()
            )
            if function not in names:
                missing.append(f"{package.name}: {module}:{function}")
    assert not missing


def tracked_texts() -> Iterator[tuple[Path, str]]:
    """Text files of the repository other than recorded data and locks."""
    endings = {".py", ".md", ".xml", ".yaml", ".toml", ".xacro", ".in", ".cfg", ".msg", ".srv", ".action", ".ini"}
    folders = ("src", "ros2_ws/src", "config", "launch", "urdf", "docs", "scripts", "tests", "docker", "isaac_envs")
    paths = [path for folder in folders if (ROOT / folder).is_dir() for path in (ROOT / folder).rglob("*")]
    paths += [path for path in ROOT.iterdir() if path.is_file()]
    for path in sorted(paths):
        parts = path.relative_to(ROOT).parts
        generated = any(part in ("build", "__pycache__", "data") or part.endswith(".egg-info") for part in parts)
        if path.is_file() and not generated and (path.suffix in endings or path.name in ("Makefile", "setup")):
            yield path, path.read_text(encoding="utf-8")


FORBIDDEN = {
    "a folder of the machine it was written on": re.compile(r"(?<![\w./~-])/(?:work|root|home/\w+)/(?!runs\b)"),
    "an open end": re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b"),
    "a private package index": re.compile(r"(?:index-url|extra-index-url|trusted-host)\s*[= ]\s*\S"),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    here = Path(__file__).resolve()
    found = [
        f"{at(path, number)}: {line.strip()[:80]}"
        for path, text in tracked_texts()
        if path != here
        for number, line in enumerate(text.splitlines(), 1)
        if FORBIDDEN[what].search(line)
    ]
    assert not found


def test_core_runs_on_every_python_that_it_says() -> None:
    """Syntax and standard modules that came after 3.10 are refused, whatever runs this test."""
    newer = {"tomllib", "asyncio.taskgroups"}
    wrong = []
    for path in python_files(CORE, *PACKAGES):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 10))
        wrong += [f"{at(path, line)} imports {name}" for line, name in imports(path) if name in newer]
        wrong += [
            f"{at(path, node.lineno)} uses typing.{alias.name}"
            for node in ast.walk(tree(path))
            if isinstance(node, ast.ImportFrom) and node.module in ("typing", "enum", "datetime")
            for alias in node.names
            if alias.name in ("Self", "assert_never", "Never", "override", "StrEnum", "UTC", "LiteralString")
        ]
    assert not wrong
    assert sys.version_info >= (3, 10)


LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def test_whole_numbers_among_arguments_have_bounds() -> None:
    wrong = [
        at(path, node.lineno)
        for path in python_files(CORE)
        for node in ast.walk(tree(path))
        if isinstance(node, ast.keyword) and node.arg == "type" and ast.unparse(node.value) == "int"
    ]
    assert not wrong, "use tether.arguments.positive or not_negative"


def test_links_between_documents_lead_somewhere() -> None:
    pages = [*sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("*.md"))]
    broken = [
        f"{page.relative_to(ROOT)} -> {target}"
        for page in pages
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not broken
