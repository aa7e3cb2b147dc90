"""metadata.yaml of version 9, as ROS 2 Jazzy's rosbag2 writes and reads it.

Layout after rosbag2_storage/include/rosbag2_storage/yaml.hpp (https://github.com/ros2/rosbag2, branch jazzy).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from rosbags.interfaces import Qos

from tether.bags.qos import qos_to_plain
from tether.files import replaced

VERSION = 9
NO_TIME_NS = 2**63 - 1
"""Starting time of a bag without messages, as rosbag2 has it."""


@dataclass(frozen=True)
class TopicEntry:
    """One recorded topic."""

    name: str
    type: str
    qos: Sequence[Qos]
    type_hash: str
    messages: int


@dataclass(frozen=True)
class FileEntry:
    """One file of the recording. start_ns, end_ns: earliest and latest log time, None while it has no message."""

    name: str
    start_ns: int | None
    end_ns: int | None
    messages: int


def describe(
    topics: Sequence[TopicEntry], files: Sequence[FileEntry], custom_data: Mapping[str, str], distro: str
) -> dict[str, Any]:
    """The content of `rosbag2_bagfile_information`."""
    starts = [file.start_ns for file in files if file.start_ns is not None]
    ends = [file.end_ns for file in files if file.end_ns is not None]
    return {
        "version": VERSION,
        "storage_identifier": "mcap",
        **_span(min(starts, default=None), max(ends, default=None)),
        "message_count": sum(file.messages for file in files),
        "topics_with_message_count": [
            {
                "topic_metadata": {
                    "name": topic.name,
                    "type": topic.type,
                    "serialization_format": "cdr",
                    "offered_qos_profiles": qos_to_plain(topic.qos),
                    "type_description_hash": topic.type_hash,
                },
                "message_count": topic.messages,
            }
            for topic in topics
        ],
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [file.name for file in files],
        "files": [
            {"path": file.name, **_span(file.start_ns, file.end_ns), "message_count": file.messages} for file in files
        ],
        "custom_data": dict(custom_data) or None,
        "ros_distro": distro,
    }


def dump(information: Mapping[str, Any]) -> str:
    """As YAML."""
    return yaml.safe_dump(dict(information), sort_keys=False, allow_unicode=True)


def write(folder: Path, information: Mapping[str, Any]) -> None:
    """Write metadata.yaml whole or not at all."""
    with replaced(folder / "metadata.yaml") as file:
        file.write(dump({"rosbag2_bagfile_information": information}).encode())


def _span(start_ns: int | None, end_ns: int | None) -> dict[str, Any]:
    known = start_ns is not None and end_ns is not None
    return {
        "duration": {"nanoseconds": end_ns - start_ns if start_ns is not None and end_ns is not None else 0},
        "starting_time": {"nanoseconds_since_epoch": start_ns if known else NO_TIME_NS},
    }
