"""The same files under ROS 2's own launch and under ours start the same processes.

Needs a `ros2 launch` of Jazzy on the PATH; without one these claims are not checked here.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tether.launch import LaunchFileError, Runner, parse_arguments, read

pytestmark = pytest.mark.skipif(shutil.which("ros2") is None, reason="needs ROS 2's own launch (ros2 on the PATH)")

# writes its command line, parameter files opened, and the environment that launch files set
DUMPER = """
import json, os, sys, tempfile
words = []
for word, before in zip(sys.argv[1:], sys.argv):
    words.append(open(word).read() if before == "--params-file" else word)
prefixes = ("T_", "ROS_DOM", "ROS_AUTO", "OMP_", "OPENB")
env = {name: value for name, value in os.environ.items() if name.startswith(prefixes)}
file, path = tempfile.mkstemp(suffix=".part", dir=os.environ["DUMP"])
os.write(file, json.dumps([words, env]).encode())
os.rename(path, path[:-5] + ".json")
"""
WAIT_FOR_ALL = """
import time
while len([name for name in os.listdir(os.environ["DUMP"]) if name.endswith(".json")]) < {expected}:
    time.sleep(0.02)
"""
CASES = {
    "names": """
        <node pkg="pkg" exec="dump"/>
        <node pkg="pkg" exec="dump" name="a"/>
        <node pkg="pkg" exec="dump" name="b" namespace="x/y/"/>
        <node pkg="pkg" exec="dump" name="c" namespace="/"/>
        <node pkg="pkg" exec="dump" name="d" namespace=""/>
        <node pkg="pkg" exec="dump" namespace="/z"/>
    """,
    "arguments": """
        <arg name="v" default="one two"/>
        <node pkg="pkg" exec="dump" args="--a  $(var v) b$(var v)c $(var v)$(var v) d e $(env T_NONE '')"/>
        <arg name="w" default="one/two"/>
        <node pkg="pkg" exec="dump" args="x"><remap from="a" to="b"/><remap from="c" to="$(var w)"/></node>
        <node pkg="pkg" exec="dump" args="it is (so) $x"/>
    """,
    "parameters": """
        <arg name="i" default="5"/> <arg name="f" default="1e-3"/> <arg name="s" default="true"/>
        <let name="l" value="[a, b]"/>
        <node pkg="pkg" exec="dump" name="n">
          <param name="p1" value="1"/> <param name="p2" value="1.5"/> <param name="p3" value="yes"/>
          <param name="p4" value="'7'"/> <param name="p5" value="[1, 2]"/> <param name="p6" value="$(var i)"/>
          <param name="p7" value="$(var f)"/> <param name="p8" value="$(var s)"/>
          <param name="p9" value="$(var l)"/> <param name="q1" value="$(var s)" type="str"/>
          <param name="q2" value="$(var i)" type="float"/> <param name="q3" value="x$(var i)"/>
          <param name="q4" value=""/> <param name="q5" value="0" type="bool"/> <param name="q6" value="on"/>
          <param name="q7" value="[a, 'b c']"/> <param name="$(var i)x" value="2"/>
          <param name="q8" value="text with spaces"/> <param name="q9" value="$(var s)" type="bool"/>
          <param from="$(dirname)/p.yaml"/>
        </node>
        <node pkg="pkg" exec="dump" name="m" namespace="ns"><param name="a.b" value="-1"/></node>
    """,
    "conditions": """
        <arg name="a" default="TRUE"/> <arg name="b" default="0"/> <arg name="w" default="mujoco"/>
        <node pkg="pkg" exec="dump" args="1" if="$(var a)"/>
        <node pkg="pkg" exec="dump" args="2" unless="$(var a)"/>
        <node pkg="pkg" exec="dump" args="3" if="$(equals $(var w) mujoco)"/>
        <node pkg="pkg" exec="dump" args="4" if="$(not $(equals $(var w) isaac))"/>
        <node pkg="pkg" exec="dump" args="5" if="$(and $(equals 1.0 1) $(not $(var b)))"/>
        <node pkg="pkg" exec="dump" args="6" if="$(or $(var b) false)"/>
        <node pkg="pkg" exec="dump" args="7" if="$(equals true 1)"/>
        <node pkg="pkg" exec="dump" args="8" if="$(equals none $(env T_NONE none))"/>
        <group unless="$(var b)">
          <let name="c" value="in"/>
          <node pkg="pkg" exec="dump" args="$(var c)"/>
        </group>
    """,
    "environment": """
        <set_env name="T_A" value="1"/>
        <node pkg="pkg" exec="dump" args="x"><env name="T_B" value="$(env T_A)2"/></node>
        <group>
          <set_env name="T_A" value="inner"/> <set_env name="T_C" value="c"/>
          <node pkg="pkg" exec="dump" args="$(env T_A)"/>
        </group>
        <node pkg="pkg" exec="dump" args="$(env T_A) $(env T_C gone)"/>
    """,
    "include": """
        <arg name="outer" default="o"/>
        <let name="shared" value="from outer"/>
        <include file="$(dirname)/inner.launch.xml"><arg name="given" value="$(var outer)"/></include>
        <node pkg="pkg" exec="dump" args="$(var left) $(var given) $(find-pkg-share pkg)"/>
    """,
}
INNER = """
    <arg name="given"/>
    <arg name="shared" default="own"/>
    <arg name="free" default="default"/>
    <let name="left" value="left behind"/>
    <node pkg="pkg" exec="dump" args="$(var given) $(var shared) $(var free) $(var outer)"/>
