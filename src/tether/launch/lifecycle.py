"""Bringing lifecycle nodes up in order, watching them, and bringing them down in reverse.

This is the order and the judgement; how a node is reached is the caller's `Remote`. Every wait has a
deadline, and what did not come is named.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from tether.clock import Clock


class State(enum.Enum):
    """Primary states of a lifecycle node (`lifecycle_msgs/msg/State`), and what stands between them."""

    UNKNOWN = "unknown"
    UNCONFIGURED = "unconfigured"
    INACTIVE = "inactive"
    ACTIVE = "active"
    FINALIZED = "finalized"
    CHANGING = "changing"
    GONE = "gone"
    """Offers its lifecycle services no more: its process has ended."""


GONE_S = 1.5
"""So long services must be missing for their node to be gone: a starved node may drop out of discovery and return."""


TWIN = "is there more than once: another graph runs in this ROS domain; end it or set ROS_DOMAIN_ID"


class Transition(enum.Enum):
    """Transitions that the manager asks for."""

    CONFIGURE = "configure"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    SHUTDOWN = "shutdown"

    @property
    def goal(self) -> State:
        """The state it leads to."""
        return _GOALS[self]


_GOALS = {
    Transition.CONFIGURE: State.INACTIVE,
    Transition.ACTIVATE: State.ACTIVE,
    Transition.DEACTIVATE: State.INACTIVE,
    Transition.SHUTDOWN: State.FINALIZED,
}


class Answer(enum.Enum):
    """What came of asking a node for a transition."""

    DONE = "done"
    REFUSED = "refused"
    SILENT = "silent"
    GONE = "gone"
    INTERRUPTED = "interrupted"


class Remote(Protocol):
    """How nodes are reached; an interruptible wait ends early once the manager is told to stop."""

    def await_offer(self, node: str, timeout_s: float) -> Answer:
        """Wait, interruptibly, until the node offers its lifecycle services."""

    def is_alone(self, node: str) -> bool:
        """Return whether no other node answers to that name; what seems so for a moment only does not count."""

    def is_offered(self, node: str) -> bool:
        """Return whether the node offers its lifecycle services now."""

    def change(self, node: str, transition: Transition, timeout_s: float, interruptible: bool) -> Answer:
        """Ask for a transition and wait for the answer; GONE when the node's services vanish meanwhile."""

    def ask_states(self, nodes: Sequence[str], timeout_s: float) -> dict[str, State]:
        """Ask several nodes for their states at once; those that did not answer in time are absent."""


@dataclass(frozen=True)
class Deadlines:
    """Deadlines in seconds.

    `stop_s` is for all nodes together: `ros2 launch` interrupts every process at once, and nodes wait 2 s for
    the manager. A node counts as lost when it has not told its state for `lost_s`.
    """

    offer_s: float
    configure_s: float
    activate_s: float
    stop_s: float
    lost_s: float


@dataclass(frozen=True)
class NodeReport:
    """What is known of a node; `trouble` is empty while all is well."""

    node: str
    state: State
    trouble: str = ""


class NodeFaultError(RuntimeError):
    """A node could not be brought up, or was lost; the message says which and what was awaited."""

    def __init__(self, node: str, message: str) -> None:
        """Keep the node's name."""
        super().__init__(message)
        self.node = node


class Interrupted(Exception):  # noqa: N818 - nothing went wrong
    """The manager was told to stop while it was bringing nodes up."""


