"""What of a bag can be played to a ROS graph: topics with names that ROS allows, at times that /clock can carry."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

MAX_CLOCK_NS = (2**31 - 1) * 10**9 + 999_999_999
"""/clock is a builtin_interfaces/Time: seconds are an int32."""
_TOPIC_NAME = re.compile(r"/[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")


def is_topic_name(name: str) -> bool:
    """Whether ROS 2 allows `name` for a topic, written absolutely.

    https://design.ros2.org/articles/topic_and_service_names.html
    """
    return _TOPIC_NAME.fullmatch(name) is not None and "__" not in name


def played_names(recorded: Collection[str], remap: Mapping[str, str]) -> dict[str, str]:
    """Recorded name → name to play under: what `remap` says, else the same.

    A relative name (`imu`, as scripts write into bags) starts at the root, as for `rosbag play` and `ros2 bag play`,
    unless the bag has that topic, too.
    """
    names = {}
    for name in recorded:
        absolute = f"/{name}"
        is_relative = is_topic_name(absolute) and absolute not in recorded
        names[name] = remap.get(name, absolute if is_relative else name)
    return names


def is_clock_time(time_ns: int) -> bool:
    """Whether /clock can carry the time."""
    return 0 <= time_ns <= MAX_CLOCK_NS


def visible(text: str) -> str:
    """`text` with its control characters written as escapes, so that a name can forge no line and no colour."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
