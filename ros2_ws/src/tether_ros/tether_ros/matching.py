"""Whom a node must be matched with before it is activated.

Discovery takes its time, and on a busy machine an announcement that gets lost is repeated only after 3 s (the heartbeat
period of Fast DDS's built-in writers). What a volatile topic carries before its listener is matched never reaches it,
however reliable both are. So it is not enough to wait for the listeners that are known: those of `LISTENERS` that are
part of this graph must be among them, and a recorder must hear all that its bag is to hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from tether import topics
from tether.topics import Topic
from tether_ros import qos
from tether_ros.outlet import Outlet

MATCH_DEADLINE_S = 12.0
"""Four repetitions of an announcement; the manager gives 20 s to activate."""
RECORDER = "recorder"
_LOOK_S = 0.02
_STAGES = frozenset({"imu_ingest", "camera_ingest", "fusion", "policy", "opd_bridge", "primitive_executor"})
_GATE = "safety_supervisor"
_ACTUATORS = frozenset({"world", "driver"})
LISTENERS = {
    topics.IMU: frozenset({"imu_ingest"}),
    topics.CAMERA_INFO: frozenset({"camera_ingest"}),
    topics.JOINT_STATES: frozenset({"fusion", "primitive_executor", _GATE}),
    topics.EPISODE_START: _STAGES | {"agent"},
    topics.EPISODE_END: frozenset({"agent"}),
    topics.EXECUTED: frozenset({"fusion", _GATE, "reward_server"}),
    topics.IMU_BATCH: frozenset({"fusion", "primitive_executor", _GATE}),
    topics.IMAGE_FEATURE: frozenset({"fusion", _GATE}),
    topics.FUSED_STATE: frozenset({"policy", "agent"}),
    topics.SKILL_ORDER: frozenset({"policy", "world"}),
    topics.SKILL_REPORT: frozenset({"agent", "world"}),
    topics.POLICY_OUTPUT: frozenset({"opd_bridge"}),
    topics.DECISION: frozenset({"camera_ingest", "primitive_executor", _GATE}),
    topics.PROPOSED: frozenset({_GATE}),
    topics.JOINT_COMMAND: _ACTUATORS,
    topics.CMD_VEL: _ACTUATORS,
    topics.VERDICT: frozenset({"agent"}),
}
"""Topic → nodes that hear it whatever the policy and the mode are (DESIGN: the way of the data)."""
LISTENERS_IN_LOCKSTEP = {**LISTENERS, topics.TICK_PLAN: _STAGES | {_GATE}}


@dataclass(frozen=True)
class Surroundings:
    """What a node knows of its graph. peers: all its lifecycle nodes; none where a node is started by itself.

    housemates: nodes of the same process, which are handed some topics without DDS.
    """

    peers: frozenset[str] = frozenset()
    housemates: frozenset[str] = frozenset()
    lockstep: bool = False

    def must_hear(self, topic: Topic, handed_over: bool) -> frozenset[str]:
        """Nodes that have to be matched with a publisher of `topic`."""
        listeners = (LISTENERS_IN_LOCKSTEP if self.lockstep else LISTENERS).get(topic, frozenset())
        if topic in topics.RECORDED:
            listeners |= {RECORDER}
        if handed_over:
            listeners -= self.housemates
        return listeners & self.peers


@dataclass(frozen=True)
class Ends:
    """What a node sends and takes. optional: outlets that may go unheard by anybody but the peers that must hear them.

    inlets: topic and number of those that are known to publish it, of those inlets that have to be fed.
    """

    outlets: Sequence[Outlet]
    optional: Collection[Outlet]
    inlets: Sequence[tuple[Topic, Callable[[], int]]]


def await_match(
    node: Node, ends: Ends, around: Surroundings, alone: bool, given_up: Callable[[], str] = str
) -> list[str]:
    """Wait until everybody that must hear is matched; return in words what is not when the deadline is over.

    alone: outlets need nobody but the peers that must hear them, and inlets need not be fed. given_up: why nobody wants
    the node active any more, empty while somebody does; the wait then ends within _LOOK_S and its reason comes first.
    """
    if alone and not around.peers:
        return []
    deadline = time.monotonic() + MATCH_DEADLINE_S
    while True:
        missing = [text for outlet in ends.outlets if (text := _unheard(node, outlet, ends, around, alone))]
        if not alone:
            missing += [f"nobody publishes {topic.name}" for topic, publishers in ends.inlets if not publishers()]
        if not missing or time.monotonic() > deadline:
            return missing
        why = given_up()
        if why:
            return [why, *missing]
        time.sleep(_LOOK_S)


def _unheard(node: Node, outlet: Outlet, ends: Ends, around: Surroundings, alone: bool) -> str:
    """Who does not hear an outlet yet, in words."""
    topic, here = outlet.topic, outlet.is_taken_here()
    known = able_to_hear(node, topic.name, topic.type, qos.publisher_qos(topic))
    absent = around.must_hear(topic, here).difference(known)
    if absent:
        return f"{topic.name} is not heard by {', '.join(sorted(absent))}"
    least = 0 if alone or here or outlet in ends.optional else 1
    wanted = max(least, len(known))
    return f"{topic.name} is heard by {outlet.matched()} of {wanted}" if outlet.matched() < wanted else ""


def is_matched(node: Node, publisher: Publisher, type_name: str) -> bool:
    """Whether all that are known to be able to hear a publisher of messages of that type are matched with it."""
    known = able_to_hear(node, publisher.topic_name, type_name, publisher.qos_profile)
    return bool(publisher.get_subscription_count() >= len(known))


def able_to_hear(node: Node, topic: str, type_name: str, offered: QoSProfile) -> list[str]:
    """Names of the nodes known to subscribe to `topic`, once for each subscription.

    One of another type, or that asks for more than is offered, never hears anything and does not count.
    """
    return [
        info.node_name
        for info in node.get_subscriptions_info_by_topic(topic)
        if info.topic_type == type_name and _suffices(offered, info.qos_profile)
    ]


def _suffices(offered: QoSProfile, asked: QoSProfile) -> bool:
    """As DDS matches them, for publishers that promise no deadline and no liveliness.

    Not `qos_check_compatible`: to it, the infinite deadline that discovery tells asks for more than one that is unset.
    """
    lasting, reliable = DurabilityPolicy.TRANSIENT_LOCAL, ReliabilityPolicy.RELIABLE
    return (asked.durability != lasting or offered.durability == lasting) and (
        asked.reliability != reliable or offered.reliability == reliable
    )
