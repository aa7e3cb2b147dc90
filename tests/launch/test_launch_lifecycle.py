"""Order and judgement of the lifecycle manager, against nodes of cardboard and a clock moved by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tether.clock import ManualClock
from tether.launch.lifecycle import GONE_S, Answer, Deadlines, Interrupted, Lineup, NodeFaultError, State, Transition

NODES = ["world", "gate", "fusion", "policy"]
DEADLINES = Deadlines(offer_s=20.0, configure_s=30.0, activate_s=10.0, stop_s=1.8, lost_s=3.0)


class Cardboard:
    """Nodes that do as told, but for those in `refuses`, `silent`, `leaves` (transition by node) and `absent`."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.asked: list[str] = []
        self.states: dict[str, State] = {}
        self.refuses: dict[str, Transition] = {}
        self.silent: dict[str, Transition] = {}
        self.leaves: dict[str, Transition] = {}
        self.absent: set[str] = set()
        self.mute: set[str] = set()
        self.twins: set[str] = set()
        self.interrupt_at = ""

    def pass_time(self, seconds: float) -> None:
        self.clock.set_ns(self.clock.now_ns() + round(seconds * 1e9))

    def await_offer(self, node: str, timeout_s: float) -> Answer:
        if node not in self.absent:
            return Answer.DONE
        self.pass_time(timeout_s)
        return Answer.SILENT

    def is_alone(self, node: str) -> bool:
        return node not in self.twins

    def is_offered(self, node: str) -> bool:
        return node not in self.absent

    def change(self, node: str, transition: Transition, timeout_s: float, interruptible: bool) -> Answer:
        word = f"{transition.value} {node}"
        self.asked.append(word)
        if interruptible and word == self.interrupt_at:
            return Answer.INTERRUPTED
        if self.refuses.get(node) is transition:
            return Answer.REFUSED
        if self.leaves.get(node) is transition:
            self.absent.add(node)
            return Answer.GONE
        if self.silent.get(node) is transition:
            self.pass_time(timeout_s)
            return Answer.SILENT
        self.pass_time(0.01)
        self.states[node] = transition.goal
        return Answer.DONE

    def ask_states(self, nodes: Sequence[str], timeout_s: float) -> dict[str, State]:
        if set(nodes) & self.mute:
            self.pass_time(timeout_s)
        return {node: self.states.get(node, State.UNCONFIGURED) for node in nodes if node not in self.mute}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def remote(clock) -> Cardboard:
    return Cardboard(clock)


@pytest.fixture
def lineup(remote, clock) -> Lineup:
    return Lineup(NODES, remote, DEADLINES, clock, lambda report: None)


def test_all_are_configured_before_any_is_activated_and_down_goes_in_reverse(lineup, remote):
    lineup.bring_up()
    up = [f"{word} {node}" for word in ("configure", "activate") for node in NODES]
    assert remote.asked == up
    remote.asked.clear()
    assert lineup.bring_down() == []
    down = [f"{word} {node}" for word in ("deactivate", "shutdown") for node in reversed(NODES)]
    assert remote.asked == down
    assert {report.state for report in lineup.reports} == {State.FINALIZED}


def test_node_that_refuses_is_named_and_only_what_is_up_goes_down(lineup, remote):
    remote.refuses["fusion"] = Transition.ACTIVATE
    with pytest.raises(NodeFaultError, match="'fusion' refused 'activate' and is inactive") as raised:
        lineup.bring_up()
    assert raised.value.node == "fusion"
    remote.asked.clear()
    assert lineup.bring_down() == []
    assert remote.asked[:2] == ["deactivate gate", "deactivate world"]
    assert sorted(remote.asked[2:]) == [f"shutdown {node}" for node in ("fusion", "gate", "policy", "world")]


def test_node_that_may_finish_and_has_gone_before_its_answer_came_has_finished_and_no_other_one_has(remote, clock):
    lineup = Lineup(NODES, remote, DEADLINES, clock, lambda report: None, may_finish=["policy"])
    remote.leaves["policy"] = Transition.ACTIVATE
    lineup.bring_up()
    assert lineup.watch(1.0) == []
    remote.pass_time(GONE_S)
    assert [(report.node, report.state) for report in lineup.watch(1.0)] == [("policy", State.GONE)]
    assert lineup.bring_down() == []
    for node, transition in (("policy", Transition.CONFIGURE), ("fusion", Transition.ACTIVATE)):
        remote.absent.clear()
        remote.leaves = {node: transition}
        with pytest.raises(NodeFaultError, match=f"'{node}' ended instead of answering"):
            Lineup(NODES, remote, DEADLINES, clock, lambda report: None, may_finish=["policy"]).bring_up()


def test_name_that_two_nodes_answer_to_is_a_fault_and_the_other_graphs_node_is_left_alone(lineup, remote):
    remote.twins.add("gate")
    with pytest.raises(NodeFaultError, match="'gate' is there more than once: another graph runs"):
        lineup.bring_up()
    assert lineup.bring_down() == []
    assert not [word for word in remote.asked if word.endswith("gate")]


def test_answer_of_another_graphs_node_does_not_end_this_graph_before_its_own_is_silent_for_long(lineup, remote):
    lineup.bring_up()
    remote.twins.add("gate")
    remote.states["gate"] = State.UNCONFIGURED
    assert lineup.watch(1.0) == []
    remote.states["gate"] = State.ACTIVE
    remote.pass_time(DEADLINES.lost_s)
    assert lineup.watch(1.0) == []
    remote.states["gate"] = State.UNCONFIGURED
    remote.pass_time(DEADLINES.lost_s)
    (report,) = lineup.watch(1.0)
    assert report.node == "gate" and report.state is State.UNKNOWN
    assert "another graph runs in this ROS domain" in report.trouble
    assert lineup.watch(1.0) == [], "it is told once"


