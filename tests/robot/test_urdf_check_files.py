"""The linter on whole files: robots of others, our own, and files that are hardly robots."""

from __future__ import annotations

import argparse
import gzip
import json
import re
import struct
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.errors import InvalidInputError
from tether.results import header
from tether.robot import guarded_xacro
from tether.robot.check import Report, Status, check_file
from tether.robot.cli import add_parser
from tether.robot.description import expand, expand_xacro
from tether.robot.expansion import expand_apart
from tether.robot.findings import Rule
from tether.robot.report import as_table
from tether.robot.xmltree import UnreadableError

ROOT = Path(__file__).parents[2]
SO101 = ROOT / "tests/data/urdf/so101/so101_new_calib.urdf"
LEKIWI = ROOT / "tests/data/urdf/lekiwi/LeKiwi.urdf"
ROVER = ROOT / "urdf/tether_rover.urdf.xacro"

LINK = '<link name="base"/>'
XMLNS = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'


def write(folder: Path, content: str | bytes, name: str = "robot.urdf") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def found(report: Report) -> list[tuple[str, str, str]]:
    return [(finding.rule, finding.severity.value, finding.subject) for finding in report.findings]


def only(report: Report) -> tuple[str, str]:
    """Return rule and message of the one finding there is."""
    assert len(report.findings) == 1, report.findings
    return report.findings[0].rule, report.findings[0].message


# --- robots of others


def test_so101_has_its_seventeen_missing_meshes_and_one_zero_inertia_and_nothing_else() -> None:
    report = check_file(SO101)
    per_link = {
        "base_link": 4, "shoulder_link": 3, "upper_arm_link": 2, "lower_arm_link": 3, "wrist_link": 2,
        "gripper_link": 2, "moving_jaw_so101_v1_link": 1,
    }  # fmt: skip
    expected = Counter({("mesh-missing", "error", link): count for link, count in per_link.items()})
    expected[("inertia-zero", "error", "gripper_frame_link")] = 1
    assert Counter(found(report)) == expected
    assert (report.status, report.links, report.joints, report.moving) == (Status.FAULTS, 8, 7, 6)
    zero = next(finding for finding in report.findings if finding.rule == "inertia-zero")
    assert zero.line == 295
    assert "1e-09 kg" in zero.message


def test_lekiwi_has_no_limits_no_meshes_and_names_that_ros_takes_badly() -> None:
    report = check_file(LEKIWI)
    rules = Counter((rule, severity) for rule, severity, _ in found(report))
    assert rules == {
        ("mesh-missing", "error"): 45,
        ("limit-missing", "warning"): 9,
        ("name-characters", "warning"): 89,
    }
    unlimited = [finding.subject for finding in report.findings if finding.rule == "limit-missing"]
    assert unlimited == [
        "ST3215_Servo_Motor-v1-2_Revolute-60",
        "ST3215_Servo_Motor-v1-1_Revolute-62",
        "ST3215_Servo_Motor-v1_Revolute-64",
        "STS3215_03a-v1_Revolute-45",
        "STS3215_03a-v1-1_Revolute-49",
        "STS3215_03a-v1-2_Revolute-51",
        "STS3215_03a-v1-3_Revolute-53",
        "STS3215_03a_Wrist_Roll-v1_Revolute-55",
        "STS3215_03a-v1-4_Revolute-57",
    ]
    assert (report.status, report.links, report.joints, report.moving) == (Status.FAULTS, 45, 44, 9)


@pytest.mark.parametrize("link", ["base_link", "shoulder_link", "upper_arm_link", "lower_arm_link"])
def test_inertia_a_hundred_times_too_large_stands_out_even_without_meshes(tmp_path: Path, link: str) -> None:
    text = SO101.read_text(encoding="utf-8")
    before, after = text.split(f'<link name="{link}">', 1)
    inertia, rest = after.split("<inertia ", 1)[1].split("/>", 1)
    scaled = " ".join(
        f'{key}="{100 * float(value.strip(chr(34)))}"' for key, value in (pair.split("=") for pair in inertia.split())
    )
    head = after.split("<inertia ", 1)[0]
    report = check_file(write(tmp_path, f'{before}<link name="{link}">{head}<inertia {scaled}/>{rest}'))
    assert [entry for entry in found(report) if entry[0] == "inertia-size"] == [("inertia-size", "warning", link)]


