"""`tether gateway --graph`: calls go to the agent of a running graph by its `ExecuteSkill`, and sensors verify effects.

A goal's id is made of its call's, so that whoever takes over a call can ask the agent what became of it.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from action_msgs.srv import CancelGoal
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from tether_ros import qos
from unique_identifier_msgs.msg import UUID

from tether import topics
from tether.agent.calls import Call, Fact, Feedback, Outcome, Status
from tether.agent.domain import load_domain, parameters_of
from tether.agent.execution import CANCELLED, DEADLINE, REFUSED
from tether.agent.proof import require_proved
from tether.codec import convert, decode
from tether.contracts import Mode
from tether.errors import Fault, InvalidInputError
from tether.gateway.graph import EffectWatch, GraphCatalogue
from tether.gateway.records import Effect
from tether.gateway.services import Services
from tether.launch.ros_log import ensure_log_dir
from tether.topics import Topic
from tether_agent.skill_server import ACTION
from tether_msgs.action import ExecuteSkill

AGENT_LOST = "agent_lost"
_IDS = uuid.UUID("6f2b0d0e-5b0e-4a55-9a3e-2f6a3f0c7d11")
_AGENT_S = 20.0
"""How long a call waits for an agent, and states of its sensors, to be there."""
_STATE_S = 5.0
_ANSWER_S = 10.0
"""How long an agent that was told to end a call may take."""
_ASK_AGAIN_S = 2.0
"""An agent that was started anew never answers the question that its predecessor was asked."""
_LOOK_S = 20.0
_POLL_S = 0.02
_STATUS = {
    ExecuteSkill.Result.SUCCEEDED: Status.DONE,
    ExecuteSkill.Result.FAILED: Status.FAILED,
    ExecuteSkill.Result.REFUSED: Status.FAILED,
    ExecuteSkill.Result.CANCELLED: Status.CANCELLED,
    ExecuteSkill.Result.TIMED_OUT: Status.TIMED_OUT,
    ExecuteSkill.Result.OUTCOME_UNKNOWN: Status.OUTCOME_UNKNOWN,
}


class AgentLink:
    """The client's end of the action, and what the watch is told of; a context, a node and a thread of its own.

    Requests are sent by the thread that spins: rclpy drops an answer that comes before its request is registered.
    """

    def __init__(self, watch: EffectWatch) -> None:
        self._watch = watch
        self._verdict: bytes | None = None
        self._context = rclpy.Context()
        os.environ.setdefault("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        ensure_log_dir()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        node = self._node = rclpy.create_node(f"gateway_{os.getpid()}", context=self._context)
        self._client = ActionClient(node, ExecuteSkill, ACTION)
        self._results = node.create_client(ExecuteSkill.Impl.GetResultService, f"{ACTION}/_action/get_result")
        self._cancels = node.create_client(CancelGoal, f"{ACTION}/_action/cancel_goal")
        self._hear(topics.VERDICT, self._on_verdict)
        self._hear(topics.FUSED_STATE, self._on_state)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(node)
        threading.Thread(target=self._spin, name="agent_link", daemon=True).start()

    def is_ready(self) -> bool:
        """Whether somebody serves the action."""
        return bool(self._client.server_is_ready() and self._results.service_is_ready())

    def send(self, goal: Any, goal_id: UUID, on_feedback: Callable[[Any], None]) -> Any:
        """A future that is done once the agent has the goal, or has had one of this id before."""
        return self._sent(lambda: self._client.send_goal_async(goal, on_feedback, goal_id))

    def result(self, goal_id: UUID) -> Any:
        """A future of status and result; STATUS_UNKNOWN where the agent knows no such goal."""
        request = ExecuteSkill.Impl.GetResultService.Request(goal_id=goal_id)
        return self._sent(lambda: self._results.call_async(request))

    def cancel(self, goal_id: UUID) -> None:
        """Ask for a goal's end."""
        request = CancelGoal.Request()
        request.goal_info.goal_id = goal_id
        self._sent(lambda: self._cancels.call_async(request))

    def _sent(self, request: Callable[[], Any]) -> Any:
        asked = self._executor.create_task(request)
        while not asked.done():
            time.sleep(_POLL_S)
        return asked.result()

    def _hear(self, topic: Topic, heard: Callable[[bytes], None]) -> None:
        """Best effort: a gateway that is stopped holds up nobody who publishes."""
        profile = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=5, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._node.create_subscription(qos.message_class(topic), topic.name, heard, profile, raw=True)

    def _on_verdict(self, raw: bytes) -> None:
        self._verdict = raw

    def _on_state(self, raw: bytes) -> None:
        msg, verdict = decode(raw, topics.FUSED_STATE.type), self._verdict
        mode = Mode.INIT if verdict is None else Mode(decode(verdict, topics.VERDICT.type).mode)
        self._watch.on_state(int(msg.episode), convert.fused_state_from(msg), mode)

    def _spin(self) -> None:
        while self._context.ok():
            self._executor.spin_once(timeout_sec=0.1)