def test_answer_of_another_graphs_node_that_has_gone_meanwhile_is_not_taken_for_this_graphs(lineup, remote):
    lineup.bring_up()
    asked, states = [], remote.ask_states
    remote.states["gate"] = State.UNCONFIGURED

    def ask_states(nodes: Sequence[str], timeout_s: float) -> dict[str, State]:
        asked.append(nodes)
        if len(asked) == 2:
            remote.states["gate"] = State.ACTIVE
        return states(nodes, timeout_s)

    remote.ask_states = ask_states
    assert lineup.watch(1.0) == []
    assert list(asked[1]) == ["gate"]
    remote.states["gate"] = State.INACTIVE
    assert [(report.node, report.trouble) for report in lineup.watch(1.0)] == [("gate", "is inactive, expected active")]


def test_node_that_never_comes_is_named_with_the_deadline(lineup, remote):
    remote.absent.add("gate")
    with pytest.raises(NodeFaultError, match="'gate' did not offer its lifecycle services within 20 s"):
        lineup.bring_up()
    assert lineup.bring_down() == []
    assert remote.states["world"] is State.FINALIZED


def test_node_that_does_not_answer_is_named_with_what_was_awaited(lineup, remote):
    remote.silent["policy"] = Transition.CONFIGURE
    with pytest.raises(NodeFaultError, match="'policy' did not answer 'configure' within 30 s"):
        lineup.bring_up()


def test_node_that_may_have_become_active_unheard_is_deactivated(lineup, remote):
    remote.silent["policy"] = Transition.ACTIVATE
    with pytest.raises(NodeFaultError, match="'policy' did not answer 'activate' within 10 s"):
        lineup.bring_up()
    remote.asked.clear()
    assert lineup.bring_down() == []
    assert remote.asked[0] == "deactivate policy"


def test_node_that_ends_while_it_is_configured_is_named_without_waiting(lineup, remote, clock):
    remote.leaves["fusion"] = Transition.CONFIGURE
    with pytest.raises(NodeFaultError, match="'fusion' ended instead of answering 'configure'"):
        lineup.bring_up()
    assert clock.now_ns() < 1e9


def test_nodes_that_end_once_they_are_inactive_have_confirmed(lineup, remote):
    lineup.bring_up()
    remote.leaves = {"world": Transition.SHUTDOWN, "policy": Transition.SHUTDOWN}
    assert lineup.bring_down() == []
    assert {(report.state, report.trouble) for report in lineup.reports} == {(State.FINALIZED, "")}


def test_silent_nodes_leave_the_gate_its_time(lineup, remote, clock):
    lineup.bring_up()
    remote.silent = {"policy": Transition.DEACTIVATE, "fusion": Transition.DEACTIVATE}
    begun = clock.now_ns()
    assert lineup.bring_down() == ["policy", "fusion"]
    assert remote.states["gate"] is State.FINALIZED
    assert remote.states["world"] is State.FINALIZED
    assert clock.now_ns() - begun < DEADLINES.stop_s * 1e9


def test_interruption_during_bring_up_stops_it_and_down_still_works(lineup, remote):
    remote.interrupt_at = "configure fusion"
    with pytest.raises(Interrupted):
        lineup.bring_up()
    assert lineup.bring_down() == []
    assert remote.states["world"] is State.FINALIZED


def test_node_that_leaves_active_is_reported_once(lineup, remote):
    lineup.bring_up()
    assert lineup.watch(0.5) == []
    remote.states["fusion"] = State.UNCONFIGURED
    (report,) = lineup.watch(0.5)
    assert (report.node, report.trouble) == ("fusion", "is unconfigured, expected active")
    assert lineup.watch(0.5) == []
    remote.states["fusion"] = State.ACTIVE
    assert lineup.watch(0.5) == []
    assert all(not report.trouble for report in lineup.reports)


def test_silent_node_is_lost_after_its_deadline_and_not_before(lineup, remote):
    lineup.bring_up()
    remote.mute.add("policy")
    assert lineup.watch(1.0) == []
    assert lineup.watch(1.0) == []
    (report,) = lineup.watch(1.5)
    assert report.node == "policy"
    assert "has not told its state for 3.5 s" in report.trouble


def test_node_that_drops_out_of_discovery_for_a_moment_has_not_ended(lineup, remote):
    lineup.bring_up()
    for _ in range(3):
        remote.absent.add("world")
        assert lineup.watch(0.5) == []
        remote.pass_time(GONE_S - 0.1)
        assert lineup.watch(0.5) == []
        remote.absent.clear()
        assert lineup.watch(0.5) == []


def test_silence_is_not_taken_for_an_end(lineup, remote):
    lineup.bring_up()
    remote.mute.add("world")
    remote.pass_time(60.0)
    (report,) = lineup.watch(0.5)
    assert report.state is State.UNKNOWN


def test_node_whose_process_ended_is_gone_within_moments(lineup, remote):
    lineup.bring_up()
    remote.absent.add("world")
    assert lineup.watch(0.5) == []
    remote.pass_time(GONE_S)
    (report,) = lineup.watch(0.5)
    assert (report.node, report.state) == ("world", State.GONE)
    assert "its process has ended" in report.trouble
    remote.asked.clear()
    assert lineup.bring_down() == []
    assert not [word for word in remote.asked if "world" in word]


def test_empty_and_doubled_lists_are_refused(remote, clock):
    with pytest.raises(ValueError, match="no nodes"):
        Lineup([], remote, DEADLINES, clock, lambda report: None)
    with pytest.raises(ValueError, match="more than once: a"):
        Lineup(["a", "b", "a"], remote, DEADLINES, clock, lambda report: None)
