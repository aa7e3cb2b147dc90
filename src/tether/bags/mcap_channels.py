"""Channels of an MCAP file as topics of a bag."""

from __future__ import annotations

from mcap.records import Channel, McapRecord, Schema
from rosbags.typesys.msg import normalize_msgtype

from tether.bags.model import Definition, DefinitionFormat, Encoding, TopicInfo
from tether.bags.qos import qos_from_text

_SCHEMA_FORMATS = {
    "ros2msg": DefinitionFormat.MSG,
    "ros1msg": DefinitionFormat.MSG,
    "ros2idl": DefinitionFormat.IDL,
    "omgidl": DefinitionFormat.IDL,
}
_ENCODINGS = {"cdr": Encoding.CDR, "ros1": Encoding.ROS1, "ros1msg": Encoding.ROS1}


class Channels:
    """Channels of one file by id, as topics. A channel that was redefined (which the format forbids) keeps
    its first form."""

    def __init__(self) -> None:
        self.topics: list[TopicInfo] = []
        self.index: dict[int, int] = {}
        self.schemas: dict[int, Schema] = {}

    def see(self, record: McapRecord) -> None:
        """Take note of a schema or channel."""
        if isinstance(record, Schema):
            self.schemas.setdefault(record.id, record)
        elif isinstance(record, Channel) and record.id not in self.index:
            self.index[record.id] = len(self.topics)
            self.topics.append(_topic(record, self.schemas.get(record.schema_id)))


def _topic(channel: Channel, schema: Schema | None) -> TopicInfo:
    definition = Definition()
    if schema is not None:
        kind = _SCHEMA_FORMATS.get(schema.encoding, DefinitionFormat.NONE)
        definition = Definition(kind, schema.data.decode("utf-8", "replace") if kind else "")
    return TopicInfo(
        name=channel.topic,
        type=normalize_msgtype(schema.name) if schema is not None and schema.name else "(no schema)",
        encoding=_ENCODINGS.get(channel.message_encoding, Encoding.OTHER),
        definition=definition,
        qos=qos_from_text(channel.metadata.get("offered_qos_profiles", "")),
        latched=channel.metadata.get("latching") == "1",
        encoding_name=channel.message_encoding,
    )