def test_own_robot_is_clean() -> None:
    report = check_file(ROVER)
    assert report.status is Status.CLEAN
    assert found(report) == [("mimic-dropped", "warning", "gripper_right")]
    assert report.expanded


# --- files that are hardly robots


@pytest.mark.parametrize(
    ("content", "rule", "says"),
    [
        (b"", "file-empty", "empty"),
        (b" \n\t\r\n", "file-empty", "empty"),
        (b"\x00" * 512, "file-empty", "empty"),
        (gzip.compress(b"<robot/>", mtime=0), "file-binary", "gzip"),
        (bytes(range(256)), "file-binary", "not XML text"),
        (b"\x7fELF\x02\x01\x01\x00", "file-binary", "ELF"),
        (b"solid robot\nfacet normal 0 0 1\n", "xml-malformed", "syntax error"),
        (b'<robot name="r">\n<link name="a">\n</robot>', "xml-malformed", "mismatched tag"),
        (b'<robot name="r"><link name="a" name="b"/></robot>', "xml-malformed", "duplicate attribute"),
        (b"<?xml version='1.0'?>\n", "xml-malformed", "no element found"),
        (b'<sdf version="1.9"/>', "not-urdf", "SDFormat"),
        (b"<mujoco/>", "not-urdf", "MuJoCo"),
        (b"<html><body>404</body></html>", "not-urdf", "<html>"),
        (b'<?xml version="1.0" encoding="utf-8"?>\n\n<launch/>', "not-urdf", "launch file"),
    ],
)
def test_file_that_is_no_robot_is_not_checkable_and_says_why(
    tmp_path: Path, content: bytes, rule: str, says: str
) -> None:
    report = check_file(write(tmp_path, content))
    assert report.status is Status.NOT_CHECKABLE
    assert only(report)[0] == rule
    assert says in only(report)[1]


def test_malformed_xml_names_line_and_column(tmp_path: Path) -> None:
    report = check_file(write(tmp_path, '<robot name="r">\n<link name="a">\n</robot>'))
    assert report.findings[0].line == 3
    assert "column 3" in report.findings[0].message


def test_missing_file_folder_and_device_are_not_checkable(tmp_path: Path) -> None:
    assert only(check_file(tmp_path / "none.urdf")) == ("file-missing", "there is no such file")
    assert only(check_file(tmp_path))[0] == "file-missing"
    assert only(check_file("/dev/null"))[0] == "file-unreadable"
    assert only(check_file("a\0b"))[0] == "file-unreadable"


def bomb() -> str:
    layers = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    return f'<!DOCTYPE robot [<!ENTITY l0 "lol">{layers}]>\n<robot name="&l11;">{LINK}</robot>'


@pytest.mark.parametrize("name", ["robot.urdf", "robot.xacro"])
def test_entity_bomb_is_refused_before_it_grows(tmp_path: Path, name: str) -> None:
    report = check_file(write(tmp_path, bomb(), name))
    assert report.status is Status.NOT_CHECKABLE
    assert only(report)[0] == "xml-entity"


def test_entity_that_reads_another_file_is_refused_also_in_an_included_file(tmp_path: Path) -> None:
    text = f'<!DOCTYPE robot [<!ENTITY x SYSTEM "file:///etc/hostname">]><robot name="r">&x;{LINK}</robot>'
    assert only(check_file(write(tmp_path, text)))[0] == "xml-entity"
    write(tmp_path, text, "inner.xacro")
    outer = f'<robot name="r" {XMLNS}><xacro:include filename="inner.xacro"/></robot>'
    report = check_file(write(tmp_path, outer, "outer.xacro"))
    assert report.status is Status.NOT_CHECKABLE
    assert only(report)[0] == "xml-entity"
    assert "inner.xacro" in only(report)[1]


def test_deep_nesting_is_read_without_exhausting_the_stack(tmp_path: Path) -> None:
    depth = 20_000
    report = check_file(write(tmp_path, f'<robot name="r">{LINK}' + "<a>" * depth + "</a>" * depth + "</robot>"))
    assert report.status is Status.CLEAN


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_no_bytes_at_all_make_the_check_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("junk") / "robot.urdf"
    path.write_bytes(data)
    assert check_file(path).status is Status.NOT_CHECKABLE


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_damaged_robot_files_never_make_the_check_raise(
    tmp_path_factory: pytest.TempPathFactory, seed: int, cuts: int
) -> None:
    data = bytearray(SO101.read_bytes())
    for _ in range(cuts):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        place, what = (seed >> 20) % len(data), (seed >> 8) % 256
        data[place] = what
    path = tmp_path_factory.mktemp("damaged") / "robot.urdf"
    path.write_bytes(bytes(data))
    assert check_file(path).status in (Status.FAULTS, Status.NOT_CHECKABLE)