class Lineup:
    """The nodes in their order of starting, and what has become of each.

    `report` is called whenever something about a node has changed. A node of `may_finish` may be gone before its answer
    to 'activate' comes: a short bag played fast ends while that answer is on its way, or lost.
    """

    def __init__(
        self,
        nodes: Sequence[str],
        remote: Remote,
        deadlines: Deadlines,
        clock: Clock,
        report: Callable[[NodeReport], None],
        may_finish: Collection[str] = (),
    ) -> None:
        """Refuse an empty list and names that come twice."""
        if not nodes:
            raise ValueError("no nodes to manage; give their names in order of starting")
        twice = sorted({node for node in nodes if list(nodes).count(node) > 1})
        if twice:
            raise ValueError(f"nodes listed more than once: {', '.join(twice)}")
        self._nodes = tuple(nodes)
        self._remote = remote
        self._deadlines = deadlines
        self._clock = clock
        self._report = report
        self._may_finish = frozenset(may_finish)
        self._reports = {node: NodeReport(node, State.UNKNOWN) for node in nodes}
        self._heard_ns: dict[str, int] = {}
        self._missing_since_ns: dict[str, int] = {}
        self._seen: set[str] = set()  # offered their services once
        self._raised: set[str] = set()  # were asked to activate, whatever they answered

    @property
    def reports(self) -> tuple[NodeReport, ...]:
        """What is known of each node, in order of starting."""
        return tuple(self._reports[node] for node in self._nodes)

    def bring_up(self) -> None:
        """Configure every node, then activate every node, in order.

        Raises NodeFaultError at the first that fails, Interrupted when told to stop; brings nothing down.
        """
        for node in self._nodes:
            offer_s = self._deadlines.offer_s
            answer = self._remote.await_offer(node, offer_s)
            if answer is Answer.INTERRUPTED:
                raise Interrupted
            if answer is not Answer.DONE:
                what = f"did not offer its lifecycle services within {offer_s:g} s; does its process run?"
                raise self._fault(node, what)
            self._seen.add(node)
            self._note(node, State.UNCONFIGURED)
            self._change(node, Transition.CONFIGURE, self._deadlines.configure_s)
        for node in self._nodes:
            self._raised.add(node)
            self._change(node, Transition.ACTIVATE, self._deadlines.activate_s)
        now_ns = self._clock.now_ns()
        self._heard_ns = dict.fromkeys(self._nodes, now_ns)

    def bring_down(self) -> list[str]:
        """Deactivate what may be active in reverse order, then finalise all; return who did not confirm.

        A node that stays silent costs its share of the time and no more, so that those before it in the order
        of starting, the safety gate among them, still get theirs. A node whose process is gone is passed by.
        """
        deadline_ns = self._clock.now_ns() + round(self._deadlines.stop_s * 1e9)
        at_rest = (State.UNCONFIGURED, State.INACTIVE, State.FINALIZED)
        raised = [node for node in reversed(self._nodes) if node in self._raised]
        active = [node for node in raised if self._reports[node].state not in at_rest]
        silent = []
        for index, node in enumerate(active):
            # one share more, for finalising
            if not self._stop_one(node, Transition.DEACTIVATE, deadline_ns, len(active) - index + 1):
                silent.append(node)
        rest = [n for n in reversed(self._nodes) if n in self._seen and n not in silent]
        for index, node in enumerate(rest):
            if not self._stop_one(node, Transition.SHUTDOWN, deadline_ns, len(rest) - index):
                silent.append(node)
        return silent

    def watch(self, timeout_s: float) -> list[NodeReport]:
        """Ask every node for its state once; return those that are newly in trouble: lost, or not active."""
        there = [node for node in self._nodes if self._remote.is_offered(node)]
        states = self._remote.ask_states(there, timeout_s)
        now_ns = self._clock.now_ns()
        for node in self._nodes:
            if node in there:
                self._missing_since_ns.pop(node, None)
        troubled = []
        for node in self._nodes:
            twins = states.get(node, State.ACTIVE) is not State.ACTIVE and not self._is_own(node, states, timeout_s)
            if node in states:
                self._heard_ns[node] = now_ns
                state = states[node]
                trouble = "" if state is State.ACTIVE else f"is {state.value}, expected active"
            elif node not in there:
                missing_s = (now_ns - self._missing_since_ns.setdefault(node, now_ns)) / 1e9
                if missing_s < GONE_S:
                    continue
                state, trouble = State.GONE, "offers its lifecycle services no more; its process has ended"
            else:
                silent_s = (now_ns - self._heard_ns[node]) / 1e9
                if silent_s < self._deadlines.lost_s:
                    continue
                state, trouble = State.UNKNOWN, TWIN if twins else f"has not told its state for {silent_s:.1f} s"
            was_well = not self._reports[node].trouble
            self._note(node, state, trouble)
            if trouble and was_well:
                troubled.append(self._reports[node])
        return troubled

    def _is_own(self, node: str, states: dict[str, State], timeout_s: float) -> bool:
        """Whether a state that no node of this graph should be in is its own, not that of another graph's node.

        That other one may have gone while it was looked for: who is left is asked again. What is not known of this
        graph's node is taken out of `states`.
        """
        alone = self._remote.is_alone(node)
        again = self._remote.ask_states([node], timeout_s) if alone else {}
        del states[node]
        states.update(again)
        return alone

    def _change(self, node: str, transition: Transition, seconds: float) -> None:
        self._note(node, State.CHANGING)
        self._require_alone(node)
        answer = self._remote.change(node, transition, seconds, interruptible=True)
        if answer is Answer.INTERRUPTED:
            raise Interrupted
        self._require_alone(node)  # discovery may find the other one late
        if answer is Answer.DONE:
            self._note(node, transition.goal)
            return
        if answer is Answer.GONE:
            if transition is Transition.ACTIVATE and node in self._may_finish:
                self._note(node, State.GONE)  # `watch` tells its end
                return
            raise self._fault(node, f"ended instead of answering '{transition.value}'")
        if answer is Answer.SILENT:
            raise self._fault(node, f"did not answer '{transition.value}' within {seconds:g} s")
        state = self._remote.ask_states([node], 1.0).get(node, State.UNKNOWN)
        self._note(node, state)
        raise self._fault(node, f"refused '{transition.value}' and is {state.value}; its log says why")

    def _require_alone(self, node: str) -> None:
        if not self._remote.is_alone(node):
            self._seen.discard(node)  # going down, it is left alone: the other graph's node would go down with it
            self._raised.discard(node)
            raise self._fault(node, TWIN)

    def _stop_one(self, node: str, transition: Transition, deadline_ns: int, shares: int) -> bool:
        """Ask for a transition with one share of the time left; return False when there is no yes."""
        if not self._remote.is_offered(node):
            return self._gone(node, transition)
        seconds = max(0.0, (deadline_ns - self._clock.now_ns()) / 1e9) / shares
        answer = self._remote.change(node, transition, seconds, interruptible=False)
        if answer is Answer.DONE:
            self._note(node, transition.goal)
            return True
        if answer is Answer.GONE:
            return self._gone(node, transition)
        trouble = f"did not confirm '{transition.value}' within {seconds:.2f} s ({answer.value})"
        self._note(node, State.UNKNOWN, trouble)
        return False

    def _gone(self, node: str, transition: Transition) -> bool:
        """Note that the process of a node has ended, which after deactivation is what was wanted."""
        if transition is Transition.SHUTDOWN and self._reports[node].state is not State.UNKNOWN:
            self._note(node, State.FINALIZED)
        else:
            self._note(node, State.UNKNOWN, "its process has ended")
        return True

    def _fault(self, node: str, what: str) -> NodeFaultError:
        self._note(node, self._reports[node].state, what)
        return NodeFaultError(node, f"node '{node}' {what}")

    def _note(self, node: str, state: State, trouble: str = "") -> None:
        before, self._reports[node] = self._reports[node], NodeReport(node, state, trouble)
        if self._reports[node] != before:
            self._report(self._reports[node])
