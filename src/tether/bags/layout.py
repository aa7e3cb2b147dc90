"""Which files make up a bag: metadata.yaml where it is sound, what lies in the folder where it is not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from tether.bags.qos import qos_from_text
from tether.bags.report import BagError, Loss, LossKind, LossLog
from tether.bags.sniff import SUFFIXES, looks_like, not_a_bag, sniff
from tether.brief import brief
from tether.config import YAML_DAMAGE
from tether.errors import Fault, InvalidInputError

METADATA = "metadata.yaml"
NEWEST_VERSION = 9
_SIDECARS = ("-wal", "-shm", "-journal")


@dataclass
class Layout:
    """A bag's files, and what its metadata says of them.

    files: those that are there, in recorded order. file_counts, topic_counts: messages by metadata.yaml;
    topic_qos: profiles by topic; all empty where there is no usable metadata. Counts of 0 are left out: a recorder
    that was killed has left the metadata from before its first message.
    """

    files: list[Path]
    file_counts: dict[str, int] = field(default_factory=dict)
    topic_counts: dict[str, int] = field(default_factory=dict)
    topic_qos: dict[str, Any] = field(default_factory=dict)
    total: int | None = None
    custom_data: Mapping[str, Any] = field(default_factory=dict)


def lay_out(path: Path, log: LossLog) -> Layout:
    """Find the files of the bag at `path`. Raises TetherError where there is nothing that could be one."""
    if not path.exists():
        raise InvalidInputError("bag", [Fault(str(path), "nothing there", "a bag's folder or file")], "check the path")
    if path.name == METADATA:
        path = path.parent
    if not path.is_dir():
        if sniff(path) is None:
            raise not_a_bag(path)
        return Layout([path])
    found = _files_in(path, log)
    layout = _from_metadata(path, found, log)
    if not layout.files:
        _refuse_empty(path, found, log)
    return layout


def _files_in(folder: Path, log: LossLog) -> list[Path]:
    """Files of the folder that could be parts of a bag by their name or by their first bytes, in recorded
    order."""
    files = []
    for entry in sorted(folder.iterdir(), key=_natural):
        if entry.is_dir() or entry.name == METADATA or entry.name.endswith(_SIDECARS):
            continue
        if not entry.is_file():
            log.note(f"{entry.name}: left out; it is no regular file but a pipe, socket, device or dangling link")
            continue
        try:
            if entry.suffix in SUFFIXES or sniff(entry) is not None:
                files.append(entry)
        except BagError:
            files.append(entry)
    return files


def _natural(path: Path) -> list[Any]:
    """bag_10 behind bag_9."""
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", path.name)]


def _refuse_empty(folder: Path, found: list[Path], log: LossLog) -> None:
    faults = [Fault(str(folder), "no file of a bag", "an .mcap, .db3 or .bag file")] if not found else []
    faults += [Fault(str(file), looks_like(file), "a part of a bag") for file in found]
    faults += [
        Fault(loss.where, f"nothing there, although {METADATA} names it", "a file of the bag")
        for loss in log.losses
        if loss.kind is LossKind.MISSING_FILE
    ]
    raise InvalidInputError("bag", faults, "name the folder that holds the recorded files, or copy them into it")


def _from_metadata(folder: Path, found: list[Path], log: LossLog) -> Layout:
    info = _read(folder / METADATA, log)
    layout = Layout([])
    named = list(dict.fromkeys(_file_names(info, log)))
    _take_counts(info, layout)
    present = {file.name: file for file in found}
    pairs = [(name, _claim(name, present)) for name in named]
    absent = [name for name, file in pairs if file is None]
    if absent and len(absent) == len(present):
        # As many strangers as absentees: the recorded files were renamed, which metadata.yaml does not
        # follow.
        renamed = dict(zip(absent, present.values(), strict=True))
        present = {}
        for name, stranger in renamed.items():
            log.note(f"{stranger.name}: read in the place of {name}, which {METADATA} names but is not there")
        pairs = [(name, file or renamed[name]) for name, file in pairs]
    for name, file in pairs:
        count = layout.file_counts.get(name, layout.total if len(named) == 1 else None)
        if file is None:
            what = f"{METADATA} names it, but it is not in the folder"
            log.add(Loss(LossKind.MISSING_FILE, name, what, count))
        elif sniff(file) is None:
            _unreadable(file, count, log)
        else:
            layout.files.append(file)
            if count is not None:
                layout.file_counts[file.name] = count
    _take_strangers(layout, present, bool(info), log)
    return layout


def _claim(name: str, present: dict[str, Path]) -> Path | None:
    """Take the file that metadata.yaml calls `name`, also if it was packed or unpacked since (.zstd)."""
    for candidate in (name, f"{name}.zstd", name.removesuffix(".zstd")):
        if candidate in present:
            return present.pop(candidate)
    return None


def _take_strangers(layout: Layout, present: dict[str, Path], described: bool, log: LossLog) -> None:
    """Files that metadata.yaml does not name: a killed recorder never got to naming its last ones."""
    taken = {file.name.removesuffix(".zstd") for file in layout.files}
    for file in present.values():
        if file.name.removesuffix(".zstd") in taken:
            log.note(f"{file.name}: left out; it is another copy of a file that is read")
        elif sniff(file) is None:
            _unreadable(file, None, log)
        else:
            taken.add(file.name.removesuffix(".zstd"))
            layout.files.append(file)
            if described:
                log.note(f"{file.name}: read although {METADATA} does not name it")


def _unreadable(file: Path, count: int | None, log: LossLog) -> None:
    log.add(Loss(LossKind.UNREADABLE_FILE, file.name, looks_like(file), count, file.stat().st_size))


def _read(path: Path, log: LossLog) -> Mapping[str, Any]:
    """The information in metadata.yaml; {} where there is none that can be used, which is noted."""
    if not path.is_file():
        log.note(f"no {METADATA}; the files of the folder are read as they are")
        return {}
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, *YAML_DAMAGE) as error:
        mark = getattr(error, "problem_mark", None)
        at = f" in line {mark.line + 1}" if mark else ""
        log.note(f"{METADATA} is not readable YAML{at}; the files of the folder are read as they are")
        return {}
    info = data.get("rosbag2_bagfile_information") if isinstance(data, dict) else None
    if not isinstance(info, dict):
        what = "is empty" if data is None else "does not describe a bag (no rosbag2_bagfile_information)"
        log.note(f"{METADATA} {what}; the files of the folder are read as they are")
        return {}
    version = info.get("version")
    if not isinstance(version, int) or not 1 <= version <= NEWEST_VERSION:
        log.note(f"{METADATA} has version {brief(version)}, known are 1 to {NEWEST_VERSION}; what is known is used")
    return info


def _listed(info: Mapping[str, Any], key: str) -> list[Any]:
    value = info.get(key)
    return value if isinstance(value, list) else []


def _file_names(info: Mapping[str, Any], log: LossLog) -> list[str]:
    """The names in relative_file_paths; what is no name there is noted."""
    names = []
    for entry in _listed(info, "relative_file_paths"):
        name = PurePosixPath(entry).name if isinstance(entry, str) else ""
        if name:
            names.append(name)
        else:
            log.note(f"{METADATA} has {brief(entry)} among its relative_file_paths, which is no file's name")
    return names


def _take_counts(info: Mapping[str, Any], layout: Layout) -> None:
    """Message counts and QoS, as far as they are well-formed."""
    total = info.get("message_count")
    layout.total = total if _is_count(total) else None
    custom = info.get("custom_data")
    layout.custom_data = custom if isinstance(custom, dict) else {}
    for entry in _listed(info, "files"):
        path = entry.get("path") if isinstance(entry, dict) else None
        if isinstance(path, str) and _is_count(entry.get("message_count")):
            layout.file_counts[PurePosixPath(path).name] = entry["message_count"]
    for entry in _listed(info, "topics_with_message_count"):
        topic = entry.get("topic_metadata") if isinstance(entry, dict) else None
        if not isinstance(topic, dict) or not isinstance(topic.get("name"), str):
            continue
        if _is_count(entry.get("message_count")):
            layout.topic_counts[topic["name"]] = layout.topic_counts.get(topic["name"], 0) + entry["message_count"]
        layout.topic_qos[topic["name"]] = qos_from_text(topic.get("offered_qos_profiles") or "")


def _is_count(value: Any) -> bool:
    """As rosbag2 counts: 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**64
