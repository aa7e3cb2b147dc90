"""The executor of the graph's processes: what rclpy's own does for one thread, with less work around it.

rclpy's executor lists every entity anew for each wait, takes one message a wait, and wakes itself up for every message
it has handled; at the graph's rates that was more work than the stages' own (for a node of 8 subscriptions and 12
services a wait that finds nothing takes it 220 µs, this one 60 µs). Here the list is kept until an entity comes or
goes, and one wait is followed by everything that is there. What is rare (clients, guard conditions, QoS events, tasks)
is left to rclpy, and looked at every LOOK_S. It builds on what `rclpy.executors.Executor` of Jazzy gives its
subclasses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from itertools import chain
from typing import Any

from rclpy.exceptions import InvalidHandle
from rclpy.executors import (
    ExternalShutdownException,
    ShutdownException,
    SingleThreadedExecutor,
    TimeoutException,
)
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.service import Service
from rclpy.subscription import Subscription
from rclpy.timer import Timer

from tether_ros.inlet import AT_ONCE

LOOK_S = 0.5
"""How often what is rare is looked at."""


class DrainingExecutor(SingleThreadedExecutor):
    """For one thread, and callbacks that are plain functions. Timers come first, then services, then messages.

    A subscription's messages keep their order; nothing is promised between subscriptions, as with rclpy's.
    after_each: called after every callback.
    """

    def __init__(self, after_each: Callable[[], None]) -> None:
        super().__init__()
        self._after_each = after_each
        self._changed = True
        self._look_at_s = 0.0
        self._subs: list[Subscription[Any]] = []
        self._timers: list[Timer] = []
        self._services: list[Service[Any, Any]] = []

    def add_node(self, node: Any) -> bool:
        """As rclpy's."""
        self._changed = True
        return super().add_node(node)

    def remove_node(self, node: Any) -> None:
        """As rclpy's."""
        self._changed = True
        super().remove_node(node)

    def wake(self) -> None:
        """Nodes call this where an entity of theirs comes or goes."""
        self._changed = True
        super().wake()

    def can_execute(self, entity: Any) -> bool:
        """What is left to rclpy's own wait."""
        return not isinstance(entity, Subscription | Timer | Service) and super().can_execute(entity)

    def spin_once(self, timeout_sec: float | None = None) -> None:
        """Wait until something is there or the time is over, and do all that is there.

        Raises ExternalShutdownException where the context has been shut down, and whatever a callback raises.
        """
        now_s = time.monotonic()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_S
            self._do_what_is_rare()
        if self._changed:
            self._changed = False
            self._list_entities()
        wait_set = self._wait(-1 if timeout_sec is None else int(timeout_sec * 1e9))
        if wait_set is None:
            return
        timers = _those(wait_set.get_ready_entities("timer"), self._timers)
        services = _those(wait_set.get_ready_entities("service"), self._services)
        subscriptions = _those(wait_set.get_ready_entities("subscription"), self._subs)
        for timer in timers:
            if _is_ready(timer):
                self._run(self._take_timer(timer))
        for service in services:
            self._run(self._take_service(service))
        for subscription in subscriptions:
            for _ in range(AT_ONCE):
                if not self._run(self._take_subscription(subscription)):
                    break

    # -- inside -----------------------------------------------------------------------------------------------------

    def _list_entities(self) -> None:
        nodes = self.get_nodes()
        self._subs = list(chain.from_iterable(node.subscriptions for node in nodes))
        self._timers = list(chain.from_iterable(node.timers for node in nodes))
        self._services = list(chain.from_iterable(node.services for node in nodes))

    def _wait(self, timeout_ns: int) -> Any:
        """The wait set once something is ready; None where an entity has gone meanwhile."""
        if not self._context.ok():
            raise ExternalShutdownException
        context = self._context.handle
        with context:
            wait_set = _rclpy.WaitSet(len(self._subs), 1, len(self._timers), 0, len(self._services), 0, context)
            wait_set.clear_entities()
            try:
                for subscription in self._subs:
                    wait_set.add_subscription(subscription.handle)
                for timer in self._timers:
                    wait_set.add_timer(timer.handle)
                for service in self._services:
                    wait_set.add_service(service.handle)
            except InvalidHandle:
                self._changed = True
                return None
            wait_set.add_guard_condition(self._guard.handle)
            wait_set.wait(timeout_ns)
        if not self._context.ok():
            raise ExternalShutdownException
        return wait_set

    def _do_what_is_rare(self) -> None:
        while True:
            try:
                task, _, _ = self.wait_for_ready_callbacks(timeout_sec=0.0)
            except (TimeoutException, ShutdownException):
                return
            task()
            task.result()  # raises what it raised

    def _run(self, take: Callable[[], Coroutine[Any, Any, None]] | None) -> bool:
        """Run what was taken, to its end; False where nothing was."""
        if take is None:
            return False
        try:
            take().send(None)
        except StopIteration:
            self._after_each()
            return True
        raise TypeError("a callback awaits something; this executor's are plain functions")


def _those(ready: list[int], entities: list[Any]) -> list[Any]:
    """The entities whose pointers rcl's wait has left."""
    return [entity for entity in entities if entity.handle.pointer in ready] if ready else []


def _is_ready(timer: Timer) -> bool:
    """Whether it is; one that a callback before it has destroyed or cancelled is not."""
    try:
        with timer.handle:
            return bool(timer.handle.is_timer_ready())
    except InvalidHandle:
        return False