"""


def dumps(folder: Path) -> list[str]:
    """What the processes wrote, in an order of no meaning."""
    return sorted(json.dumps(json.loads(path.read_text())) for path in folder.glob("*.json"))


def both(prefix, tmp_path: Path, body: str, words: list[str]) -> tuple[list[str], list[str]]:
    prefix.add("pkg", "dump", DUMPER)
    (tmp_path / "p.yaml").write_text("/**: {ros__parameters: {z: 1}}\n")
    prefix.launch_file(INNER, "inner.launch.xml")
    return run_both(prefix, tmp_path, prefix.launch_file(body), words)


def run_both(prefix, tmp_path: Path, file: Path, words: list[str]) -> tuple[list[str], list[str]]:
    results = []
    for name in ("real", "ours"):
        folder = tmp_path / name
        folder.mkdir()
        env = {**prefix.env, "DUMP": str(folder), "ROS_LOG_DIR": str(tmp_path / "log")}
        if name == "real":
            command = ["ros2", "launch", str(file), *words]
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stdout + done.stderr
        else:
            with Runner(read(file, parse_arguments(words), env), env=env) as run:
                assert run.wait(60.0).failure is None
        results.append(dumps(folder))
    return results[0], results[1]


@pytest.mark.parametrize("name", CASES)
def test_same_processes_as_under_ros2_launch(prefix, tmp_path: Path, name: str):
    real, ours = both(prefix, tmp_path, CASES[name], [])
    assert ours == real
    assert ours


@pytest.mark.parametrize(
    "words",
    [
        ["sim.launch.xml"],
        ["sim.launch.xml", "composed:=true", "record:=false", "mode:=lockstep", "profile:=7", "domain:=3"],
        ["sim.launch.xml", "world:=isaac", "mode:=lockstep"],
        ["sim.launch.xml", "world:=isaac_sim", "task:=a b"],
        ["robot.launch.xml"],
        ["replay.launch.xml", "bag:=some/bag", "rate:=0.5", "loop:=true", "record:=true", "remap:=[/a:=/b, /c:=/d]"],
    ],
    ids=" ".join,
)
def test_our_launch_files_start_the_same_processes(prefix, tmp_path: Path, words: list[str]):
    prefix.add_graph(DUMPER)
    prefix.add("tether_robot", "driver", DUMPER)
    file = Path(__file__).parents[2] / "launch" / words[0]
    expected = len(read(file, parse_arguments(words[1:]), prefix.env).processes)
    # its end ends the launch, so it has to wait for the others
    prefix.add("tether_bringup", "lifecycle_manager", DUMPER + WAIT_FOR_ALL.format(expected=expected))
    real, ours = run_both(prefix, tmp_path, file, words[1:])
    assert ours == real
    assert len(ours) == expected


def test_arguments_of_the_command_line_mean_the_same(prefix, tmp_path: Path):
    real, ours = both(prefix, tmp_path, CASES["include"], ["free:=x y", "outer:=a:=b", "free:=z"])
    assert ours == real


@pytest.mark.parametrize(
    "body",
    [
        '<node pkg="pkg" exec="dump"><param name="a" value="[1, a]"/></node>',
        '<node pkg="pkg" exec="dump"><param name="a" value="{b: 1}"/></node>',
        '<node pkg="pkg" exec="dump" nam="x"/>',
        '<arg name="a"/>',
        '<arg name="a" default="x"><choice value="y"/></arg>',
        '<node pkg="pkg" exec="none"/>',
        '<let name="a" value="$(var none)"/>',
        '<let name="given" value="1"/><include file="$(dirname)/inner.launch.xml"/>',
        '<node pkg="pkg" exec="dump" if="on"/>',
    ],
)
def test_what_ros2_launch_refuses_we_refuse(prefix, tmp_path: Path, body: str):
    prefix.add("pkg", "dump", DUMPER)
    prefix.launch_file(INNER, "inner.launch.xml")
    file = prefix.launch_file(body)
    (tmp_path / "dumps").mkdir()
    env = {**prefix.env, "DUMP": str(tmp_path / "dumps"), "ROS_LOG_DIR": os.fspath(tmp_path / "log")}
    done = subprocess.run(["ros2", "launch", str(file)], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0, "ros2 launch takes it"
    with pytest.raises(LaunchFileError):
        read(file, {}, env)
