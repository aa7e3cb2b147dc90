"""Messages as bytes: the one path between CDR and the contracts, shared by nodes, bags and replay.

A node takes serialised messages from DDS and a bag holds serialised messages; both are decoded here, so what a live
graph computed can be rebuilt from its recording bit for bit. Serialisation is `rosbags`' own; no ROS is needed.
"""

from tether.codec.store import CODEC_TYPES, decode, encode, message, typestore

__all__ = ["CODEC_TYPES", "decode", "encode", "message", "typestore"]
