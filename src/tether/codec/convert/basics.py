"""Times, sample names, ages and latencies: what the other messages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tether.codec.store import message
from tether.contracts import SampleRef, Stream


def to_time(stamp_ns: int) -> Any:
    """builtin_interfaces/Time from nanoseconds."""
    return message("builtin_interfaces/msg/Time")(*divmod(stamp_ns, 1_000_000_000))


def to_ns(time: Any) -> int:
    """Nanoseconds from builtin_interfaces/Time."""
    return int(time.sec) * 1_000_000_000 + int(time.nanosec)


def ref_message(ref: SampleRef) -> Any:
    """tether_msgs/SampleRef."""
    return message("tether_msgs/msg/SampleRef")(ref.stream.value, to_time(ref.stamp_ns), ref.sequence)


def ref_from(msg: Any) -> SampleRef:
    """From tether_msgs/SampleRef; ValueError for a stream that is not known."""
    return SampleRef(Stream(msg.stream), to_ns(msg.stamp), int(msg.sequence))


def refs_message(refs: Iterable[SampleRef]) -> list[Any]:
    """A list of tether_msgs/SampleRef."""
    return [ref_message(ref) for ref in refs]


def refs_from(messages: Iterable[Any]) -> tuple[SampleRef, ...]:
    """From a list of tether_msgs/SampleRef."""
    return tuple(ref_from(m) for m in messages)


def ages_message(ages: Mapping[Stream, int]) -> list[Any]:
    """A list of tether_msgs/ModalityAge, in order of the modalities' names."""
    kind = message("tether_msgs/msg/ModalityAge")
    return [kind(stream.value, age) for stream, age in sorted(ages.items())]


def ages_from(messages: Iterable[Any]) -> dict[Stream, int]:
    """Modality → age in ns, from a list of tether_msgs/ModalityAge."""
    return {Stream(m.modality): int(m.age_ns) for m in messages}


def latency_fields(latency_ns: Mapping[str, int]) -> tuple[list[str], Any]:
    """Names of stages and their times in ns, as two fields of a message."""
    return list(latency_ns), np.array(list(latency_ns.values()), np.int64)


def latency_from(msg: Any) -> dict[str, int]:
    """Stage → time in ns, from the two fields of a message."""
    return {stage: int(ns) for stage, ns in zip(msg.latency_stages, msg.latency_ns, strict=True)}
