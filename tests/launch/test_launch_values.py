"""Names and values that neither ROS nor the system takes are faults when a launch file is read, not when it runs."""

from __future__ import annotations

import pytest
from launch_reading import faults_of, plan_of

from tether.launch import LaunchFileError, read
from tether.launch.model import ParameterValue


def test_an_include_that_is_no_file_and_a_prefix_that_is_gone_are_called_what_they_are(prefix, tmp_path):
    folder = f"included file '{tmp_path}' is a folder, a pipe or a device; expected a file"
    assert faults_of(prefix, '<include file="$(dirname)"/>') == [(2, folder)]
    assert faults_of(prefix, '<include file="/dev/null"/>')[0][1].endswith("expected a file")
    with pytest.raises(LaunchFileError, match="AMENT_PREFIX_PATH names no folder that exists: /gone"):
        read(prefix.launch_file('<node pkg="pkg" exec="node"/>'), {}, {"AMENT_PREFIX_PATH": "/gone"})


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), f"[1, {2**64}]", "0x" + "f" * 5000])
@pytest.mark.parametrize("kind", ["", 'type="int"'])
def test_a_whole_number_that_ros_has_no_place_for_is_a_fault(prefix, text, kind):
    body = f'<node pkg="pkg" exec="node"><param name="p" value="{text}" {kind}/></node>'
    ((line, message),) = faults_of(prefix, body)
    assert line == 2
    assert "is no integer of ROS; expected -2**63 to 2**63 - 1" in message or "is not of type int" in message


@pytest.mark.parametrize("text", ["!!bool foo", "!!timestamp foo", "!!int _", "2026-13-45"])
def test_a_value_that_yaml_cannot_make_is_a_fault_with_its_line(prefix, text):
    ((line, message),) = faults_of(prefix, f'<node pkg="pkg" exec="node"><param name="p" value="{text}"/></node>')
    assert line == 2
    assert f"parameter 'p': {text!r} is not YAML" in message


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_largest_and_the_least_integer_of_ros_are_read(prefix, number):
    (process,) = plan_of(prefix, f'<node pkg="pkg" exec="node"><param name="p" value="{number}"/></node>').processes
    assert process.parameters == (ParameterValue("p", number),)


@pytest.mark.parametrize("name", ["", "A=B", "="])
@pytest.mark.parametrize(
    "body", ['<set_env name="%s" value="x"/>', '<node pkg="pkg" exec="node"><env name="%s" value="x"/></node>']
)
def test_a_name_that_no_environment_takes_is_a_fault_with_its_line(prefix, name, body):
    ((line, message),) = faults_of(prefix, f"<!-- -->\n{body % name}")
    assert line == 3 and f"has the name '{name}'; an environment variable has one, without '='" in message


@pytest.mark.parametrize("use", ['args="$(var a)"', 'namespace="$(var a)"', 'exec="$(var a)"'])
def test_a_value_that_no_process_can_be_given_is_a_fault_with_its_line(prefix, use):
    exec_ = "" if "exec" in use else 'exec="node"'
    faults = faults_of(prefix, f'<arg name="a"/>\n<node pkg="pkg" {exec_} {use}/>', a="x\0y")
    assert faults == [(3, "the value 'x\\x00y' has a NUL, which no process can be given")]
