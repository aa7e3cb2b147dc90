"""Recorded messages as ROS 2 CDR of today's types: what a live graph can take.

A ROS 2 message whose type has not changed passes untouched. ROS 1 messages, and messages of types that have
changed since they were recorded, are migrated field by field as `rosbags` does it: fields of the same name
are kept, fields renamed without a change of type are followed, new ones get their default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rosbags.convert.converter import STATIC_MSGTYPE_RENAMES, is_same_wireformat, migrate_bytes
from rosbags.typesys import Stores, get_typestore
from rosbags.typesys.store import Typestore

from tether.bags.damage import DAMAGE, short_reason
from tether.bags.definitions import HEADER, ResolvedType
from tether.bags.model import Encoding
from tether.bags.report import CorruptMessageError


class Transcoder:
    """Turns the messages of one topic into CDR. recorded: the type they have in the bag; type: the ROS 2 type that
    comes out; changed: whether the bytes may differ from the recorded ones.
    """

    def __init__(self, resolved: ResolvedType, target: Typestore) -> None:
        self.recorded = resolved.name
        self.type = STATIC_MSGTYPE_RENAMES.get(resolved.name, resolved.name)
        self._convert, self.changed = _converter(resolved, target, self.type)

    def __call__(self, raw: bytes) -> bytes:
        """CDR of one message. Raises CorruptMessageError for bytes that do not fit the recorded type."""
        try:
            return self._convert(raw)
        except DAMAGE as error:
            why = f"{self.type}: cannot be turned into CDR ({short_reason(error)})"
            raise CorruptMessageError(why) from error


def _converter(resolved: ResolvedType, target: Typestore, name: str) -> tuple[Callable[[bytes], bytes], bool]:
    is_ros2 = resolved.encoding is Encoding.CDR
    if name not in target.fielddefs:
        # Only the bag knows this type, so its own layout is the one to publish.
        return (bytes, False) if is_ros2 else (_direct(_with_ros2_header(resolved.store), resolved.name), True)
    if is_same_wireformat(resolved.store, target, resolved.name, name):
        return (bytes, False) if is_ros2 else (_direct(target, name), True)
    cache: dict[str, Any] = {}
    source, recorded = resolved.store, resolved.name

    def migrate(raw: bytes) -> bytes:
        return bytes(migrate_bytes(source, target, recorded, name, cache, raw, src_is2=is_ros2, dst_is2=True))

    return migrate, True


def _with_ros2_header(store: Typestore) -> Typestore:
    """A store of the same types except for the header, which has no `seq` in ROS 2."""
    changed = get_typestore(Stores.EMPTY)
    header = get_typestore(Stores.ROS2_JAZZY).fielddefs[HEADER]
    changed.register({**store.fielddefs, HEADER: header})
    return changed


def _direct(store: Typestore, name: str) -> Callable[[bytes], bytes]:
    return lambda raw: bytes(store.ros1_to_cdr(raw, name))
