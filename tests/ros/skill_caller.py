"""A client of the `ExecuteSkill` action for tests: goals, results and cancellations, each waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import rclpy
from graph_tools import wait_for
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

from tether_msgs.action import ExecuteSkill

_PATIENCE_S = 300.0


class SkillCaller:
    """A node of the test's own in `domain`, in a context of its own.

    Requests are sent by the thread that spins. rclpy's action client registers a request only after it was sent; an
    answer that another thread took in between is dropped ("Ignoring unexpected goal response"), and the call is lost.
    """

    def __init__(self, domain: int, action: str) -> None:
        self._domain, self._action = domain, action
        self.feedback: list[Any] = []
        """Feedback of every goal, in the order in which it came."""

    def __enter__(self) -> SkillCaller:
        self._context = rclpy.Context()
        signals = SignalHandlerOptions.NO
        rclpy.init(args=[], context=self._context, domain_id=self._domain, signal_handler_options=signals)
        self._node = rclpy.create_node("caller", context=self._context)
        self._client = ActionClient(self._node, ExecuteSkill, self._action)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()
        try:
            wait_for("the action server", self._client.server_is_ready)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        self._thread.join(10.0)
        self._client.destroy()
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)

    def send(self, call_id: str, skill: str, **parameters: float) -> Any:
        """Send a goal; returns its handle once the server has answered."""
        names, values = list(parameters), [float(value) for value in parameters.values()]
        goal = ExecuteSkill.Goal(call_id=call_id, task_id="t", skill=skill, param_names=names, param_values=values)
        return self._answer(lambda: self._client.send_goal_async(goal, self.feedback.append))

    def cancel(self, handle: Any) -> Any:
        """Ask for a goal's end; returns the server's answer to that."""
        return self._answer(handle.cancel_goal_async)

    def result(self, handle: Any) -> Any:
        """Wait for the end of a goal; returns its status and result."""
        return self._answer(handle.get_result_async)

    def _answer(self, request: Callable[[], Future]) -> Any:
        asked = self._executor.create_task(request)
        wait_for("a request to be sent", asked.done)
        answer: Future = asked.result()
        wait_for("an answer", answer.done, _PATIENCE_S)
        return answer.result()

    def _spin(self) -> None:
        while not self._over.is_set():
            self._executor.spin_once(timeout_sec=0.1)
