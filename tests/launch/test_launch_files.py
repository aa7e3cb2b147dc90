"""The launch files of the repository: what each combination of arguments starts, and in which order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tether.launch import LaunchFileError, LaunchPlan, read
from tether.launch.model import ParameterValue

FOLDER = Path(__file__).parents[2] / "launch"
STAGES = ["imu_ingest", "camera_ingest", "fusion", "policy", "opd_bridge", "primitive_executor"]


def plan_of(prefix, name: str, **arguments: str) -> LaunchPlan:
    prefix.add_graph()
    env = {**prefix.env, "AMENT_PREFIX_PATH": str(prefix.root)}
    env.pop("ROS_DOMAIN_ID", None)
    return read(FOLDER / name, arguments, env)


def labels(plan: LaunchPlan) -> list[str]:
    return [process.label for process in plan.processes]


def executable(plan: LaunchPlan, label: str) -> tuple[str, str]:
    (process,) = (process for process in plan.processes if process.label == label)
    return process.package, process.executable


def parameters(plan: LaunchPlan, label: str) -> dict[str, object]:
    (process,) = (process for process in plan.processes if process.label == label)
    return {p.name: p.value for p in process.parameters if isinstance(p, ParameterValue)}


def managed(plan: LaunchPlan) -> list[str]:
    nodes = parameters(plan, "lifecycle_manager")["nodes"]
    assert isinstance(nodes, list)
    return nodes


def test_only_where_no_robot_waits_a_node_may_be_silent_for_a_minute(prefix):
    prefix.add("tether_robot", "driver")
    replay = plan_of(prefix, "replay.launch.xml", bag="b")
    assert parameters(replay, "lifecycle_manager")["lost_s"] == 60.0
    for name in ("sim.launch.xml", "robot.launch.xml"):
        assert "lost_s" not in parameters(plan_of(prefix, name), "lifecycle_manager")


def test_sim_starts_the_whole_graph_and_activates_the_world_last(prefix):
    plan = plan_of(prefix, "sim.launch.xml")
    assert labels(plan) == ["safety_supervisor", *STAGES, "world", "recorder", "lifecycle_manager"]
    assert managed(plan) == ["recorder", "safety_supervisor", *STAGES, "world"]
    assert parameters(plan, "lifecycle_manager")["may_finish"] == ["world"]


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.launch.xml")))
def test_nothing_is_written_into_a_run_of_tether_sim_unless_it_is_asked_for(name: str) -> None:
    assert "runs/latest" not in (FOLDER / name).read_text(encoding="utf-8")


def test_whose_boxes_a_student_gets_is_said_to_every_node_that_is_told_the_policy(prefix):
    plan = plan_of(prefix, "sim.launch.xml", policy="student@a", detector="yolo", yolo="some/model")
    for name in ("safety_supervisor", "camera_ingest", "fusion", "policy", "world"):
        assert parameters(plan, name)["policy"] == "student@a~yolo:some/model"
    assert parameters(plan_of(prefix, "sim.launch.xml"), "camera_ingest")["policy"] == "student"
    prefix.add("tether_robot", "driver")
    robot = plan_of(prefix, "robot.launch.xml", policy="student", detector="yolo", composed="false")
    assert parameters(robot, "camera_ingest")["policy"] == "student~yolo:runs/vision/yolo/model"


def test_composed_stages_share_one_process_whose_nodes_keep_their_names(prefix):
    plan = plan_of(prefix, "sim.launch.xml", composed="true", record="false")
    assert labels(plan) == ["safety_supervisor", "composed", "world", "lifecycle_manager"]
    assert managed(plan) == ["safety_supervisor", *STAGES, "world"]
    composed = plan.processes[1]
    assert not [word for word in composed.command([Path("p")] * len(composed.parameters)) if "__node" in word]


def test_rewards_come_from_a_process_of_their_own_that_alone_is_shown_what_the_world_measures(prefix):
    prefix.add("tether_opd", "reward_server")
    plan = plan_of(prefix, "sim.launch.xml", rewards="true", seed="4")
    assert managed(plan) == ["recorder", "reward_server", "safety_supervisor", *STAGES, "world"]
    assert parameters(plan, "world")["measures"] is True
    assert parameters(plan, "reward_server")["seed"] == 4


def test_black_box_hears_all_and_goes_down_before_the_gate_whose_silence_would_be_a_trip(prefix):
    plan = plan_of(prefix, "sim.launch.xml", black_box="true", black_box_folder="here")
    assert managed(plan) == ["recorder", "safety_supervisor", *STAGES, "black_box", "world"]
    assert parameters(plan, "black_box")["folder"] == "here"


def test_isaac_sim_is_started_apart_and_the_graph_runs_on_its_time_behind_a_shim(prefix):
    plan = plan_of(prefix, "sim.launch.xml", world="isaac_sim", record="false")
    assert labels(plan) == ["safety_supervisor", *STAGES, "world", "lifecycle_manager"]
    assert executable(plan, "world") == ("tether_world", "isaac_sim_shim")
    assert managed(plan) == ["safety_supervisor", *STAGES, "world"]
    assert "may_finish" not in parameters(plan, "lifecycle_manager")
    assert all(parameters(plan, label)["use_sim_time"] is True for label in ("world", "safety_supervisor", *STAGES))


def test_isaac_is_the_same_graph_with_another_executable_in_the_worlds_place(prefix):
    arguments = {"mode": "lockstep", "policy": "scripted", "seed": "5", "rewards": "true", "results": "here"}
    prefix.add("tether_opd", "reward_server")
    mujoco, isaac = (plan_of(prefix, "sim.launch.xml", world=world, **arguments) for world in ("mujoco", "isaac"))
    assert labels(isaac) == labels(mujoco)
    assert executable(mujoco, "world") == ("tether_world", "world")
    assert executable(isaac, "world") == ("tether_world", "isaac_world")
    for label in set(labels(isaac)) - {"lifecycle_manager"}:
        assert parameters(isaac, label) == parameters(mujoco, label), label
    managers = [parameters(plan, "lifecycle_manager") for plan in (mujoco, isaac)]
    assert [manager.pop("configure_s") for manager in managers] == [60.0, 900.0], "Isaac Lab loads and compiles"
    assert managers[0] == managers[1]


def test_arguments_reach_every_node_that_needs_them(prefix):
    arguments = {"mode": "lockstep", "task": "pick_moving", "profile": "7", "policy": "scripted", "seed": "9"}
    plan = plan_of(prefix, "sim.launch.xml", episodes="3", domain="41", threads="2", **arguments)
    assert parameters(plan, "safety_supervisor")["physical"] is False
    world = parameters(plan, "world")
    assert set(world.pop("peers")) == {*managed(plan)}
    assert world == {
        "mode": "lockstep",
        "policy": "scripted",
        "task": "pick_moving",
        "profile": "7",  # a name, whatever it looks like
        "episodes": 3,
        "seed": 9,
        "truth_age_ms": 0,
        "arbiter": "student_alone",
        "spool": "",
        "measures": False,
        "results": "",
    }
    for label in ("safety_supervisor", *STAGES):
        assert parameters(plan, label)["mode"] == "lockstep"
        assert parameters(plan, label)["use_sim_time"] is False
        assert parameters(plan, label)["wait_for_match"] is True
    environment = {
        "ROS_DOMAIN_ID": "41",
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
        "MALLOC_MMAP_THRESHOLD_": "33554432",
        "MALLOC_TRIM_THRESHOLD_": "268435456",
        "OMP_NUM_THREADS": "2",
        "OPENBLAS_NUM_THREADS": "2",
    }
    for process in plan.processes:
        given = dict(process.env)
        assert Path(given.pop("FASTRTPS_DEFAULT_PROFILES_FILE")).resolve().name == "fastdds.xml"
        assert given == environment


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sim.launch.xml", {"rewards": "true", "black_box": "true"}),
        ("sim.launch.xml", {"record": "false", "composed": "true"}),
        ("robot.launch.xml", {"emulate": "true"}),
        ("robot.launch.xml", {"record": "false", "composed": "false"}),
        ("replay.launch.xml", {"bag": "x"}),
    ],
)
def test_whoever_publishes_knows_all_nodes_that_the_manager_brings_up(prefix, name: str, arguments: dict[str, str]):
    for node in ("tether_robot/driver", "tether_robot/emulator", "tether_opd/reward_server"):
        prefix.add(*node.split("/"))
    plan = plan_of(prefix, name, **arguments)
    deaf = {"recorder", "replay_player", "lifecycle_manager"}  # publish nothing but events, or wait for listeners
    for label in set(labels(plan)) - deaf:
        assert set(parameters(plan, label)["peers"]) == set(managed(plan)), label


def declared(package: str, node: str) -> set[str]:
    """Parameters that a node declares, by its source; those of every node among them."""
    nodes = FOLDER.parent / "ros2_ws" / "src"
    sources = [nodes / package / package / f"{node}.py", nodes / "tether_ros" / "tether_ros" / "node.py"]
    words = "".join(path.read_text(encoding="utf-8") for path in sources)
    found = re.findall(r'\b_?(?:param|names|words|seconds|declared_names)\(\s*(?:\w+,\s*)?"(\w+)"', words)
    return {*found, "use_sim_time"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("sim.launch.xml", {}), ("sim.launch.xml", {"world": "isaac_sim"}), ("replay.launch.xml", {"bag": "x"})],
)
def test_no_node_is_given_a_parameter_that_it_does_not_declare(prefix, name: str, arguments: dict[str, str]):
    plan = plan_of(prefix, name, record="true", **arguments)
    for process in plan.processes:
        given = set(parameters(plan, process.label))
        unknown = given - declared(process.package, process.executable)
        assert not unknown, f"{process.label} declares no {', '.join(sorted(unknown))}"


@pytest.mark.parametrize("composed", ["true", "false"])
def test_eyes_spare_looks_in_a_world_and_on_a_robot_and_in_a_replay_where_asked_to(prefix, composed: str):
    stage = "composed" if composed == "true" else "camera_ingest"
    replay = plan_of(prefix, "replay.launch.xml", bag="b", composed=composed)
    asked = plan_of(prefix, "replay.launch.xml", bag="b", composed=composed, spare_looks="true")
    sim = plan_of(prefix, "sim.launch.xml", composed=composed)
    assert [parameters(plan, stage)["spare_looks"] for plan in (replay, asked, sim)] == [False, True, True]


def test_robot_goes_up_after_its_driver_and_down_before_it(prefix):
    prefix.add("tether_robot", "driver")
    plan = plan_of(prefix, "robot.launch.xml", composed="false")
    assert labels(plan) == ["safety_supervisor", *STAGES, "black_box", "driver", "recorder", "lifecycle_manager"]
    assert managed(plan) == ["recorder", "driver", "safety_supervisor", *STAGES, "black_box"]
    assert parameters(plan, "policy")["mode"] == "realtime"
    assert parameters(plan, "safety_supervisor")["physical"] is True
    assert parameters(plan, "safety_supervisor")["wait_for_match"] is True


def test_robot_without_its_driver_package_says_so_with_the_line(prefix):
    with pytest.raises(LaunchFileError) as raised:
        plan_of(prefix, "robot.launch.xml")
    (fault,) = raised.value.faults
    assert "package 'tether_robot' not found" in fault.message
    assert "tether_robot" in Path(fault.file).read_text().splitlines()[fault.line - 1]


def test_replay_feeds_the_graph_last_and_on_the_bags_time(prefix):
    plan = plan_of(prefix, "replay.launch.xml", bag="a bag", rate="2", loop="1")
    assert labels(plan) == ["replay_player", "safety_supervisor", *STAGES, "lifecycle_manager"]
    assert managed(plan) == ["safety_supervisor", *STAGES, "replay_player"]
    player = parameters(plan, "replay_player")
    assert (player["bag"], player["rate"], player["loop"]) == ("a bag", 2.0, True)
    assert parameters(plan, "fusion")["use_sim_time"] is True
    assert parameters(plan, "camera_ingest")["spare_looks"] is False, "however fast it is played"
    assert all(parameters(plan, label)["wait_for_match"] is False for label in ("safety_supervisor", *STAGES))


def test_replay_renames_topics_where_asked_to(prefix):
    plan = plan_of(prefix, "replay.launch.xml", bag="b", remap="[/cam:=/camera/image_raw, /imu:=/imu/data_raw]")
    assert parameters(plan, "replay_player")["remap"] == ["/cam:=/camera/image_raw", "/imu:=/imu/data_raw"]
    assert "remap" not in parameters(plan_of(prefix, "replay.launch.xml", bag="b"), "replay_player")


def test_replay_without_a_bag_says_what_it_needs(prefix):
    with pytest.raises(LaunchFileError, match=r"argument 'bag' .* must be given: bag:="):
        plan_of(prefix, "replay.launch.xml")


@pytest.mark.parametrize("name", ["sim.launch.xml", "robot.launch.xml", "replay.launch.xml"])
def test_every_argument_is_described(prefix, name: str):
    prefix.add("tether_robot", "driver")
    given = {"bag": "x"} if name.startswith("replay") else {}
    plan = plan_of(prefix, name, **given)
    assert all(argument.description for argument in plan.arguments)


SNIPPETS = ["$(", ")", '"', "'", "<", "/>", " ", "&", "\\", "$(var x)", '<arg name="a"/>', "[", "{", "&#65;", "<!-- "]
MUTATION = st.tuples(st.floats(0.0, 1.0), st.integers(0, 20), st.sampled_from(["", *SNIPPETS]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["sim.launch.xml", "robot.launch.xml"]), st.lists(MUTATION, min_size=1, max_size=4))
def test_damaged_launch_file_is_read_or_refused_with_its_place(prefix, name: str, mutations):
    prefix.add_graph()
    text = (FOLDER / name).read_text(encoding="utf-8")
    for place, removed, inserted in mutations:
        position = round(place * len(text))
        text = text[:position] + inserted + text[position + removed :]
    damaged = prefix.root / "damaged.launch.xml"
    damaged.write_text(text, encoding="utf-8")
    (prefix.root / "graph.launch.xml").write_bytes((FOLDER / "graph.launch.xml").read_bytes())
    try:
        read(damaged, {}, {**prefix.env, "AMENT_PREFIX_PATH": str(prefix.root)})
    except LaunchFileError as error:
        assert error.faults
        assert all(str(prefix.root) in fault.file for fault in error.faults)
