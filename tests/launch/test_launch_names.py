"""Names and parameter files in a launch file: refused with its line where rcl would refuse them in the node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.launch import LaunchFileError, read

A_254 = "/" + "a" * 254
NODE_NAMES = ["a", "_a", "a_", "A1", "_", "1a", "a__b", "__a", "a b", "a-b", "ä", "a/b"]
NAMESPACES = ["/a", "/", "/a/b_1", "/1x//y", "//", "/a//b", "/1x", "/a/1", "/__a", "/a__b", "/a b", "/~", "/{a}", "/*"]
TOPICS = [
    *("a", "/a", "~/a", "a/b", "/a/b/c", "a_1", "_a", "1a", "/1a", "a b", "c//d", "//a", "a/", "/", "~", "~a", "a~"),
    *("a__b", "/__a", "__node", "__ns", "", "*", "/**", "a-b", "a.b", "{node}", "ä", "a:b:c", "/n:a"),
]
SOURCES = ["n:a", "n:/a", "n:~/a", "rostopic://a", "rosservice:///a", "n:rostopic:///a", "action://a", "rostopic://n:a"]
FILES = {
    "/**: {ros__parameters: {a: 1, b: [1, 2], c: {d: text}}}": True,
    "ns: {n: {ros__parameters: {a: null}}}\n/x/y: {ros__parameters: {}}": True,
    "/*/n: {ros__parameters: {a: &x 1}}": True,
    "# nothing": True,
    "{}": True,
    "a: [1": False,
    "- 1": False,
    "a:": False,
    "n: {x: 1}": False,
    "n: {ros__parameters: {a: 1}}\nm: {x: 1}": False,
    "n: {ros__parameters: {a: 1}, other: 2}": False,
    "n: {ros__parameters: 5}": False,
    "n: {ros__parameters: [1]}": False,
    "n: {ros__parameters: }": False,
    "n: {ros__parameters: {'': 1}}": False,
    "ros__parameters: {a: 1}": False,
    "? [a]\n: 1": False,
    "a b: {ros__parameters: {a: 1}}": False,
    "/a//b: {ros__parameters: {a: 1}}": False,
    "a: &x {ros__parameters: {a: 1}}\nb: *x": False,
    "/**: {ros__parameters: {a: 1}}\n---\nb: 1": False,
}


def refusal_of(prefix, attributes: str = "", children: str = "") -> str | None:
    """What is said of a node with these, None where it is taken."""
    prefix.add("pkg", "node")
    file = prefix.launch_file(f'<node pkg="pkg" exec="node" {attributes}>{children}</node>')
    try:
        read(file, {}, prefix.env)
    except LaunchFileError as error:
        (fault,) = error.faults
        assert (fault.file, fault.line) == (str(file), 2)
        return fault.message
    return None


def rcl_takes(*arguments: str) -> bool:
    rclpy = pytest.importorskip("rclpy")
    context = rclpy.context.Context()
    try:
        rclpy.init(args=["--ros-args", *arguments], context=context)
    except RuntimeError:  # the RCLError of rclpy is one
        return False
    context.shutdown()
    return True


@pytest.mark.parametrize("name", NODE_NAMES)
def test_node_names_are_those_that_rcl_takes(prefix, name: str):
    refusal = refusal_of(prefix, f'name="{name}"')
    assert (refusal is None) is rcl_takes("-r", f"__node:={name}")
    assert refusal is None or f"'{name}'" in refusal


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_namespaces_are_those_that_rcl_takes(prefix, namespace: str):
    refusal = refusal_of(prefix, f'namespace="{namespace}"')
    assert (refusal is None) is rcl_takes("-r", f"__ns:={namespace}")
    assert refusal is None or f"'{namespace}'" in refusal


@pytest.mark.parametrize("name", [*TOPICS, *SOURCES])
def test_remaps_are_from_names_that_rcl_takes(prefix, name: str):
    refusal = refusal_of(prefix, children=f'<remap from="{name}" to="ok"/>')
    if name == "__node":  # rcl would give the node another name than its `name` says
        assert refusal is not None
    else:
        assert (refusal is None) is rcl_takes("-r", f"{name}:=ok")
    assert refusal is None or f"remap from '{name}'" in refusal


@pytest.mark.parametrize("name", [*TOPICS, *SOURCES])
def test_remaps_are_to_names_that_rcl_takes(prefix, name: str):
    refusal = refusal_of(prefix, children=f'<remap from="ok" to="{name}"/>')
    assert (refusal is None) is rcl_takes("-r", f"ok:={name}")
    assert refusal is None or f"remap to '{name}'" in refusal


@pytest.mark.parametrize(
    ("attributes", "children", "limit"),
    [
        (f'name="{A_254[1:]}aa"', "", 255),
        (f'namespace="{A_254}"', "", 245),
        ("", f'<remap from="a" to="{A_254}"/>', 247),
        ("", f'<remap from="{A_254}" to="a"/>', 247),
    ],
)
def test_names_longer_than_rmw_takes_are_refused(prefix, attributes: str, children: str, limit: int):
    assert f"ROS takes up to {limit}" in str(refusal_of(prefix, attributes, children))


@pytest.mark.parametrize("name", ["a b", "", "a&#9;b", " a"])
def test_names_of_parameters_have_no_space(prefix, name: str):
    assert "parameter name" in str(refusal_of(prefix, children=f'<param name="{name}" value="1"/>'))


@pytest.mark.parametrize(("text", "is_taken"), FILES.items())
def test_parameter_files_are_those_that_rcl_takes(prefix, tmp_path: Path, text: str, is_taken: bool):
    path = tmp_path / "parameters.yaml"
    path.write_text(text)
    refusal = refusal_of(prefix, children=f'<param from="{path}"/>')
    assert (refusal is None) is is_taken, refusal
    assert rcl_takes("--params-file", str(path)) is is_taken
    assert refusal is None or f"parameter file '{path}', line " in refusal


def test_a_parameter_file_that_is_no_text_is_refused(prefix, tmp_path: Path):
    path = tmp_path / "parameters.yaml"
    path.write_bytes(b'/**: {ros__parameters: {a: "\xff"}}')
    assert "not YAML" in str(refusal_of(prefix, children=f'<param from="{path}"/>'))


def test_all_such_faults_are_reported_together_with_their_lines(prefix, tmp_path: Path):
    prefix.add("pkg", "node")
    path = tmp_path / "parameters.yaml"
    path.write_text("n: {x: 1}")
    file = prefix.launch_file(
        f'<node pkg="pkg" exec="node" name="a b" namespace="1x//y">\n<remap from="a b" to="c//d"/>\n'
        f'<param name="a b" value="1"/>\n<param from="{path}"/>\n</node>'
    )
    with pytest.raises(LaunchFileError) as caught:
        read(file, {}, prefix.env)
    said = [(fault.line, fault.message.split("'")[0]) for fault in caught.value.faults]
    assert said == [
        (2, "node name "),
        (2, "namespace "),
        (3, "remap from "),
        (4, "parameter name "),
        (5, "parameter file "),
    ]
    assert "'a b' and remap to 'c//d'" in caught.value.faults[2].message