# --- encodings


ACCENTED = '<?xml version="1.0" encoding="{}"?>\n<robot name="r"><!-- bras levé --><link name="base"/></robot>'


@pytest.mark.parametrize(
    ("declared", "real", "expected"),
    [
        ("utf-8", "utf-8", []),
        ("UTF-8", "utf-8-sig", []),
        ("utf-8", "latin-1", [("encoding", "error")]),
        ("iso-8859-1", "latin-1", [("encoding", "warning")]),
        ("windows-1252", "cp1252", [("encoding", "warning")]),
        ("utf-16", "utf-16", [("encoding", "error")]),
        ("utf-16", "utf-16-le", [("encoding", "error")]),
        ("utf-32", "utf-32", [("encoding", "error")]),
        ("klingon", "utf-8", [("encoding", "error")]),
        ("utf-16", "utf-8", [("encoding", "error")]),
        ("rot13", "utf-8", [("encoding", "error")]),
    ],
)
def test_odd_encodings_are_read_and_reported_and_the_rest_is_checked(
    tmp_path: Path, declared: str, real: str, expected: list[tuple[str, str]]
) -> None:
    text = ACCENTED.format(declared).replace("</robot>", '<link name="alone"/></robot>')
    report = check_file(write(tmp_path, text.encode(real)))
    assert [(rule, severity) for rule, severity, _ in found(report) if rule == "encoding"] == expected
    assert ("link-unconnected", "error", "alone") in found(report)


def test_plain_ascii_is_fine_whatever_it_declares(tmp_path: Path) -> None:
    text = '<?xml version="1.0" encoding="iso-8859-1"?><robot name="r"><link name="base"/></robot>'
    assert check_file(write(tmp_path, text)).status is Status.CLEAN


def test_byte_that_does_not_fit_is_named_with_its_line(tmp_path: Path) -> None:
    report = check_file(write(tmp_path, ACCENTED.format("utf-8").encode("latin-1")))
    assert only(report)[1] == "byte e9 on line 2 is not valid utf-8"


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_xacro_is_expanded_from_any_encoding(tmp_path: Path, encoding: str) -> None:
    text = (
        f'<?xml version="1.0" encoding="{encoding.removesuffix("-sig")}"?><robot name="é" {XMLNS}>'
        '<xacro:property name="n" value="ba"/><link name="${n}se"/></robot>'
    )
    report = check_file(write(tmp_path, text.encode(encoding), "robot.xacro"))
    assert report.robot == "é"
    assert {rule for rule, _, _ in found(report)} <= {"encoding"}


# --- xacro


MACRO = (
    '<xacro:macro name="pair" params="n"><link name="${n}_a"/><link name="${n}_b"/>'
    '<joint name="${n}_j" type="fixed"><parent link="${n}_a"/><child link="${n}_b"/></joint></xacro:macro>'
)


def test_xacro_given_directly_is_expanded_and_checked(tmp_path: Path) -> None:
    text = f'<robot name="r" {XMLNS}>{MACRO}<xacro:pair n="x"/></robot>'
    report = check_file(write(tmp_path, text, "robot.urdf.xacro"))
    assert (report.status, report.links, report.expanded) == (Status.CLEAN, 2, True)
    assert '<link name="x_a"' in expand(tmp_path / "robot.urdf.xacro")


def test_unexpanded_xacro_in_a_urdf_is_found_and_what_it_expands_to_is_checked_too(tmp_path: Path) -> None:
    text = f'<robot name="r" {XMLNS}>{MACRO}\n<xacro:pair n="x"/>\n<link name="alone"/></robot>'
    report = check_file(write(tmp_path, text))
    assert found(report) == [
        ("xacro-unexpanded", "error", "r"),
        ("xacro-unexpanded", "error", "r"),
        ("link-unconnected", "error", "alone"),
    ]
    assert [finding.line for finding in report.findings] == [1, 2, None]
    assert "'pair'" in report.findings[0].message


