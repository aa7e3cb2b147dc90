"""Quality of service as bags record it: rosbag2's YAML to and from `rosbags`' Qos records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2.metadata import dump_qos_v9, parse_qos

from tether.bags.damage import DAMAGE

FOREVER = QosTime(9223372036, 854775807)
"""How rosbag2 writes an infinite duration (2⁶³ − 1 ns)."""

_TEXT_MAX = 100_000
_NESTED_MAX = 400


def make_qos(
    reliable: bool, transient_local: bool = False, depth: int = 10, history: QosHistory = QosHistory.KEEP_LAST
) -> Qos:
    """A profile with everything else at ROS's defaults."""
    return Qos(
        history,
        depth,
        QosReliability.RELIABLE if reliable else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if transient_local else QosDurability.VOLATILE,
        FOREVER,
        FOREVER,
        QosLiveliness.AUTOMATIC,
        FOREVER,
        False,
    )


def qos_from_text(text: str | Sequence[Any]) -> tuple[Qos, ...]:
    """Profiles as a bag recorded them; () where there are none or they make no sense, for a bag is worth
    reading without them."""
    if isinstance(text, str) and (len(text) > _TEXT_MAX or text.count("[") + text.count("{") > _NESTED_MAX):
        return ()  # YAML readers take a time that grows with the square of the depth
    try:
        profiles = tuple(parse_qos(text))  # type: ignore[arg-type]
    except DAMAGE:
        return ()
    return profiles if all(isinstance(one.depth, int) and 0 <= one.depth < 2**31 for one in profiles) else ()


def qos_to_plain(profiles: Sequence[Qos]) -> list[dict[str, Any]]:
    """As metadata.yaml of version 9 has them."""
    return [dict(profile) for profile in dump_qos_v9(list(profiles))]


def qos_to_text(profiles: Sequence[Qos]) -> str:
    """As an MCAP channel's metadata has them."""
    return yaml.safe_dump(qos_to_plain(profiles), sort_keys=False).strip() if profiles else ""
