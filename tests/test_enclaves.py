"""The policy of SROS 2: who may command motors, whether every process has an enclave, and what a file may not say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tether import topics
from tether.enclaves import Profile, load_policy
from tether.errors import InvalidInputError

LAUNCH = Path(__file__).parents[1] / "launch"
OURS = {topic.name for topic in vars(topics).values() if isinstance(topic, topics.Topic)}
OF_ROS = {"/rosout", "/parameter_events"}


def enclaves_that(rule: str, name: str) -> set[str]:
    return {path for path, some in load_policy().items() for one in some if name in getattr(one, rule)}


def test_only_the_gate_may_command_motors_and_only_the_driver_says_what_was_executed() -> None:
    for topic in (topics.JOINT_COMMAND, topics.CMD_VEL, topics.VERDICT):
        assert enclaves_that("publish", topic.name) == {"/tether/safety_supervisor"}
    assert enclaves_that("publish", topics.EXECUTED.name) == {"/tether/driver"}
    assert enclaves_that("publish", topics.PROPOSED.name) == {"/tether/stages"}


def test_only_the_operator_arms_and_resets_and_only_the_manager_brings_nodes_up_and_down() -> None:
    for service in ("arm", "reset_stop"):
        assert enclaves_that("request", f"/safety_supervisor/{service}") == {"/tether/operator"}
        assert enclaves_that("reply", f"/safety_supervisor/{service}") == {"/tether/safety_supervisor"}
    assert enclaves_that("request", "/driver/change_state") == {"/tether/lifecycle_manager"}


def test_nobody_on_the_robot_may_pay_rewards_or_set_parameters_of_others() -> None:
    assert not enclaves_that("publish", topics.REWARD.name)
    requests = {name for some in load_policy().values() for one in some for name in one.request}
    assert not {name for name in requests if "parameters" in name}


def test_every_topic_of_the_policy_is_in_the_table_of_topics_or_ros_own() -> None:
    for some in load_policy().values():
        for one in some:
            own = {f"/{one.node}/transition_event"}
            assert one.publish | one.subscribe <= OURS | OF_ROS | own, one.node


def test_every_process_of_the_robots_launch_has_an_enclave_of_the_policy() -> None:
    used = set()
    for name in ("graph.launch.xml", "robot.launch.xml"):
        for tag in re.findall(r"<node .*?>", (LAUNCH / name).read_text(), re.DOTALL):
            if 'exec="emulator"' in tag:
                continue  # devices that are emulated have no motors
            (enclave,) = re.findall(r'args="--ros-args --enclave (\S+)"', tag) or ("none",)
            used.add(enclave)
    assert used == load_policy().keys() - {"/tether/operator"}


POLICY = '<policy version="0.2.0"><enclaves>{}</enclaves></policy>'
NODE = '<enclave path="/a"><profiles><profile ns="/" node="n">{}</profile></profiles></enclave>'


def test_names_are_from_the_root(tmp_path: Path) -> None:
    file = tmp_path / "policy.xml"
    some = '<topics publish="ALLOW" subscribe="ALLOW"><topic>~/a</topic><topic>b</topic><topic>/c</topic></topics>'
    file.write_text(POLICY.format(NODE.format(some)))
    names = frozenset({"/n/a", "/b", "/c"})
    assert load_policy(file) == {"/a": (Profile("n", names, names),)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no element found"),
        ("<policy/>", "version None"),
        (POLICY.format('<enclave path="a"><profiles/></enclave>'), "enclave 'a'"),
        (POLICY.format(NODE.format("") * 2), "enclave '/a'"),
        (POLICY.format(NODE.format("").replace('ns="/"', 'ns="/x"')), "node 'n' in '/x'"),
        (POLICY.format(NODE.format('<topics publish="DENY"><topic>/c</topic></topics>')), "publish=DENY"),
        (POLICY.format(NODE.format('<topics reply="ALLOW"><topic>/c</topic></topics>')), "reply=ALLOW"),
        (POLICY.format(NODE.format('<actions call="ALLOW"><action>/c</action></actions>')), "actions call=ALLOW"),
        (POLICY.format(NODE.format("<topics><topic>/c</topic></topics>")), "topics"),
    ],
)
def test_what_is_no_policy_is_refused_by_name(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "policy.xml"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match=re.escape(said)):
        load_policy(file)
