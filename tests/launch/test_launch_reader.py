"""The strict reader: what a launch file comes to, and which faults are named with their line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launch_reading import faults_of, plan_of

from tether.launch import LaunchFileError, parse_arguments, read
from tether.launch.model import Output, ParameterFile, ParameterValue
from tether.launch.reader import read_arguments


def test_command_line_has_launch_ros_order(prefix, tmp_path: Path):
    (tmp_path / "p.yaml").write_text("/**: {ros__parameters: {a: 1}}")
    plan = plan_of(
        prefix,
        """
        <node pkg="pkg" exec="node" name="n" namespace="ns" args="--one two" output="both">
          <param from="$(dirname)/p.yaml"/>
          <param name="rate" value="20.0"/>
          <remap from="a" to="/b"/>
        </node>
        """,
    )
    (process,) = plan.processes
    assert process.command([Path("/1"), Path("/2")]) == [
        str(tmp_path / "lib/pkg/node"),
        *("--one", "two", "--ros-args", "-r", "__node:=n", "-r", "__ns:=/ns"),
        *("--params-file", "/1", "--params-file", "/2", "-r", "a:=/b"),
    ]
    assert process.parameters == (ParameterFile(tmp_path / "p.yaml"), ParameterValue("rate", 20.0))
    assert process.parameter_document(ParameterValue("rate", 20.0)) == ("/ns/n:\n  ros__parameters:\n    rate: 20.0\n")
    assert process.output is Output.BOTH


def test_parameter_without_namespace_addresses_every_node(prefix):
    (process,) = plan_of(prefix, '<node pkg="pkg" exec="node" name="n"/>').processes
    assert process.parameter_document(ParameterValue("a", [1])).startswith("/**:\n")


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("1", None, 1),
        ("1.0", None, 1.0),
        ("true", None, True),
        ("word", None, "word"),
        ("'1'", None, "1"),
        ("", None, ""),
        ("[a, b]", None, ["a", "b"]),
        ("$(var x)", None, 5),
        ("a$(var x)", None, "a5"),
        ("$(var list)", None, ["camera", "imu"]),
        ("$(var x)", "str", "5"),
        ("$(var x)", "float", 5.0),
        ("1", "bool", True),
        ("1e3", None, "1e3"),  # YAML 1.1, and so launch, wants 1.0e+3
    ],
)
def test_parameter_types_are_those_of_launch(prefix, text, kind, expected):
    type_attribute = f'type="{kind}"' if kind else ""
    plan = plan_of(
        prefix,
        f"""
        <arg name="x" default="5"/>
        <let name="list" value="[camera, imu]"/>
        <node pkg="pkg" exec="node"><param name="p" value="{text}" {type_attribute}/></node>
        """,
    )
    value = plan.processes[0].parameters[0].value
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize("text", ["[]", "[1, a]", "[1, true]", "{a: 1}", "null", "2026-01-01", "['$(var x)']"])
def test_value_that_is_no_parameter_is_refused(prefix, text):
    body = f'<arg name="x" default="5"/>\n<node pkg="pkg" exec="node">\n<param name="p" value="{text}"/></node>'
    ((line, message),) = faults_of(prefix, body)
    assert line == 4
    assert "parameter 'p'" in message


def test_arguments_defaults_choices_and_conditions(prefix):
    body = """
    <arg name="world" default="mujoco"><choice value="mujoco"/><choice value="isaac"/></arg>
    <arg name="record" default="true"/>
    <let name="own" value="$(equals $(var world) mujoco)"/>
    <node pkg="pkg" exec="node" name="world" if="$(var own)"/>
    <node pkg="pkg" exec="node" name="recorder" unless="$(not $(var record))"/>
    <node pkg="pkg" exec="node" name="both" if="$(and $(var own) $(var record))"/>
    """
    assert [p.label for p in plan_of(prefix, body).processes] == ["world", "recorder", "both"]
    assert [p.label for p in plan_of(prefix, body, world="isaac").processes] == ["recorder"]
    assert [p.label for p in plan_of(prefix, body, record="False").processes] == ["world"]
    (fault,) = faults_of(prefix, body, world="gazebo")
    assert fault == (2, "argument 'world' is 'gazebo'; expected one of mujoco, isaac")


def test_group_puts_variables_and_environment_back(prefix):
    plan = plan_of(
        prefix,
        """
        <let name="a" value="outer"/>
        <group>
          <let name="a" value="inner"/>
          <set_env name="E" value="$(var a)"/>
          <node pkg="pkg" exec="node" name="inner" args="$(var a) $(env E)"><env name="F" value="1"/></node>
        </group>
        <node pkg="pkg" exec="node" name="outer" args="$(var a) $(env E none)"/>
        """,
    )
    inner, outer = plan.processes
    assert (inner.arguments, dict(inner.env)) == (("inner", "inner"), {"E": "inner", "F": "1"})
    assert (outer.arguments, dict(outer.env)) == (("outer", "none"), {})


def test_include_shares_variables_and_takes_arguments(prefix):
    prefix.launch_file(
        """
        <arg name="given"/>
        <arg name="seen" default="own"/>
        <let name="left" value="behind"/>
        <node pkg="pkg" exec="node" name="n" args="$(var given) $(var seen)"/>
        """,
        "inner.launch.xml",
    )
    plan = plan_of(
        prefix,
        """
        <let name="seen" value="outer"/>
        <include file="$(dirname)/inner.launch.xml"><arg name="given" value="x y"/></include>
        <node pkg="pkg" exec="node" name="m" args="$(var left)"/>
        """,
    )
    assert [process.arguments for process in plan.processes] == [("x y", "outer"), ("behind",)]


def test_include_faults_name_the_line(prefix):
    prefix.launch_file('<arg name="given"/>', "inner.launch.xml")
    inner = '<include file="$(dirname)/inner.launch.xml">'
    assert faults_of(prefix, f'<let name="given" value="1"/>\n{inner}</include>')[0][1].startswith(
        "argument 'given' (no description) must be given"
    )
    body = f'{inner}\n<arg name="given" value="1"/>\n<arg name="other" value="1"/></include>'
    ((line, message),) = faults_of(prefix, body)
    assert line == 4
    assert "declares no argument 'other'" in message
    body = f'{inner}<arg name="given" value="1"/></include>\n<let name="a" value="$(dirname)"/>'
    assert "$(dirname) after an <include>" in faults_of(prefix, body)[0][1]
    ((line, message),) = faults_of(prefix, '\n<include file="/none.launch.xml"/>')
    assert "does not exist" in message


def test_file_that_includes_itself_is_refused(prefix):
    assert "includes are nested" in faults_of(prefix, '<include file="$(dirname)/test.launch.xml"/>')[0][1]


def test_all_schema_faults_are_reported_together_with_their_lines(prefix):
    body = """
    <lifecycle_node pkg="pkg" exec="node" name="n"/>
    <node pkg="pkg" respawn="true"/>
    <arg name="a" defualt="1"/>
    <node pkg="pkg" exec="node" if="1" unless="0"><param name="x"/><parm name="x" value="1"/></node>
    <group><choice value="1"/></group>
    """
    faults = faults_of(prefix, body)
    assert [line for line, _ in faults] == [2, 3, 3, 4, 5, 5, 5, 6]
    text = "\n".join(message for _, message in faults)
    for part in (
        "<lifecycle_node>",
        "'respawn'",
        "'exec'",
        "'defualt'",
        "both 'if' and 'unless'",
        "<parm>",
        "<choice>",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("$(eval 1+1)", "'$(eval …)' is not supported"),
        ("$(command ls)", "'$(command …)' is not supported"),
        ("$(var)", "takes 1 arguments, got 0"),
        ("$(var a", "expected one space and an argument"),
        ("$(var  a)", "an argument is missing"),
        ("$( var a)", "name must follow"),
        ("$(var nothing)", "no such argument or variable"),
        ("$(env TETHER_TEST_UNSET)", "the environment has no TETHER_TEST_UNSET"),
        ("$(find-pkg-share no_such_package)", "package 'no_such_package' not found"),
        ("a\\\\b", "backslash"),
        ("$(equals '' $(env TETHER_TEST_UNSET ''))", "never true"),
        ("$(not maybe)", "not a truth value"),
    ],
)
def test_bad_substitution_is_named_with_its_line(prefix, value, part):
    ((line, message),) = faults_of(prefix, f'\n\n<let name="ok" value="1"/>\n<let name="x" value="{value}"/>')
    assert line == 3
    assert part in message


def test_missing_packages_and_executables_are_reported_together(prefix):
    body = """
    <node pkg="tether_absent" exec="driver" name="driver"/>
    <node pkg="pkg" exec="nod" name="a"/>
    <node pkg="pkg" exec="node" name="b"><param from="/none.yaml"/></node>
    <node pkg="pkg" exec="node" name="c"/>
    <node pkg="pkg" exec="node" name="c"/>
    """
    faults = faults_of(prefix, body)
    assert [line for line, _ in faults] == [2, 3, 4, 6]
    assert "package 'tether_absent' not found; searched" in faults[0][1]
    assert "has no executable 'nod'" in faults[1][1]
    assert "it has node" in faults[1][1]
    assert "started twice" in faults[3][1]


def test_missing_and_undeclared_arguments_are_refused(prefix):
    assert faults_of(prefix, '<arg name="bag" description="what to replay"/>') == [
        (2, "argument 'bag' (what to replay) must be given: bag:=…")
    ]
    assert faults_of(prefix, '<arg name="task" default="pick"/>', tsk="pick") == [
        (0, "argument 'tsk' is not declared; did you mean 'task'? declared: task")
    ]


def test_undeclared_argument_is_answered_with_those_that_show_args_shows(prefix):
    inner = prefix.launch_file('<arg name="internal" default="1"/>', "inner.launch.xml")
    body = f'<arg name="policy" default="x"/><arg name="bag" default="x"/><include file="{inner}"/>'
    shown = ", ".join(argument.name for argument in read_arguments(prefix.launch_file(body)))
    near = f"argument 'polcy' is not declared; did you mean 'policy'? declared: {shown}"
    assert faults_of(prefix, body, polcy="a", speed="1") == [
        (0, near),
        (0, f"argument 'speed' is not declared; declared: {shown}"),
    ]
    assert faults_of(prefix, "", x="1") == [(0, "argument 'x' is not declared; declared: none")]


def test_names_that_steer_launch_itself_are_refused(prefix):
    assert "meaning of its own" in faults_of(prefix, '<let name="ros_namespace" value="/a"/>')[0][1]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('<?xml version="1.0"?>\n<!DOCTYPE launch [<!ENTITY a "b">]>\n<launch/>', ":2: a DOCTYPE is refused"),
        ("<launch>\n<node>\n</launch>", ":3: not well-formed XML: mismatched tag"),
        ("<launch>\n  words\n</launch>", "text 'words' between tags"),
        ("<robot/>", ":1: the root tag is <robot>, expected <launch>"),
        ("", "not well-formed XML: no element found"),
        ('<?xml version="1.0" encoding="big5"?><launch/>', ":1: encoding 'big5' is refused"),
    ],
)
def test_file_that_is_no_launch_file_is_refused(tmp_path: Path, text, part):
    path = tmp_path / "x.launch.xml"
    path.write_text(text)
    with pytest.raises(LaunchFileError, match=r"x\.launch\.xml") as raised:
        read(path, {}, {})
    assert part in str(raised.value)


def test_command_line_words_are_checked_together():
    assert parse_arguments(["a:=1", "b:=x:=y", "a:=2"]) == {"a": "2", "b": "x:=y"}
    with pytest.raises(LaunchFileError) as raised:
        parse_arguments(["a=1", "b:=", ":=c"])
    assert len(raised.value.faults) == 3


def test_faults_of_every_kind_are_reported_together_in_file_order(prefix):
    body = """
    <foo/>
    <node pkg="pkg" exec="node" bar="1"/>
    <include file="/none.launch.xml"/>
    <node pkg="tether_absent" exec="x"/>
    <let name="b" value="$(env TETHER_TEST_UNSET)"/>
    <group if="maybe"/>
    words
    <let name="a" value="$(var nope)"/>
    """
    assert [line for line, _ in faults_of(prefix, body)] == list(range(2, 10))


def test_fault_of_a_tag_or_attribute_hides_no_other_of_the_same_node(prefix):
    body = """
    <nod/>
    <node pkg="pkg" exec="nosuch" foo="1"/>
    <node pkg="pkg" exec="nosuch"><parm/></node>
    <node pkg="tether_absent" respawn="1"/>
    <group scoped="1"><node pkg="tether_absent" exec="x"/></group>
    """
    faults = faults_of(prefix, body)
    assert [line for line, _ in faults] == [2, 3, 3, 4, 4, 5, 5, 5, 6, 6]
    text = "\n".join(message for _, message in faults)
    assert (text.count("no executable 'nosuch'"), text.count("'tether_absent' not found")) == (2, 2)


def test_every_fault_of_one_node_is_reported_and_a_node_with_faults_still_has_its_name(prefix):
    body = """
    <node pkg="pkg" exec="nosuch" name="1" namespace="$(var a)" args=" x" output="none" on_exit="x"
        sigterm_timeout="-1" sigkill_timeout="x">
    <param from="/none.yaml"/>
    <param name="p" value="$(var b)"/>
    <remap from="$(var c)" to="x"/>
    <env name="E" value="$(var d)"/>
    </node>
    <node pkg="pkg" exec="nosuch" name="n"/>
    <node pkg="pkg" exec="node" name="n"/>
    """
    lines = [line for line, _ in faults_of(prefix, body)]
    assert lines == [2] * 8 + [4, 5, 6, 7, 9, 10]


def test_fault_of_an_include_hides_none_of_the_included_file(prefix):
    inner = prefix.launch_file(
        '<arg name="a"/><node pkg="tether_absent" exec="x" args="$(var a)"/>', "inner.launch.xml"
    )
    for include in (
        f'<include file="{inner}" foo="1"><arg name="a" value="1"/></include>',
        f'<include file="{inner}"><arg name="a"/></include>',
        f'<include file="{inner}"><arg name="a" value="$(var nothing)"/></include>',
        f'<include file="{inner}"><arg name="a" value="1"/><foo/></include>',
    ):
        faults = faults_of(prefix, include)
        assert len(faults) == 2, faults
        assert any("'tether_absent' not found" in message for _, message in faults)


def test_what_stands_on_a_fault_is_no_fault_of_its_own(prefix):
    body = """
    <let name="a" value="$(env TETHER_TEST_UNSET)"/>
    <let name="b" value="$(var a)"/>
    <set_env name="E" value="$(var b)"/>
    <node pkg="pkg" exec="node" args="$(env E)"/>
    <arg name="c"/>
    <let name="d"/>
    <node pkg="pkg" exec="node" args="$(var c) $(var d)"/>
    """
    assert len(faults_of(prefix, body)) == 3


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("<group>" * 100 + "</group>" * 100, "nested more than 64 deep"),
        ('<let name="a" value="xxxxxxxxxx"/>' + f'<let name="a" value="{"$(var a)" * 10}"/>' * 9, "grows beyond 65536"),
        (f'<let name="a" value="{"x" * 70_000}"/>', "70000 characters"),
        (f'<let name="a" value="{"$(not " * 5000}1{")" * 5000}"/>', "nested more than 32 deep"),
        ('<include file="$(var own)"/>' * 10, "more than 10000 actions"),
    ],
    ids=["tags", "doubling", "long", "substitutions", "includes"],
)
def test_file_that_would_grow_without_end_is_refused(prefix, body, part):
    own = f'<let name="own" value="{prefix.root}/test.launch.xml"/>'
    faults = faults_of(prefix, own + body)
    assert any(part in message and line > 0 for line, message in faults)


def test_pipe_is_refused_instead_of_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.xml")
    with pytest.raises(LaunchFileError, match="a pipe or a device"):
        read(tmp_path / "pipe.xml", {}, {})