class GraphCalls:
    """Executor and verifier of a gateway's worker. See `tether.agent.calls.Executor` and `EffectVerifier`.

    The robot does one call at a time, and so does a worker; nothing is connected before the first.
    """

    def __init__(self, catalogue: GraphCatalogue) -> None:
        self._domain = catalogue.domain
        self._watch = EffectWatch(self._domain)
        self._turn, self._making = threading.Lock(), threading.Lock()
        self._made: AgentLink | None = None

    def execute(self, call: Call, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]) -> Outcome:
        """See `Executor.execute`. OUTCOME_UNKNOWN where the agent is gone, or knows no more of the call."""
        skill = self._domain.skills.get(call.skill)
        if skill is None:
            raise InvalidInputError("call", [Fault("skill", call.skill, f"one of {', '.join(self._domain.skills)}")])
        parameters_of(skill.parameters, call.parameters, f"skill {skill.name}")
        if not _until(lambda: self._turn.acquire(blocking=False), call, cancelled):
            return _not_begun(call, cancelled)
        try:
            return self._run(call, on_feedback, cancelled)
        finally:
            self._turn.release()

    def verify(self, call: Call) -> tuple[Effect, tuple[Fact, ...]] | Outcome:
        """See `EffectVerifier.verify`: the agent's own outcome where it has one, else what the sensors say.

        An effect that is not seen counts as absent only where the agent says that it no longer works on the call.
        """
        link = self._link()
        until_s = time.monotonic() + _AGENT_S
        while not link.is_ready() and time.monotonic() < until_s:
            time.sleep(_POLL_S)
        response = self._ended(call, link, lambda: False)
        if response is not None and response.status != GoalStatus.STATUS_UNKNOWN:
            # who has just been started knows what the agent answers before it has heard the sensors for long enough
            outcome = _outcome(call, response.result, self._watch.facts(_LOOK_S))
            if outcome.status is Status.DONE:
                return Effect.HAPPENED, outcome.facts
            if outcome.status is not Status.OUTCOME_UNKNOWN:
                return outcome
        effect, facts = self._watch.look(call, _LOOK_S)
        lost = response is None and effect is Effect.ABSENT
        return (Effect.UNKNOWN if lost else effect), facts

    def facts(self, within_s: float) -> tuple[Fact, ...]:
        """What the sensors say now; nothing where they say nothing within that time."""
        self._link()
        return self._watch.facts(within_s)

    def _run(self, call: Call, on_feedback: Callable[[Feedback], None], cancelled: Callable[[], bool]) -> Outcome:
        link = self._link()
        if not _until(lambda: link.is_ready() and self._watch.has_begun(), call, cancelled, _AGENT_S):
            if cancelled() or time.monotonic_ns() >= call.deadline_ns:
                return _not_begun(call, cancelled)
            domain = os.environ.get("ROS_DOMAIN_ID", "0")
            return Outcome(
                call.call_id, Status.FAILED, f"{REFUSED}: no agent with sensors serves {ACTION} in ROS domain {domain}"
            )

        def heard(message: Any) -> None:
            said = message.feedback
            on_feedback(Feedback(call.call_id, said.step, float(said.progress), int(said.attempt)))

        names, values = list(call.parameters), [float(value) for value in call.parameters.values()]
        goal = ExecuteSkill.Goal(
            call_id=call.call_id, task_id=call.task_id, skill=call.skill, param_names=names, param_values=values
        )
        sent = link.send(goal, _goal_id(call), heard)
        until_s = time.monotonic() + _ANSWER_S
        while not sent.done() and time.monotonic() < until_s:
            time.sleep(_POLL_S)
        response = self._ended(call, link, cancelled) if sent.done() else None
        if response is None or response.status == GoalStatus.STATUS_UNKNOWN:
            return Outcome(call.call_id, Status.OUTCOME_UNKNOWN, f"{AGENT_LOST}: it does not answer for the call")
        outcome = _outcome(call, response.result, self._watch.facts(_STATE_S))
        if outcome.status is Status.CANCELLED and not cancelled() and time.monotonic_ns() >= call.deadline_ns:
            return Outcome(call.call_id, Status.TIMED_OUT, DEADLINE, outcome.facts)
        return outcome

    def _ended(self, call: Call, link: AgentLink, cancelled: Callable[[], bool]) -> Any:
        """Status and result of the call's goal, told to end when cancelled or late; None where no agent answers."""
        goal_id = _goal_id(call)
        told_s: float | None = None
        while link.is_ready():
            answer, asked_s = link.result(goal_id), time.monotonic()
            while not answer.done() and time.monotonic() - asked_s < _ASK_AGAIN_S:
                if told_s is None and (cancelled() or time.monotonic_ns() >= call.deadline_ns):
                    link.cancel(goal_id)
                    told_s = time.monotonic()
                time.sleep(_POLL_S)
            if answer.done():
                return answer.result()
            if told_s is not None and time.monotonic() - told_s > _ANSWER_S:
                return None
        return None

    def _link(self) -> AgentLink:
        with self._making:
            if self._made is None:
                self._made = AgentLink(self._watch)
            return self._made