def test_expressions_left_over_are_found_by_link_and_joint_and_hide_no_other_fault(tmp_path: Path) -> None:
    text = """<robot name="r"><link name="base"/><link name="arm"><inertial><mass value="${m}"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="9"/></inertial>
    <visual><geometry><mesh filename="$(find pkg)/a.stl"/></geometry></visual></link>
    <joint name="j" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 ${s}"/>
    <limit lower="-1" upper="1" effort="0" velocity="1"/></joint></robot>"""
    report = check_file(write(tmp_path, text))
    assert sorted(found(report)) == [
        ("inertia-triangle", "error", "arm"),
        ("limit-effort", "error", "j"),
        ("xacro-failed", "error", "robot.urdf"),
        ("xacro-unexpanded", "error", "arm"),
        ("xacro-unexpanded", "error", "arm"),
        ("xacro-unexpanded", "error", "j"),
    ]
    assert report.status is Status.FAULTS


@pytest.mark.parametrize(
    ("body", "says", "fix"),
    [
        ('<xacro:include filename="$(find no_such_pkg)/a.xacro"/>', "$(find no_such_pkg)", "--package-path"),
        ('<xacro:include filename="none.xacro"/>', "none.xacro", "xacro:include"),
        ('<link name="${undefined_thing}"/>', "undefined_thing", "mend"),
        ('<link name="$(arg size)"/>', "size", "default"),
        ("<xacro:nobody/>", "nobody", "mend"),
        ('<link name="${1/0}"/>', "division by zero", "mend"),
        ('<xacro:include filename="robot.xacro"/>', "without end", "end"),
        ('<xacro:macro name="m"><xacro:m/></xacro:macro><xacro:m/>', "without end", "end"),
        ('<link name="${__import__(1)}"/>', "__import__", "by hand"),
    ],
)
def test_xacro_that_cannot_be_expanded_says_why_and_what_to_do(tmp_path: Path, body: str, says: str, fix: str) -> None:
    path = write(tmp_path, f'<robot name="r" {XMLNS}>{body}</robot>', "robot.xacro")
    report = check_file(path)
    assert report.status is Status.NOT_CHECKABLE
    assert only(report)[0] == "xacro-failed"
    assert says in only(report)[1]
    assert fix in report.findings[0].fix
    with pytest.raises(InvalidInputError, match="robot description"):
        expand(path)


def test_malformed_included_file_is_named_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, "<robot>\n<link>\n</robot>", "inner.xacro")
    outer = f'<robot name="r" {XMLNS}><xacro:include filename="inner.xacro"/></robot>'
    report = check_file(write(tmp_path, outer, "outer.xacro"))
    assert only(report)[0] == "xml-malformed"
    assert "inner.xacro" in only(report)[1]
    assert report.findings[0].line == 3


def test_missing_file_may_be_included_if_that_is_optional(tmp_path: Path) -> None:
    include = '<xacro:include filename="none.xacro" optional="true"/>'
    path = write(tmp_path, f'<robot name="r" {XMLNS}>{include}{LINK}</robot>', "robot.xacro")
    assert check_file(path).status is Status.CLEAN


def test_macros_that_multiply_each_other_are_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_xacro, "MAX_ELEMENTS", 2_000)
    macros = '<xacro:macro name="m0"><a/></xacro:macro>' + "".join(
        f'<xacro:macro name="m{n}"><xacro:m{n - 1}/><xacro:m{n - 1}/></xacro:macro>' for n in range(1, 40)
    )
    path = write(tmp_path, f'<robot name="r" {XMLNS}>{macros}<xacro:m39/></robot>', "robot.xacro")
    assert "grows beyond 2000 elements" in only(check_file(path))[1]


def test_failed_expansion_leaves_no_state_behind_for_the_next(tmp_path: Path) -> None:
    bad = write(tmp_path, f'<robot name="r" {XMLNS}><link name="${{nope}}"/></robot>', "bad.xacro")
    first = expand(ROVER)
    assert check_file(bad).status is Status.NOT_CHECKABLE
    assert expand(ROVER) == first


def test_arguments_of_a_xacro_file_can_be_given(tmp_path: Path) -> None:
    text = f'<robot name="r" {XMLNS}><xacro:arg name="p" default="x"/><link name="$(arg p)_base"/></robot>'
    path = write(tmp_path, text, "robot.xacro")
    assert 'name="x_base"' in expand(path)
    assert 'name="y_base"' in expand(path, arguments={"p": "y"})


