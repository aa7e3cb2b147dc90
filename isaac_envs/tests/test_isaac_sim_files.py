"""What is handed to Isaac Sim, which does not run here: files, drives, topics, and graphs that hang together."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
from pxr import Usd

from tether import topics
from tether.contracts import TICK_NS
from tether.robot.roles import COMMAND_JOINTS
from tether_isaac.export import export

FOLDER = Path(__file__).parents[1] / "isaac_sim"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("scene")
    export(folder, "pick", "ideal", 3)
    return folder, json.loads((folder / "scene.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def graphs(scene: tuple[Path, dict[str, Any]]) -> tuple[dict[str, Any], list[Any]]:
    """The module, and both graphs for the exported scene."""
    sys.dont_write_bytecode = True
    module = runpy.run_path(str(FOLDER / "graph.py"))
    names, look = scene[1]["topics"], scene[1]["camera"]
    made = [
        module["sensors_and_commands"](names, "/World/Robot/base_link/imu_link/imu", scene[1]["imu_frame"]),
        module["camera"](names, "/World/Robot/camera", look["frame"], look["width"], look["height"]),
    ]
    return module, made


def test_scene_names_every_joint_with_its_drive_and_files_that_open(scene: tuple[Path, dict[str, Any]]) -> None:
    folder, facts = scene
    stages = {name: Usd.Stage.Open(str(folder / facts[name])) for name in ("robot", "cube", "ground")}
    for name, stage in stages.items():
        assert stage.GetDefaultPrim().IsValid(), name
    frames = {prim.GetName() for prim in stages["robot"].Traverse()}
    assert {facts["camera"]["frame"], facts["imu_frame"], *facts["drives"]} <= frames
    assert facts["commanded"] == list(COMMAND_JOINTS)
    assert set(facts["start"]) == {*COMMAND_JOINTS, facts["follower"]}
    assert sum(v * v for v in facts["cube_pose"]["quat_xyzw"]) == pytest.approx(1.0)
    assert abs(facts["cube_pose"]["quat_xyzw"][2]) > 0.01, "turned about z: the order of the quaternion shows"


def test_graphs_connect_and_set_only_what_they_create(graphs: tuple[dict[str, Any], list[Any]]) -> None:
    for graph in graphs[1]:
        names = [name for name, _ in graph.nodes]
        assert len(set(names)) == len(names)
        for source, sink in graph.connections:
            assert source.split(".")[0] in names and ".outputs:" in source, source
            assert sink.split(".")[0] in names and ".inputs:" in sink, sink
        sinks = [sink for _, sink in graph.connections]
        assert len(set(sinks)) == len(sinks), "an input has one source"
        assert all(at.split(".")[0] in names and at not in sinks for at, _ in graph.values)


def test_topics_are_those_of_the_graph_and_rates_those_of_every_world(
    scene: tuple[Path, dict[str, Any]], graphs: tuple[dict[str, Any], list[Any]]
) -> None:
    spoken = {f"/{value}" for graph in graphs[1] for at, value in graph.values if at.endswith(":topicName")}
    wanted = (topics.CLOCK, topics.IMAGE, topics.CAMERA_INFO, topics.IMU, topics.JOINT_COMMAND)
    assert spoken == {topic.name for topic in (*wanted, topics.ALL_JOINT_STATES, topics.BASE_TWIST)}
    step_s = scene[1]["physics_dt_s"]
    assert step_s * graphs[0]["TICK_EVERY"] == pytest.approx(TICK_NS * 1e-9)
    assert step_s * graphs[0]["IMU_EVERY"] == pytest.approx(0.005)
