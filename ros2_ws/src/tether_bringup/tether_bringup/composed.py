"""The six stages before the gate in one process: the same nodes, and between them no DDS.

They publish what they publish as separate processes, for the gate and the recorder. What they say to each other is
handed over inside the process, byte for byte; so nobody else can speak on those topics.
"""

from __future__ import annotations

import sys

from tether_fusion.fusion import FusionNode
from tether_ingest.camera_ingest import CameraIngestNode
from tether_ingest.imu_ingest import ImuIngestNode
from tether_motion.primitive_executor import PrimitiveExecutorNode
from tether_opd.opd_bridge import OpdBridgeNode
from tether_policy.policy import PolicyNode
from tether_ros.process import run

from tether import topics

NODES = (ImuIngestNode, CameraIngestNode, FusionNode, PolicyNode, OpdBridgeNode, PrimitiveExecutorNode)
HANDED_OVER = (topics.IMU_BATCH, topics.IMAGE_FEATURE, topics.FUSED_STATE, topics.POLICY_OUTPUT, topics.DECISION)


def main() -> None:
    """Entry point."""
    sys.exit(run(NODES, handed_over=HANDED_OVER))