def test_plain_urdf_comes_back_as_it_stands(tmp_path: Path) -> None:
    text = '<robot name="r"><!-- ${not xacro} --><link name="base"/></robot>'
    assert expand(write(tmp_path, text)) == text


# --- packages and meshes


TRIANGLE = struct.pack("<80xI12fH", 1, 0, 0, 1, 0, 0, 0, 50, 0, 0, 0, 80, 30, 0)


def with_mesh(filename: str, scale: str = "") -> str:
    mesh = f'<mesh filename="{filename}"{f" scale={chr(34)}{scale}{chr(34)}" if scale else ""}/>'
    return f'<robot name="r"><link name="base"><visual><geometry>{mesh}</geometry></visual></link></robot>'


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Folder of two packages: `arm` (with manifest) holds urdf/ and meshes/, `parts` is a bare folder."""
    write(tmp_path, "<package><name>arm</name></package>", "src/arm_description/package.xml")
    write(tmp_path, TRIANGLE, "src/arm_description/meshes/Part.stl")
    write(tmp_path, TRIANGLE, "elsewhere/parts/meshes/part.stl")
    return tmp_path


@pytest.mark.parametrize(
    "filename",
    ["package://arm/meshes/Part.stl", "../meshes/Part.stl", "package://arm/meshes/../meshes/Part.stl",
     "model://arm/meshes/Part.stl", "package://arm_description/meshes/Part.stl", "package://arm/meshes/Part%2Estl"],
)  # fmt: skip
def test_mesh_of_the_package_around_the_file_is_found(workspace: Path, filename: str) -> None:
    path = write(workspace, with_mesh(filename, "1e-3 1e-3 1e-3"), "src/arm_description/urdf/robot.urdf")
    assert found(check_file(path)) == []


@pytest.mark.parametrize("where", ["elsewhere", "elsewhere/parts"])
def test_mesh_of_another_package_needs_its_path(workspace: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(workspace, "<package><name>parts</name></package>", "elsewhere/parts/package.xml")
    text = with_mesh("package://parts/meshes/part.stl", "1e-3 1e-3 1e-3")
    path = write(workspace, text, "src/arm_description/urdf/robot.urdf")
    report = check_file(path)
    assert only(report)[0] == "mesh-missing"
    assert "package 'parts' was not found" in only(report)[1]
    assert found(check_file(path, [workspace / where])) == []
    monkeypatch.setenv("ROS_PACKAGE_PATH", str(workspace / where))
    assert found(check_file(path)) == []


def test_package_installed_by_colcon_is_found_through_its_prefix(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(workspace, TRIANGLE, "install/share/grip/part.stl")
    path = write(workspace, with_mesh("package://grip/part.stl", "1e-3 1e-3 1e-3"))
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(workspace / "install"))
    assert found(check_file(path)) == []


@pytest.mark.parametrize(
    ("filename", "rule", "says"),
    [
        ("../meshes/part.stl", "mesh-case", "'Part.stl' is there"),
        ("../Meshes/Part.STL", "mesh-case", "'meshes/Part.stl' is there"),
        ("package://arm/Meshes/Part.stl", "mesh-case", "letter case differs"),
        ("../meshes/other.stl", "mesh-missing", "no such file"),
        ("../meshes", "mesh-missing", "is a folder"),
        ("/dev/null", "mesh-missing", "is a pipe, a socket or a device"),
        ("..\\meshes\\Part.stl", "mesh-missing", "backslashes"),
        ("model://nobody/part.stl", "mesh-missing", "model 'nobody' was not found"),
        ("https://example.org/part.stl", "mesh-missing", "not fetched"),
        ("ftp://example.org/part.stl", "mesh-missing", "unknown scheme"),
        ("/no/such/part.stl", "mesh-missing", "no such file"),
        ("file:///no/such/part.stl", "mesh-missing", "no such file"),
        ("package:arm/meshes/Part.stl", "mesh-missing", "no such file"),
        ("package://", "mesh-missing", "without package and file"),
    ],
)
def test_mesh_path_that_does_not_resolve_is_found_with_the_reason(
    workspace: Path, filename: str, rule: str, says: str
) -> None:
    path = write(workspace, with_mesh(filename), "src/arm_description/urdf/robot.urdf")
    report = check_file(path)
    assert only(report)[0] == rule
    assert says in only(report)[1]
    assert report.findings[0].subject == "base"


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (b"", "a.stl", "empty"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "a.dae", "git lfs pull"),
        (TRIANGLE[:-7], "a.stl", "no STL"),
        (b"o thing\nf 1 2 3\n", "a.obj", "no vertex"),
        (b"solid x\nvertex 0 0 nan\n", "a.stl", "not finite"),
        (b"v 0 0 zero\n", "a.obj", "not three numbers"),
    ],
)
def test_mesh_file_that_holds_no_mesh_is_found(tmp_path: Path, content: bytes, name: str, says: str) -> None:
    write(tmp_path, content, name)
    report = check_file(write(tmp_path, with_mesh(name)))
    assert only(report)[0] == "mesh-unreadable"
    assert says in only(report)[1]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (TRIANGLE, "a.stl"),
        (b"solid x\n vertex 0 0 0\n vertex 80 0 30\n", "a.STL"),
        (b"v 0 0 0\nv 80 0 30\n", "a.obj"),
    ],
)
def test_mesh_in_millimetres_is_a_warning_unless_scaled(tmp_path: Path, content: bytes, name: str) -> None:
    write(tmp_path, content, name)
    rule, message = only(check_file(write(tmp_path, with_mesh(name))))
    assert (rule, "80 m large" in message) == ("mesh-size", True)
    assert found(check_file(write(tmp_path, with_mesh(name, "0.001 0.001 0.001")))) == []


def test_inertia_is_compared_with_the_size_of_a_mesh_that_is_there(tmp_path: Path) -> None:
    write(tmp_path, b"v 0 0 0\nv 0.1 0.1 0.1\n", "a.obj")
    text = with_mesh("a.obj").replace(
        "<visual>",
        '<inertial><origin xyz="0.05 0.05 0.05"/><mass value="1"/>'
        '<inertia ixx="{0}" ixy="0" ixz="0" iyy="{0}" iyz="0" izz="{0}"/></inertial><visual>',
    )
    assert found(check_file(write(tmp_path, text.format(1 / 600)))) == []
    assert found(check_file(write(tmp_path, text.format(1 / 6)))) == [("inertia-size", "error", "base")]


# --- command


def run(*arguments: str | Path) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    parsed = parser.parse_args(["urdf", "check", *map(str, arguments)])
    return int(parsed.run(parsed))


def test_exit_status_tells_clean_faults_and_not_checkable_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(ROVER) == 0
    assert run(SO101) == 1
    assert run(tmp_path / "none.urdf") == 2
    out = capsys.readouterr()
    assert "clean: 0 errors, 1 warning" in out.out
    assert "faults found: 18 errors, 0 warnings" in out.out
    assert "not checkable: 1 error, 0 warnings" in out.out
    assert out.err == ""


def test_table_names_every_finding_with_line_and_fix(capsys: pytest.CaptureFixture[str]) -> None:
    run(SO101)
    out = capsys.readouterr().out
    for finding in check_file(SO101).findings:
        assert finding.subject in out
        assert f"line {finding.line}" in out
        assert finding.fix in " ".join(out.split())


def test_json_holds_every_finding(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "report.json"
    assert run(LEKIWI, "--json", out) == 1
    document = json.loads(out.read_text(encoding="utf-8"))
    head = header("urdf check", 0)
    assert {name: document[name] for name in head} == head
    assert (document["status"], document["robot"]) == ("faults", "LeKiwi")
    assert (document["errors"], document["warnings"]) == (45, 98)
    assert len(document["findings"]) == 143
    assert set(document["findings"][0]) == {"rule", "severity", "kind", "subject", "line", "message", "fix"}


def test_json_is_written_for_files_that_cannot_be_checked_too(tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    assert run(write(tmp_path, b""), "--json", out) == 2
    assert json.loads(out.read_text(encoding="utf-8"))["status"] == "not_checkable"


def test_json_that_cannot_be_written_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=f"{tmp_path}: found a folder"):
        run(ROVER, "--json", tmp_path)


def test_package_path_may_be_given_more_than_once(workspace: Path) -> None:
    text = with_mesh("package://parts/meshes/part.stl", "1e-3 1e-3 1e-3")
    path = write(workspace, text)
    assert run(path) == 1
    assert run(path, "--package-path", workspace / "src", "--package-path", workspace / "elsewhere") == 0


def test_every_rule_is_described_in_the_documentation_and_no_other() -> None:
    table = (ROOT / "docs/urdf.md").read_text(encoding="utf-8").split("### What is looked for")[1]
    documented = [
        name
        for row in table.split("**Inertia against size.**")[0].splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([a-z-]+)`", row.split("|")[1])
    ]
    assert documented == [rule.value for rule in Rule]


# --- what a tester found


@pytest.mark.parametrize("expression", ["9**9**9", "str(1)*3000000000"])
def test_expression_that_grows_without_end_is_stopped(tmp_path: Path, expression: str) -> None:
    path = write(tmp_path, f'<robot {XMLNS} name="r"><link name="${{{expression}}}"/></robot>', "r.xacro")
    with pytest.raises(UnreadableError) as caught:
        expand_apart(path, cpu_s=2)
    assert caught.value.rule is Rule.XACRO_FAILED


def test_expansion_in_a_process_of_its_own_is_the_same_and_says_the_same(tmp_path: Path) -> None:
    assert expand_apart(ROVER) == expand_xacro(ROVER)
    path = write(tmp_path, f'<robot {XMLNS} name="r"><link name="${{nothing}}"/></robot>', "r.xacro")
    with pytest.raises(UnreadableError) as here:
        expand_xacro(path)
    with pytest.raises(UnreadableError, match=re.escape(str(here.value))):
        expand_apart(path)


def test_what_stands_twice_is_found(tmp_path: Path) -> None:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    joint = '<joint name="j" type="fixed"><parent link="a"/><parent link="b"/><child link="b"/></joint>'
    report = check_file(
        write(tmp_path, f'<robot name="r"><link name="a">{inertial * 2}</link><link name="b"/>{joint}</robot>')
    )
    assert found(report) == [("element-repeated", "error", "a"), ("element-repeated", "error", "j")]


@pytest.mark.parametrize("mass", ["1e300", "1e-320"])
def test_mass_that_no_robot_has_is_found(tmp_path: Path, mass: str) -> None:
    inertia = f'<inertia ixx="{mass}" iyy="{mass}" izz="{mass}" ixy="0" ixz="0" iyz="0"/>'
    link = f'<link name="a"><inertial><mass value="{mass}"/>{inertia}</inertial></link>'
    report = check_file(write(tmp_path, f'<robot name="r">{link}</robot>'))
    assert ("mass-size", "error", "a") in found(report)


def test_control_characters_of_a_name_are_written_out_in_the_table(tmp_path: Path) -> None:
    path = write(tmp_path, '<robot name="r"><link name="a"/><link name="b&#10;c"/><link name="d\u202ee"/></robot>')
    table = as_table(check_file(path))
    assert "b\\nc" in table and "d\\u202ee" in table
    assert "\u202e" not in table and "b\nc" not in table


@pytest.mark.parametrize(
    "start",
    ['\n<?xml version="1.0"?>', '<!-- first -->\n<?xml version="1.0"?>', "<?xml ?>", '  <?xml\nversion="1.0"?>'],
)
def test_declaration_alone_at_fault_is_an_error_and_the_robot_is_checked_all_the_same(
    tmp_path: Path, start: str
) -> None:
    links = '<link name="a"/>\n<link name="b"/>'
    report = check_file(write(tmp_path, f'{start}\n<robot name="r">\n{links}</robot>'))
    assert found(report) == [("xml-malformed", "error", "robot.urdf"), ("link-unconnected", "error", "b")]
    assert report.findings[1].line == start.count("\n") + 4
    assert report.links == 2


def test_what_is_malformed_elsewhere_stays_not_checkable(tmp_path: Path) -> None:
    report = check_file(write(tmp_path, '\n<?xml version="1.0"?><robot name="r"><link name="a"></robot>'))
    assert report.status is Status.NOT_CHECKABLE


@pytest.mark.parametrize(("version", "warned"), [("", True), ('version="1.0"', True), ('version="1.2"', False)])
def test_capsule_is_named_where_urdfdom_drops_it(tmp_path: Path, version: str, warned: bool) -> None:
    shape = '<collision><geometry><capsule radius="0.1" length="0.2"/></geometry></collision>'
    report = check_file(write(tmp_path, f'<robot name="r" {version}><link name="a">{shape}</link></robot>'))
    assert (("geometry-unknown", "warning", "a") in found(report)) is warned


def test_version_that_newer_readers_know_and_jazzy_refuses_is_a_warning(tmp_path: Path) -> None:
    report = check_file(write(tmp_path, '<robot name="r" version="1.1"><link name="a"/></robot>'))
    assert found(report) == [("urdf-version", "warning", "r")]
