"""`ExecuteSkill` for the agent's task skills and tasks, on the simulated robot of `tether.agent.services`.

The world runs inside this process, in lockstep with itself; the nodes of the graph take no part.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import rclpy
from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, MultiThreadedExecutor
from rclpy.node import Node

from tether.agent.calls import Call, Executor, Feedback, Outcome, Status
from tether.agent.domain import load_domain
from tether.agent.execution import REFUSED
from tether.agent.proof import require_proved
from tether.agent.services import SimulatedAgent
from tether.errors import InvalidInputError, TetherError
from tether.launch.ros_log import ensure_log_dir
from tether_msgs.action import ExecuteSkill

ACTION = "execute_skill"
_THREADS = 8
"""Goals that may wait for the robot at once; cancel requests and new goals are answered by what is left of them."""

_OUTCOMES = {
    Status.DONE: ExecuteSkill.Result.SUCCEEDED,
    Status.FAILED: ExecuteSkill.Result.FAILED,
    Status.CANCELLED: ExecuteSkill.Result.CANCELLED,
    Status.TIMED_OUT: ExecuteSkill.Result.TIMED_OUT,
    Status.OUTCOME_UNKNOWN: ExecuteSkill.Result.OUTCOME_UNKNOWN,
}


class SkillServer(Node):
    """Hands goals to an executor. A goal whose call_id was here before gets the outcome that it had then."""

    def __init__(self, executor: Executor, deadline_s: float = 120.0) -> None:
        """deadline_s: from goal to result, whatever the skill's own limits add up to."""
        super().__init__("skill_server")
        self._agent = executor
        self._deadline_ns = round(deadline_s * 1e9)
        self._server = ActionServer(
            self,
            ExecuteSkill,
            ACTION,
            self._execute,
            cancel_callback=lambda goal: CancelResponse.ACCEPT,
            callback_group=ReentrantCallbackGroup(),
        )

    def destroy_node(self) -> None:
        """The action server first."""
        self._server.destroy()
        super().destroy_node()

    def _execute(self, goal: Any) -> Any:
        request, begun_ns = goal.request, time.monotonic_ns()
        parameters = dict(zip(request.param_names, request.param_values, strict=False))
        call = Call(
            request.call_id, request.task_id, request.skill, parameters, time.monotonic_ns() + self._deadline_ns
        )
        heard = _Heard(goal.publish_feedback)
        try:
            if len(request.param_names) != len(request.param_values) or not request.call_id:
                raise ValueError("a goal needs a call_id, and as many values as names of parameters")
            outcome = self._agent.execute(call, heard, lambda: bool(goal.is_cancel_requested))
        except (InvalidInputError, ValueError) as error:
            goal.abort()
            return _result(ExecuteSkill.Result.REFUSED, REFUSED, str(error), 0, begun_ns)
        return self._ended(goal, outcome, heard.retries, begun_ns)

    def _ended(self, goal: Any, outcome: Outcome, retries: int, begun_ns: int) -> Any:
        code = _OUTCOMES[outcome.status]
        failure = outcome.failure or ""
        mode, _, rest = failure.partition(": ")
        if mode == REFUSED:
            code = ExecuteSkill.Result.REFUSED
        if outcome.status is Status.DONE:
            goal.succeed()
        elif outcome.status is Status.CANCELLED and goal.is_cancel_requested:
            goal.canceled()
        else:
            goal.abort()
        return _result(code, mode, rest or failure, retries, begun_ns)


class _Heard:
    """Passes feedback on, and counts the attempts beyond each skill's first."""

    def __init__(self, publish: Callable[[Any], None]) -> None:
        self._publish = publish
        self._attempts: dict[str, int] = {}

    @property
    def retries(self) -> int:
        """Attempts beyond the first, of all skills."""
        return sum(attempt - 1 for attempt in self._attempts.values())

    def __call__(self, said: Feedback) -> None:
        self._attempts[said.step] = max(said.attempt, self._attempts.get(said.step, 1))
        message = ExecuteSkill.Feedback(step=said.step, progress=float(said.progress), attempt=said.attempt)
        self._publish(message)


def _result(code: int, mode: str, message: str, retries: int, begun_ns: int) -> Any:
    duration_s = (time.monotonic_ns() - begun_ns) * 1e-9
    return ExecuteSkill.Result(outcome=code, failure_mode=mode, message=message, retries=retries, duration_s=duration_s)


def spin(node: Node, until: threading.Event | None = None) -> None:
    """Serve until ROS shuts down, or until the event is set."""
    executor = MultiThreadedExecutor(_THREADS)
    executor.add_node(node)
    try:
        while rclpy.ok() and not (until is not None and until.is_set()):
            executor.spin_once(timeout_sec=0.1)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        executor.shutdown(timeout_sec=5.0)


def main() -> None:
    """Entry point; exit status 2 where the domain is not proved."""
    ensure_log_dir()
    rclpy.init()
    agent: SimulatedAgent | None = None
    node: SkillServer | None = None
    try:
        domain = load_domain()
        require_proved(domain)
        agent = SimulatedAgent(domain)
        node = SkillServer(agent)
        spin(node)
    except TetherError as error:
        rclpy.logging.get_logger("tether_agent").fatal(str(error))
        sys.exit(2)
    finally:
        if node is not None:
            node.destroy_node()
        if agent is not None:
            agent.close()
        rclpy.try_shutdown()


if __name__ == "__main__":
    main()
