"""The six stages before the gate in one process: fewer interpreters, the same nodes, the same topics."""

from __future__ import annotations

import sys

from tether_fusion.fusion import FusionNode
from tether_ingest.camera_ingest import CameraIngestNode
from tether_ingest.imu_ingest import ImuIngestNode
from tether_motion.primitive_executor import PrimitiveExecutorNode
from tether_opd.opd_bridge import OpdBridgeNode
from tether_policy.policy import PolicyNode
from tether_ros.process import run


def main() -> None:
    """Entry point."""
    sys.exit(run([ImuIngestNode, CameraIngestNode, FusionNode, PolicyNode, OpdBridgeNode, PrimitiveExecutorNode]))