def live() -> Services:
    """The shipped domain on the graph of this process' ROS domain, for `tether gateway --graph`."""
    domain = load_domain()
    require_proved(domain)
    catalogue = GraphCatalogue(domain)
    calls = GraphCalls(catalogue)
    return Services(calls, catalogue, calls, lambda: catalogue.domain, calls.facts)


def _goal_id(call: Call) -> UUID:
    return UUID(uuid=list(uuid.uuid5(_IDS, call.call_id).bytes))


def _until(
    is_so: Callable[[], bool], call: Call, cancelled: Callable[[], bool], within_s: float = float("inf")
) -> bool:
    """Wait; False once the call is cancelled, late, or after `within_s`."""
    until_s = time.monotonic() + within_s
    while not is_so():
        if cancelled() or time.monotonic_ns() >= call.deadline_ns or time.monotonic() >= until_s:
            return False
        time.sleep(_POLL_S)
    return True


def _not_begun(call: Call, cancelled: Callable[[], bool]) -> Outcome:
    if cancelled():
        return Outcome(call.call_id, Status.CANCELLED, CANCELLED)
    return Outcome(call.call_id, Status.TIMED_OUT, DEADLINE)


def _outcome(call: Call, result: Any, facts: tuple[Fact, ...]) -> Outcome:
    """The agent's result as an outcome; failures as `name` or `name: detail`."""
    status = _STATUS[int(result.outcome)]
    if status is Status.DONE:
        return Outcome(call.call_id, status, None, facts)
    mode, detail = result.failure_mode or status.value, result.message
    return Outcome(call.call_id, status, mode if detail in ("", mode) else f"{mode}: {detail}", facts)
