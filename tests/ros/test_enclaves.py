"""config/sros2/robot.policy.xml against the nodes of launch/robot.launch.xml as they are built."""

from __future__ import annotations

import importlib
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import rclpy
import yaml
from rclpy.lifecycle import TransitionCallbackReturn
from tether_bringup.lifecycle_manager import LifecycleManager
from tether_ros.node import StageNode
from tether_ros.process import _start_beats

from tether import topics
from tether.enclaves import Profile, load_policy
from tether.launch.model import LaunchPlan, ParameterValue
from tether.launch.reader import read
from tether.resources import resource_path
from tether_msgs.srv import Arm, ResetStop

pytestmark = pytest.mark.ros

VARIANTS = ({"policy": "classic"}, {"policy": "student", "arbiter": "student_with_fallback"})
"""Between them every node has all that it can have on the robot."""
WHILE_RUNNING = {"fusion": Profile("fusion", publish=frozenset({topics.EPISODE_START.name}))}
"""What a node makes only later: on a robot nobody else starts episodes, so fusion does."""
OPERATOR = {"arm": Arm, "reset_stop": ResetStop}
RULES = ("publish", "subscribe", "reply", "request")


def plan_of(folder: Path, **words: str) -> LaunchPlan:
    places = {"bag": str(folder / "bag"), "black_box_folder": str(folder / "box")}
    return read(resource_path("launch", "robot.launch.xml"), {**places, "composed": "false", **words}, os.environ)


@contextmanager
def parameters_of(plan: LaunchPlan, folder: Path, domain: int) -> Iterator[None]:
    """Nodes of this process have the parameters of the launch; the driver's devices are looked for in a folder."""
    values = {
        process.node_name: {
            "ros__parameters": {p.name: p.value for p in process.parameters if isinstance(p, ParameterValue)}
        }
        for process in plan.processes
    }
    values["driver"]["ros__parameters"] |= {"robot": "emulated", "devices": str(folder / "devices")}
    file = folder / "parameters.yaml"
    file.write_text(yaml.safe_dump(values))
    rclpy.init(args=["--ros-args", "--params-file", str(file)], domain_id=domain)
    try:
        yield
    finally:
        rclpy.try_shutdown()


def node_class(package: str, executable: str) -> type[StageNode]:
    module = importlib.import_module(f"{package}.{executable}")
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    (found,) = (kind for kind in kinds if issubclass(kind, StageNode))
    return found


def profile_of(node: Any) -> Profile:
    """What a node of this process has, by its own graph, which needs no discovery."""
    name = node.get_name()
    found = (
        node.get_publisher_names_and_types_by_node(name, "/"),
        node.get_subscriber_names_and_types_by_node(name, "/"),
        node.get_service_names_and_types_by_node(name, "/"),
        node.get_client_names_and_types_by_node(name, "/"),
    )
    return Profile(name, *(frozenset(one for one, _ in names) for names in found))


def built(plan: LaunchPlan) -> Iterator[Profile]:
    """What each node of the launch has once it is configured, its process's heartbeat included."""
    for process in plan.processes:
        if process.executable == "lifecycle_manager":
            manager = LifecycleManager()
            yield profile_of(manager)
            manager.destroy_node()
            continue
        node = node_class(process.package, process.executable)()
        _start_beats([node])
        assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS, process.label
        yield profile_of(node)
        node.trigger_cleanup()
        node.destroy_node()


def callers() -> Iterator[Profile]:
    """The nodes that `ros2 service call` makes for what a person asks of the gate (ros2service/verb/call.py)."""
    for name, kind in OPERATOR.items():
        node = rclpy.create_node(f"_ros2cli_requester_tether_msgs_{kind.__name__}")
        node.create_client(kind, f"/safety_supervisor/{name}")
        yield profile_of(node)
        node.destroy_node()


def joined(profiles: list[Profile]) -> dict[str, Profile]:
    """Node → all that it has in any of the profiles."""
    of_node = defaultdict(list)
    for profile in profiles:
        of_node[profile.node].append(profile)
    return {
        node: Profile(node, *(frozenset().union(*(getattr(one, rule) for one in some)) for rule in RULES))
        for node, some in of_node.items()
    }


@pytest.mark.timeout(300)
def test_every_node_is_allowed_what_it_has_and_nothing_else(
    domain: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TETHER_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TETHER_KEY_FILE", str(tmp_path / "key"))
    found = list(WHILE_RUNNING.values())
    for words in VARIANTS:
        plan = plan_of(tmp_path, **words)
        with parameters_of(plan, tmp_path, domain):
            found += [*built(plan), *callers()]
    has, may = joined(found), joined([one for profiles in load_policy().values() for one in profiles])
    assert has.keys() == may.keys()
    wrong = [
        f"{node}: {rule} {name}: {'had, not allowed' if name in getattr(has[node], rule) else 'allowed, not had'}"
        for node in sorted(has)
        for rule in RULES
        for name in sorted(getattr(has[node], rule) ^ getattr(may[node], rule))
    ]
    assert not wrong, "config/sros2/robot.policy.xml:\n" + "\n".join(wrong)
