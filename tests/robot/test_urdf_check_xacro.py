"""The linter on xacro: expressions that reach into Python, arguments, parts that other files include."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from tether.errors import InvalidInputError
from tether.robot.check import Status, check_file
from tether.robot.cli import add_parser
from tether.robot.description import expand
from tether.robot.expansion import expand_apart
from tether.robot.findings import Rule

XMLNS = 'xmlns:xacro="http://www.ros.org/wiki/xacro"'
SYSTEM = "[c for c in ().__class__.__base__.__subclasses__() if c.__name__ == '_wrap_close'][0].__init__.__globals__"
"""From an empty tuple to the module os, as every escape from a restricted eval goes."""


def write(folder: Path, content: str, name: str = "robot.xacro") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def robot(expression: str) -> str:
    return f'<robot {XMLNS} name="r"><link name="l{expression}"/></robot>'


def run(*words: str | Path) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["urdf", "check", *map(str, words)])
    return int(arguments.run(arguments))


@pytest.mark.parametrize(
    "expression",
    [
        "${(lambda: SYSTEM['system']('touch MARK'))()}",
        "${[f() for f in [lambda: SYSTEM['system']('touch MARK')]][0]}",
        "$(eval (lambda: SYSTEM['system']('touch MARK'))())",
        "$(eval _＿import_＿('os').system('touch MARK'))",
        "${python.vars(python.type(python.type))}",
        "${(x for x in [1]).gi_frame.f_back}",
    ],
)
def test_expression_that_reaches_into_python_is_refused_and_runs_nothing(tmp_path: Path, expression: str) -> None:
    mark = tmp_path / "mark"
    hostile = expression.replace("SYSTEM", SYSTEM).replace("MARK", str(mark))
    path = write(tmp_path, robot(hostile))
    report = check_file(path, expand_by=expand_apart)
    assert not mark.exists()
    assert (report.status, report.findings[0].rule) == (Status.NOT_CHECKABLE, Rule.XACRO_FAILED)
    with pytest.raises(InvalidInputError):
        expand(path)  # what worlds and the gate read robots with
    assert not mark.exists()


@pytest.mark.parametrize(
    "expression",
    [
        "$(eval open('MARK','w'CLOSE.name)",
        "$(eval exec('open(&quot;MARK&quot;,&quot;w&quot;CLOSE', {}CLOSE)",
        "$(eval getattr([], 'app' + 'end'CLOSE)",
        "$(eval [open('MARK', 'w'CLOSE for i in [1]])",
    ],
    ids=["open", "exec", "getattr", "inside"],  # in the mark's path; xacro refuses two underscores by itself
)
def test_eval_in_parentheses_has_no_builtins_that_do_anything(tmp_path: Path, expression: str) -> None:
    mark = tmp_path / "mark"
    # xacro ends $(…) at the first parenthesis that closes; one that comes from a property goes past that.
    hostile = expression.replace("CLOSE", "${close}").replace("MARK", str(mark))
    close = '<xacro:property name="close" value=")"/>'
    path = write(tmp_path, f'<robot {XMLNS} name="r">{close}<link name="{hostile}"/></robot>')
    report = check_file(path, expand_by=expand_apart)
    assert not mark.exists()
    assert (report.status, report.findings[0].rule) == (Status.NOT_CHECKABLE, Rule.XACRO_FAILED)
    with pytest.raises(InvalidInputError):
        expand(path)
    assert not mark.exists()


def test_eval_in_parentheses_keeps_the_functions_of_expressions(tmp_path: Path) -> None:
    close = '<xacro:property name="close" value=")"/><xacro:arg name="size" default="3"/>'
    link = """<link name="l$(eval max(len('ab'${close}, size${close})"/>"""
    path = write(tmp_path, f'<robot {XMLNS} name="r">{close}{link}</robot>')
    assert '<link name="l3"/>' in expand_apart(path)


def test_what_a_file_writes_into_xacros_symbols_is_gone_with_it(tmp_path: Path) -> None:
    expand(write(tmp_path, robot("${math.update(pi=4)}${python.update(len=4)}")))
    assert 'name="l3.14"' in expand(write(tmp_path, robot("${round(math.pi, 2)}")))
    assert 'name="l2"' in expand(write(tmp_path, robot("${python.len('ab')}")))


def test_expression_in_a_yaml_file_runs_nothing_either(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = json.dumps(f"(lambda: {SYSTEM}['system']('touch {mark}'))()")
    write(tmp_path, f"angle: !degrees {text}\n", "values.yaml")
    path = write(tmp_path, robot(f"${{xacro.load_yaml('{tmp_path}/values.yaml')['angle']}}"))
    report = check_file(path, expand_by=expand_apart)
    assert not mark.exists()
    assert report.status is Status.NOT_CHECKABLE
    assert "'__globals__', which is refused" in report.findings[0].message


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("${round(2 * radians(90), 4)}", "3.1416"),
        ("${'%.2f' % (1 / 3)}", "0.33"),
        ("${(lambda x: x + 1)(2)}", "3"),
        ("${'_'.join([str(i) for i in range(3) if i != 1])}", "0_2"),
        ("${python.sum(python.map(python.abs, [-1, 2]))}", "3"),
        ("$(eval 1 + 2)", "3"),
    ],
)
def test_expressions_that_robots_hold_give_what_xacro_gives(tmp_path: Path, expression: str, value: str) -> None:
    assert f'name="l{value}"' in expand_apart(write(tmp_path, robot(expression)))


def test_parameters_may_be_called_as_functions_that_are_refused(tmp_path: Path) -> None:
    macro = '<xacro:macro name="m" params="type vars _x_"><link name="${type}${vars}${_x_}"/></xacro:macro>'
    text = f'<robot {XMLNS} name="r">{macro}<xacro:m type="a" vars="b" _x_="c"/></robot>'
    assert 'name="abc"' in expand_apart(write(tmp_path, text))


def test_arguments_of_xacro_are_given_on_the_command_line(tmp_path: Path) -> None:
    text = f'<robot {XMLNS} name="r"><link name="$(arg side)_arm"/></robot>'
    path = write(tmp_path, text)
    report = check_file(path)
    assert report.status is Status.NOT_CHECKABLE
    assert "--arg NAME:=VALUE" in report.findings[0].fix
    assert run(path, "--arg", "side:=left") == 0
    assert run(path, "--arg", "side:=/left") == 1  # a slash, which TF refuses: the value has arrived
    with pytest.raises(InvalidInputError, match="side=left"):
        run(path, "--arg", "side=left")


def test_file_of_macros_is_no_empty_robot_but_a_part_to_be_included(tmp_path: Path) -> None:
    text = f'<robot {XMLNS}><xacro:macro name="wheel" params="side"><link name="${{side}}"/></xacro:macro></robot>'
    report = check_file(write(tmp_path, text))
    (finding,) = report.findings
    assert (report.status, finding.rule) == (Status.NOT_CHECKABLE, Rule.ROBOT_EMPTY)
    assert "it defines wheel" in finding.message
    assert "includes it" in finding.fix


def test_robot_without_links_stays_an_error_of_the_robot(tmp_path: Path) -> None:
    report = check_file(write(tmp_path, f'<robot {XMLNS} name="r"/>'))
    assert (report.status, report.findings[0].rule) == (Status.FAULTS, Rule.ROBOT_EMPTY)


def test_srdf_is_named_as_such(tmp_path: Path) -> None:
    text = '<robot name="r"><group name="arm"/><disable_collisions link1="a" link2="b" reason="Never"/></robot>'
    report = check_file(write(tmp_path, text, "robot.srdf"))
    assert (report.status, report.findings[0].rule) == (Status.NOT_CHECKABLE, Rule.NOT_URDF)
    assert "SRDF" in report.findings[0].message


def test_pointer_of_git_lfs_is_named_with_what_fetches_the_robot(tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"
    (finding,) = check_file(write(tmp_path, pointer, "robot.urdf")).findings
    assert finding.rule is Rule.FILE_BINARY
    assert "git lfs pull" in finding.fix


def test_argument_that_a_file_does_not_ask_for_is_refused_with_those_that_it_does(tmp_path: Path) -> None:
    text = f'<robot {XMLNS} name="r"><xacro:arg name="side" default="a"/><link name="$(arg side)_$(arg end)"/></robot>'
    path = write(tmp_path, text, "r.xacro")
    with pytest.raises(InvalidInputError, match="'sied', expected one of end, side") as raised:
        run(path, "--arg", "sied:=left", "--arg", "end:=b", "--arg", "foo:=3")
    assert [fault.found for fault in raised.value.faults] == ["'sied'", "'foo'"]
    with pytest.raises(InvalidInputError, match="'sied', expected one of end, side"):
        expand(path, arguments={"sied": "left", "end": "b"})


@pytest.mark.parametrize("name", ["r.urdf", "r.xacro"])
def test_argument_is_refused_where_a_file_asks_for_none(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, '<robot name="r"><link name="base"/></robot>', name)
    assert run(path) == 0
    with pytest.raises(InvalidInputError, match="'foo', expected none"):
        run(path, "--arg", "foo:=3")


def test_package_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, '<robot name="r"><link name="base"/></robot>')
    with pytest.raises(InvalidInputError, match=r"no folder(.|\n)*does not exist") as raised:
        run(path, "--package-path", path, "--package-path", tmp_path, "--package-path", tmp_path / "none")
    assert len(raised.value.faults) == 2
