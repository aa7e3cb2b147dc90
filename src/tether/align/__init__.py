"""Time alignment: buffers by stamp and arrival, and the matching of streams into sets."""

from tether.align.aligned import AlignedBuffer, Arrived, Snapshot, StreamSpec
from tether.align.buffer import (
    AsOf,
    BufferConfig,
    BufferStats,
    Duplicates,
    Entry,
    Inserted,
    Quality,
    StreamBuffer,
)
from tether.align.interpolate import IMU, JOINTS, TRUTH, Interpolator, by_field, linear, planar_pose, rotation
from tether.align.matcher import ApproximateMatcher

__all__ = [
    "IMU",
    "JOINTS",
    "TRUTH",
    "AlignedBuffer",
    "ApproximateMatcher",
    "Arrived",
    "AsOf",
    "BufferConfig",
    "BufferStats",
    "Duplicates",
    "Entry",
    "Inserted",
    "Interpolator",
    "Quality",
    "Snapshot",
    "StreamBuffer",
    "StreamSpec",
    "by_field",
    "linear",
    "planar_pose",
    "rotation",
]
