"""The linter by mutation: a good robot has no fault; break one thing, and exactly that is found, by name."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.robot.check import check_robot
from tether.robot.raw import read_robot
from tether.robot.resources import ResourceFinder
from tether.robot.xmltree import parse_xml

Found = set[tuple[str, str, str]]
"""(rule, severity, subject) of each finding."""

LINKS = ("base", "upper", "lower", "left", "right")
MOVING = {"upper": "turn", "lower": "bend", "left": "left_slide", "right": "right_slide", "wheel": "spin"}
MIMIC = ("mimic-dropped", "warning", "right_slide")


def solid_box(mass: float, x: float, y: float, z: float) -> str:
    moments = {"ixx": y * y + z * z, "iyy": x * x + z * z, "izz": x * x + y * y}
    inertia = " ".join(f'{key}="{mass / 12 * value:.9g}"' for key, value in moments.items())
    shape = f'<origin xyz="0 0 {z / 2}"/><geometry><box size="{x} {y} {z}"/></geometry>'
    return (
        f'<inertial><origin xyz="0 0 {z / 2}"/><mass value="{mass}"/>'
        f'<inertia {inertia} ixy="0" ixz="0" iyz="0"/></inertial>'
        f"<visual>{shape}</visual><collision>{shape}</collision>"
    )


def joint(name: str, kind: str, parent: str, child: str, axis: str, limit: str, more: str = "") -> str:
    return (
        f'<joint name="{name}" type="{kind}"><origin xyz="0 0 0.2" rpy="0 0.1 0"/><parent link="{parent}"/>'
        f'<child link="{child}"/><axis xyz="{axis}"/><limit {limit}/>{more}</joint>'
    )


GOOD = f"""<robot name="good">
<link name="base">{solid_box(2.0, 0.2, 0.2, 0.1)}</link>
<link name="upper">{solid_box(0.4, 0.04, 0.05, 0.2)}</link>
<link name="lower">{solid_box(0.3, 0.03, 0.04, 0.2)}</link>
<link name="left">{solid_box(0.02, 0.01, 0.02, 0.05)}</link>
<link name="right">{solid_box(0.02, 0.01, 0.02, 0.05)}</link>
<link name="wheel">{solid_box(0.1, 0.06, 0.06, 0.02)}</link>
<link name="tool"/>
{joint("turn", "revolute", "base", "upper", "0 0 1", 'lower="-2" upper="2" effort="5" velocity="4"')}
{joint("bend", "revolute", "upper", "lower", "0 0.6 0.8", 'lower="-1" upper="1.5" effort="5" velocity="4"')}
{
    joint(
        "left_slide",
        "prismatic",
        "lower",
        "left",
        "0 1 0",
        'lower="0" upper="0.03" effort="9" velocity="0.1"',
    )
}
{
    joint(
        "right_slide",
        "prismatic",
        "lower",
        "right",
        "0 -1 0",
        'lower="0" upper="0.03" effort="9" velocity="0.1"',
        '<mimic joint="left_slide"/>',
    )
}
{joint("spin", "continuous", "base", "wheel", "0 1 0", 'effort="2" velocity="9"')}
<joint name="tool_joint" type="fixed"><parent link="lower"/><child link="tool"/></joint>
</robot>"""


def lint(root: ET.Element, folder: Path = Path("/nowhere")) -> Found:
    tree = parse_xml(ET.tostring(root, encoding="unicode"))
    findings = check_robot(read_robot(tree), tree, ResourceFinder(folder))
    found = [(finding.rule, finding.severity.value, finding.subject) for finding in findings]
    assert len(found) == len(set(found)), f"reported twice: {found}"
    assert all(finding.message and finding.fix for finding in findings)
    return set(found)


def good() -> ET.Element:
    return ET.fromstring(GOOD)


def at(root: ET.Element, path: str) -> ET.Element:
    element = root.find(path)
    assert element is not None, path
    return element


def scale_inertia(root: ET.Element, link: str, factor: float) -> None:
    inertia = at(root, f"link[@name='{link}']/inertial/inertia")
    for key, value in inertia.attrib.items():
        inertia.set(key, repr(float(value) * factor))


def test_good_robot_has_no_finding_but_the_word_on_mimic() -> None:
    assert lint(good()) == {MIMIC}


@given(st.sampled_from(LINKS), st.floats(30.0, 1e6))
def test_inertia_too_large_for_mass_and_shape_is_found_on_that_link(link: str, factor: float) -> None:
    root = good()
    scale_inertia(root, link, factor)
    assert lint(root) == {MIMIC, ("inertia-size", "error", link)}


@given(st.sampled_from(LINKS), st.floats(1e-6, 1e-2))
def test_inertia_of_a_point_is_found_on_that_link(link: str, factor: float) -> None:
    root = good()
    scale_inertia(root, link, factor)
    assert lint(root) == {MIMIC, ("inertia-size", "warning", link)}


@given(st.sampled_from(LINKS), st.sampled_from(["ixx", "iyy", "izz"]), st.floats(1.001, 1.5))
def test_broken_triangle_inequality_is_found_on_that_link(link: str, key: str, beyond: float) -> None:
    root = good()
    inertia = at(root, f"link[@name='{link}']/inertial/inertia")
    others = sum(float(inertia.attrib[other]) for other in ("ixx", "iyy", "izz") if other != key)
    inertia.set(key, repr(beyond * others))
    assert lint(root) == {MIMIC, ("inertia-triangle", "error", link)}


@given(st.sampled_from(LINKS), st.sampled_from(["ixy", "ixz", "iyz"]), st.sampled_from([-1.0, 1.0]))
def test_inertia_that_is_not_positive_definite_is_found(link: str, key: str, sign: float) -> None:
    root = good()
    inertia = at(root, f"link[@name='{link}']/inertial/inertia")
    inertia.set(key, repr(sign * 2.0 * max(float(value) for value in inertia.attrib.values())))
    assert lint(root) == {MIMIC, ("inertia-not-positive", "error", link)}


@given(st.sampled_from(LINKS))
def test_zero_inertia_is_found(link: str) -> None:
    root = good()
    scale_inertia(root, link, 0.0)
    assert lint(root) == {MIMIC, ("inertia-zero", "error", link)}


@pytest.mark.parametrize("mass", ["-1", "0", "1", "heavy", None])
@pytest.mark.parametrize(
    ("inertia", "fault"),
    [
        ({"ixx": "1", "iyy": "0.1", "izz": "0.1"}, "inertia-triangle"),
        ({"ixx": "-1", "iyy": "0.1", "izz": "0.1"}, "inertia-not-positive"),
    ],
)
def test_fault_of_the_mass_hides_none_of_the_inertia(mass: str | None, inertia: dict[str, str], fault: str) -> None:
    root = good()
    inertial = at(root, "link[@name='upper']/inertial")
    at(inertial, "inertia").attrib.update(inertia)
    if mass is None:
        inertial.remove(at(inertial, "mass"))
    else:
        at(inertial, "mass").set("value", mass)
    of_mass = {"-1": "mass-negative", "0": "mass-zero", "heavy": "number-unreadable", None: "inertial-incomplete"}
    said = {("error", of_mass[mass])} if mass in of_mass else set()
    assert {(severity, rule) for rule, severity, subject in lint(root) if subject == "upper"} == said | {
        ("error", fault)
    }


def test_negative_mass_hides_no_zero_inertia() -> None:
    root = good()
    at(root, "link[@name='upper']/inertial/mass").set("value", "-1")
    scale_inertia(root, "upper", 0.0)
    assert lint(root) == {MIMIC, ("mass-negative", "error", "upper"), ("inertia-zero", "error", "upper")}


def test_frame_of_no_mass_may_have_no_inertia() -> None:
    root = good()
    at(root, "link[@name='base']/inertial/mass").set("value", "0")
    scale_inertia(root, "base", 0.0)
    assert lint(root) == {MIMIC, ("mass-zero", "warning", "base")}


def test_unreadable_inertia_hides_no_density() -> None:
    root = good()
    at(root, "link[@name='base']/inertial/inertia").set("ixx", "large")
    at(root, "link[@name='base']/inertial/mass").set("value", "9e5")
    assert lint(root) == {MIMIC, ("number-unreadable", "error", "base"), ("mass-size", "warning", "base")}


def test_inverted_range_hides_no_degrees() -> None:
    root = good()
    at(root, "joint[@name='turn']/limit").attrib.update(lower="180", upper="-180")
    both = {("limit-range", "error", "turn"), ("limit-range", "warning", "turn")}
    assert lint(root) == {MIMIC, *both}


@pytest.mark.parametrize("source", ["nobody", None])
def test_mimic_of_nothing_hides_no_multiplier_of_zero(source: str | None) -> None:
    root = good()
    mimic = at(root, "joint[@name='right_slide']/mimic")
    mimic.attrib.clear()
    mimic.set("multiplier", "0")
    if source is not None:
        mimic.set("joint", source)
    first = "attribute-missing" if source is None else "mimic-source"
    assert lint(root) == {(first, "error", "right_slide"), ("mimic-still", "warning", "right_slide")}


@given(st.sampled_from(LINKS))
def test_inertia_rotated_out_of_its_axes_stays_without_finding(link: str) -> None:
    root = good()
    at(root, f"link[@name='{link}']/inertial/origin").set("rpy", "0.3 -1.2 2.5")
    assert lint(root) == {MIMIC}


@given(st.sampled_from(sorted(MOVING)))
def test_moving_link_without_inertial_or_mass_is_found(link: str) -> None:
    root = good()
    element = at(root, f"link[@name='{link}']")
    element.remove(at(element, "inertial"))
    assert lint(root) == {MIMIC, ("inertial-missing", "error", link)}
    root = good()
    at(root, f"link[@name='{link}']/inertial/mass").set("value", "0")
    assert lint(root) == {MIMIC, ("mass-zero", "error", link)}
    at(root, f"link[@name='{link}']/inertial/mass").set("value", "-0.5")
    assert lint(root) == {MIMIC, ("mass-negative", "error", link)}


def test_moving_link_whose_mass_is_in_a_fixed_child_is_a_warning() -> None:
    root = good()
    lower, tool = at(root, "link[@name='lower']"), at(root, "link[@name='tool']")
    inertial = at(lower, "inertial")
    lower.remove(inertial)
    tool.append(inertial)
    assert lint(root) == {MIMIC, ("inertial-missing", "warning", "lower")}


@given(st.sampled_from(sorted(MOVING)), st.sampled_from(["effort", "velocity"]), st.data())
def test_limits_missing_zero_or_negative_are_found_on_that_joint(link: str, key: str, data: st.DataObject) -> None:
    name = MOVING[link]
    root = good()
    limit = at(root, f"joint[@name='{name}']/limit")
    limit.set(key, repr(data.draw(st.sampled_from([0.0, -1.0, -1e-3]))))
    assert lint(root) == {MIMIC, (f"limit-{key}", "error", name)}
    del limit.attrib[key]
    assert lint(root) == {MIMIC, ("limit-missing", "error", name)}
    element = at(root, f"joint[@name='{name}']")
    element.remove(limit)
    severity = "warning" if name == "spin" else "error"
    assert lint(root) == {MIMIC, ("limit-missing", severity, name)}


@given(st.sampled_from(["turn", "bend", "left_slide", "right_slide"]), st.floats(-5, 5), st.floats(0, 5))
def test_empty_or_inverted_range_is_found_on_that_joint(name: str, upper: float, gap: float) -> None:
    root = good()
    limit = at(root, f"joint[@name='{name}']/limit")
    limit.set("upper", repr(upper))
    limit.set("lower", repr(upper + gap))
    assert lint(root) == {MIMIC, ("limit-range", "error", name)}


@given(st.sampled_from(["lower", "upper"]))
def test_continuous_joint_with_position_limits_is_a_warning(key: str) -> None:
    root = good()
    at(root, "joint[@name='spin']/limit").set(key, "1")
    assert lint(root) == {MIMIC, ("limit-on-continuous", "warning", "spin")}


@given(st.sampled_from(sorted(MOVING.values())))
def test_axis_of_zero_or_other_length_is_found_on_that_joint(name: str) -> None:
    root = good()
    axis = at(root, f"joint[@name='{name}']/axis")
    axis.set("xyz", "0 0 0")
    assert lint(root) == {MIMIC, ("axis-zero", "error", name)}
    axis.set("xyz", "0 1 1")
    assert lint(root) == {MIMIC, ("axis-not-unit", "warning", name)}


@pytest.mark.parametrize("source", ["nobody", "right_slide", "tool_joint"])
def test_mimic_of_nothing_itself_or_a_fixed_joint_is_found(source: str) -> None:
    root = good()
    at(root, "joint[@name='right_slide']/mimic").set("joint", source)
    assert lint(root) == {("mimic-source", "error", "right_slide")}


def test_mimic_of_a_mimic_is_found_on_the_second() -> None:
    root = good()
    ET.SubElement(at(root, "joint[@name='turn']"), "mimic", joint="right_slide")
    assert lint(root) == {MIMIC, ("mimic-source", "error", "turn")}


NUMBERS = [
    ("link[@name='{link}']/inertial/mass", "value"),
    ("link[@name='{link}']/inertial/inertia", "iyy"),
    ("link[@name='{link}']/inertial/origin", "xyz"),
    ("link[@name='{link}']/collision/origin", "xyz"),
    ("link[@name='{link}']/visual/geometry/box", "size"),
    ("joint[@name='{joint}']/origin", "rpy"),
    ("joint[@name='{joint}']/axis", "xyz"),
    ("joint[@name='{joint}']/limit", "effort"),
    ("joint[@name='{joint}']/limit", "velocity"),
]


WRONG = [
    ("nan", "number-not-finite"),
    ("-inf", "number-not-finite"),
    ("1e999", "number-not-finite"),
    ("zero", "number-unreadable"),
    ("0,5", "number-unreadable"),
    ("1_0", "number-unreadable"),
    ("0x1", "number-unreadable"),
    ("1\u00a00", "number-unreadable"),
    ("١", "number-unreadable"),
    ("", "number-count"),
]


@settings(max_examples=150)
@given(
    st.sampled_from(sorted(MOVING)),
    st.sampled_from(NUMBERS),
    st.sampled_from(WRONG),
    st.data(),
)
def test_number_that_is_none_is_found_on_its_owner_and_nothing_else_is_said(
    link: str, place: tuple[str, str], wrong: tuple[str, str], data: st.DataObject
) -> None:
    path, key = place
    root = good()
    element = at(root, path.format(link=link, joint=MOVING[link]))
    words = element.attrib[key].split()
    words[data.draw(st.integers(0, len(words) - 1))] = wrong[0]
    element.set(key, " ".join(words))
    owner = link if path.startswith("link") else MOVING[link]
    assert lint(root) == {MIMIC, (wrong[1], "error", owner)}


@pytest.mark.parametrize("link", ["upper", "lower", "left", "wheel"])
def test_joint_to_a_missing_link_is_found_and_so_is_the_part_that_hangs_nowhere(link: str) -> None:
    root = good()
    at(root, f"joint[@name='{MOVING[link]}']/child").set("link", "nobody")
    loose = "root-several" if link in ("upper", "lower") else "link-unconnected"
    assert lint(root) == {MIMIC, ("link-missing", "error", MOVING[link]), (loose, "error", link)}


@pytest.mark.parametrize("name", [*LINKS, "wheel"])
def test_second_link_of_a_name_is_found(name: str) -> None:
    root = good()
    root.append(ET.fromstring(f'<link name="{name}"/>'))
    assert lint(root) == {MIMIC, ("name-duplicate", "error", name)}


@pytest.mark.parametrize("name", ["turn", "bend", "left_slide", "spin"])
def test_second_joint_of_a_name_is_found(name: str) -> None:
    root = good()
    ET.SubElement(root, "link", name="more")
    root.append(ET.fromstring(f'<joint name="{name}" type="fixed"><parent link="base"/><child link="more"/></joint>'))
    assert lint(root) == {MIMIC, ("name-duplicate", "error", name)}


def test_ring_of_joints_is_found_once_and_its_root_is_named() -> None:
    root = good()
    root.append(ET.fromstring(joint("back", "fixed", "lower", "base", "0 0 1", 'effort="1" velocity="1"')))
    assert lint(root) == {MIMIC, ("link-cycle", "error", "base")}


def test_link_with_two_parents_is_found() -> None:
    root = good()
    root.append(ET.fromstring(joint("second", "fixed", "base", "tool", "0 0 1", 'effort="1" velocity="1"')))
    assert lint(root) == {MIMIC, ("link-parents", "error", "tool")}


def test_unconnected_link_is_found() -> None:
    root = good()
    ET.SubElement(root, "link", name="alone")
    assert lint(root) == {MIMIC, ("link-unconnected", "error", "alone")}


def rename(root: ET.Element, old: str, new: str) -> None:
    for element in root.iter():
        for key, value in element.attrib.items():
            if value == old:
                element.set(key, new)


@given(
    st.sampled_from([*LINKS, "turn", "bend", "left_slide"]),
    st.sampled_from([("{}-1", "warning"), ("{} two", "warning"), ("1{}", "warning"), ("{}é", "warning"),
                     ("a.{}", "warning"), ("/{}", "error"), (" {}", "error")]),
)  # fmt: skip
def test_name_that_ros_takes_badly_is_found(name: str, change: tuple[str, str]) -> None:
    root = good()
    new = change[0].format(name)
    rename(root, name, new)
    assert lint(root) == {MIMIC, ("name-characters", change[1], new)}


def box(root: ET.Element, use: str) -> ET.Element:
    return at(root, f"link/{use}/geometry/box")


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda root: root.attrib.pop("name"), ("name-missing", "error", "robot")),
        (lambda root: at(root, "joint").set("type", "hinge"), ("joint-type", "error", "turn")),
        (lambda root: at(root, "joint").attrib.pop("type"), ("joint-type", "error", "turn")),
        (lambda root: box(root, "collision").set("size", "1 0 1"), ("geometry-size", "error", "base")),
        (lambda root: at(root, "link/visual/geometry").clear(), ("geometry-missing", "error", "base")),
        (lambda root: setattr(box(root, "visual"), "tag", "cube"), ("geometry-unknown", "error", "base")),
        (lambda root: at(root, "link/inertial").remove(at(root, "link/inertial/inertia")),
         ("inertial-incomplete", "error", "base")),
        (lambda root: at(root, "link//inertia").attrib.pop("ixy"), ("attribute-missing", "error", "base")),
        (lambda root: at(root, "link/inertial/mass").set("value", "2e5"), ("mass-size", "warning", "base")),
        (lambda root: at(root, "joint[@name='right_slide']/mimic").set("multiplier", "0"),
         ("mimic-still", "warning", "right_slide")),
        (lambda root: at(root, "joint/limit").set("upper", "170"), ("limit-range", "warning", "turn")),
    ],
)  # fmt: skip
def test_one_fault_gives_one_finding(edit: Callable[[ET.Element], object], expected: tuple[str, str, str]) -> None:
    root = good()
    edit(root)
    found = lint(root) - {MIMIC}
    if expected[0] == "mass-size":  # the inertia then is that of a point, too
        found -= {("inertia-size", "warning", "base")}
    if expected[0] == "geometry-size":
        found -= {("mass-size", "warning", "base")}
    assert found == {expected}


def test_missing_colours_and_materials_are_no_fault() -> None:
    root = good()
    ET.SubElement(at(root, "link/visual"), "material", name="never_defined")
    assert lint(root) == {MIMIC}


@given(st.lists(st.sampled_from(["axis", "limit", "mass", "ring", "name"]), min_size=2, unique=True))
def test_faults_are_reported_all_together(which: list[str]) -> None:
    root = good()
    faults: dict[str, tuple[Callable[[], object], tuple[str, str, str]]] = {
        "axis": (lambda: at(root, "joint/axis").set("xyz", "0 0 0"), ("axis-zero", "error", "turn")),
        "limit": (lambda: at(root, "joint/limit").set("effort", "0"), ("limit-effort", "error", "turn")),
        "mass": (
            lambda: at(root, "link[5]/inertial/mass").set("value", "0"),
            ("mass-zero", "error", "right"),
        ),
        "ring": (lambda: ET.SubElement(root, "link", name="one"), ("link-unconnected", "error", "one")),
        "name": (lambda: rename(root, "wheel", "my-wheel"), ("name-characters", "warning", "my-wheel")),
    }
    for name in which:
        faults[name][0]()
    assert lint(root) == {MIMIC} | {faults[name][1] for name in which}


@pytest.mark.parametrize(
    ("path", "child", "expected"),
    [
        ("joint[@name='bend']", "<dynamics/>", ("dynamics-empty", "error", "bend")),
        ("joint[@name='bend']", '<dynamics damping="-1"/>', ("dynamics-negative", "error", "bend")),
        (
            "joint[@name='bend']",
            '<safety_controller k_position="1"/>',
            ("safety-incomplete", "error", "bend"),
        ),
        (
            ".",
            '<transmission name="t"><joint name="no"/></transmission>',
            ("reference-unknown", "warning", "no"),
        ),
        (
            ".",
            '<ros2_control name="c"><joint name="no"/></ros2_control>',
            ("reference-unknown", "error", "no"),
        ),
        (".", '<gazebo reference="no"/>', ("reference-unknown", "warning", "no")),
    ],
)
def test_what_stands_beside_links_and_joints_is_checked_too(
    path: str, child: str, expected: tuple[str, str, str]
) -> None:
    root = good()
    at(root, path).append(ET.fromstring(child))
    assert lint(root) == {MIMIC, expected}


def test_version_and_materials_that_urdfdom_refuses_are_found() -> None:
    root = good()
    root.set("version", "2.0")
    for _ in range(2):
        root.append(ET.fromstring('<material name="red"><color rgba="1 0 0 1"/></material>'))
    assert lint(root) == {MIMIC, ("urdf-version", "error", "good"), ("material-duplicate", "error", "good")}


@pytest.mark.parametrize(
    ("path", "tag", "expected"),
    [
        ("link[@name='base']/collision", "colision", {("element-misspelt", "warning", "base")}),
        ("joint[@name='tool_joint']/parent", "Parent", {("element-misspelt", "warning", "tool_joint")}),
        ("joint[@name='turn']/limit", "limits", {("element-misspelt", "warning", "turn")}),
        ("link[@name='upper']/inertial", "inertail", {("element-misspelt", "warning", "upper")}),
        ("link[@name='tool']", "Link", {("element-misspelt", "warning", "good")}),
    ],
)
def test_misspelt_tag_is_found_beside_what_is_missing_for_it(path: str, tag: str, expected: Found) -> None:
    root = good()
    at(root, path).tag = tag
    found = lint(root)
    assert expected <= found
    assert {rule for rule, _, _ in found - expected - {MIMIC}} <= {
        "joint-unlinked",
        "limit-missing",
        "inertial-missing",
        "link-missing",
        "root-several",
        "link-unconnected",
    }


def test_tags_of_extensions_are_left_alone() -> None:
    root = good()
    for tag in ("contact", "sensor", "drake:joint", "mujoco", "self_collision_checking", "audio_source"):
        ET.SubElement(root, tag.replace(":", "_"))
        ET.SubElement(at(root, "link"), tag.replace(":", "_"))
    assert lint(root) == {MIMIC}


def test_mimic_of_a_joint_that_does_not_move_means_nothing_and_is_not_judged() -> None:
    root = good()
    ET.SubElement(at(root, "joint[@name='tool_joint']"), "mimic", joint="nobody")
    assert lint(root) == {MIMIC}
