"""The type store: ROS 2 Jazzy's types and tether_msgs, and (de)serialisation of CDR by type name."""

from __future__ import annotations

from functools import cache
from typing import Any

from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from tether.resources import resource_path

CODEC_TYPES = "tether_msgs"
"""Name of the interface package whose .msg files extend the store."""


@cache
def typestore() -> Typestore:
    """ROS 2 Jazzy's message types plus tether_msgs, read from its .msg files; made once per process."""
    store = get_typestore(Stores.ROS2_JAZZY)
    types: dict[str, Any] = {}
    for path in sorted(resource_path("msg").glob("*.msg")):
        types.update(get_types_from_msg(path.read_text(encoding="utf-8"), f"{CODEC_TYPES}/msg/{path.stem}"))
    store.register(types)
    return store


def message(type_name: str) -> Any:
    """The message class for a full type name such as `tether_msgs/msg/Decision`."""
    return typestore().types[type_name]


def encode(msg: Any) -> bytes:
    """Little-endian CDR of a message built from `message(...)`."""
    return bytes(typestore().serialize_cdr(msg, msg.__msgtype__))


def decode(raw: bytes | memoryview, type_name: str) -> Any:
    """The message in `raw`; arrays are views into it. Raises ValueError where the bytes do not fit the type."""
    try:
        return typestore().deserialize_cdr(raw, type_name)
    except Exception as error:  # rosbags raises many kinds for malformed input (struct, index, unicode, assertion)
        raise ValueError(f"{type_name}: {len(raw)} bytes are not a message of this type ({error!r})") from error
