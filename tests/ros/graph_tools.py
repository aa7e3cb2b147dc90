"""Listening to a live graph from a test, and reading what one recorded."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.signals import SignalHandlerOptions
from tether_ros import qos

from tether import topics
from tether.bags.reader import open_bag
from tether.codec import decode
from tether.topics import Topic

PATIENCE_S = 90.0
"""Longest wait for anything: a busy machine must not fail a test."""


@dataclass(frozen=True)
class Heard:
    """One message and the steady time at which it came."""

    at_ns: int
    msg: Any


class Listener:
    """A node of the test's own in `domain`: keeps messages of `heard` topics, and who publishes `watched` ones."""

    def __init__(self, domain: int, heard: Iterable[Topic] = (topics.EVENTS,), watched: Iterable[Topic] = ()) -> None:
        self._domain = domain
        self._topics = tuple(heard)
        self._watched = tuple(watched)
        self._messages: dict[str, list[Heard]] = defaultdict(list)
        self.publishers: dict[str, set[str]] = defaultdict(set)
        """Topic → names of the nodes that were seen publishing it."""

    def __enter__(self) -> Listener:
        self._context = rclpy.Context()
        rclpy.init(
            args=[], context=self._context, domain_id=self._domain, signal_handler_options=SignalHandlerOptions.NO
        )
        self._node = rclpy.create_node("listener", context=self._context)
        for topic in self._topics:
            self._subscribe(topic)
        self._node.create_timer(0.05, self._look)
        self._executor = SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name="listener", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(timeout_sec=5.0)
        self._thread.join(timeout=5.0)
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)

    def heard(self, topic: Topic) -> list[Heard]:
        """What has come so far."""
        return list(self._messages[topic.name])

    def events(self, kind: str) -> list[Any]:
        """Events of a kind so far."""
        return [heard.msg for heard in self.heard(topics.EVENTS) if heard.msg.kind == kind]

    def _subscribe(self, topic: Topic) -> None:
        messages = self._messages[topic.name]
        self._node.create_subscription(
            qos.message_class(topic),
            topic.name,
            lambda raw: messages.append(Heard(time.monotonic_ns(), decode(raw, topic.type))),
            qos.subscriber_qos(topic, must_not_lose=True),
            raw=True,
        )

    def named(self, topic: Topic) -> set[str]:
        """Nodes seen publishing a watched topic, without those whose name discovery had not learned yet."""
        return self.publishers[topic.name] - {"_NODE_NAME_UNKNOWN_"}

    def _look(self) -> None:
        for topic in self._watched:
            infos = self._node.get_publishers_info_by_topic(topic.name)
            self.publishers[topic.name] |= {info.node_name for info in infos}

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except ExternalShutdownException:
            return


def wait_for(what: str, is_so: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Wait until `is_so()` is truthy and return it; fails naming `what` after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not (value := is_so()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {patience_s:g} s")
        time.sleep(0.02)
    return value


def messages_of(bag: Path, topic: Topic) -> list[Any]:
    """Every message of a topic in a bag, in order; none where the bag does not have the topic."""
    with open_bag(bag) as reader:
        if topic.name not in reader.topics:
            return []
        return [decode(message.raw, topic.type) for message in reader.messages(topics=[topic.name])]


def counts_of(bag: Path) -> Counter[str]:
    """Topic → number of its messages in a bag."""
    with open_bag(bag) as reader:
        return Counter(message.topic for message in reader.messages())


def processes_in(domain: int) -> list[str]:
    """Processes of launches (`pid name`) whose ROS domain is `domain`."""
    wanted = f"ROS_DOMAIN_ID={domain}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environ = (entry / "environ").read_bytes().split(b"\0")
            name = (entry / "comm").read_text().strip()
        except OSError:
            continue  # ended meanwhile
        if wanted in environ and any(item.startswith(b"TETHER_LAUNCH_ID=") for item in environ):
            found.append(f"{entry.name} {name}")
    return found


def shared_memory_of(domain: int) -> set[Path]:
    """Segments of Fast DDS in /dev/shm that the processes of launches in `domain` map now.

    Not the ports: processes of other domains may take the same ones.
    """
    files = set()
    for process in processes_in(domain):
        try:
            maps = Path("/proc", process.split()[0], "maps").read_text()
        except OSError:
            continue  # ended meanwhile
        files |= {Path(path) for path in re.findall(r"/dev/shm/fast(?:rtps|dds)_[0-9a-f]+(?!\S)", maps)}
    return files


def assert_nothing_is_left(domain: int, shared_memory: Iterable[Path]) -> None:
    """No process of a launch in `domain`, and none of the shared memory that its processes had.

    Call it once the listener is closed: processes of a domain map each other's memory.
    """
    wait_for("end of every process", lambda: not processes_in(domain), 30.0)
    left = [path.name for path in shared_memory if path.exists()]
    assert not left, f"shared memory left behind: {left}"
