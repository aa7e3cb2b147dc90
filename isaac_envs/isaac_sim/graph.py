"""The OmniGraphs between Isaac Sim and ROS 2, as data: nodes, connections and values.

Names of node types and of their attributes are those of Isaac Sim 6.0.1 (the .ogn files of isaacsim.ros2.nodes,
isaacsim.core.nodes and isaacsim.sensors.physics.nodes).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

ROBOT = "/World/Robot"
SENSORS = "/Tether/Sensors"
CAMERA = "/Tether/Camera"
IMU_EVERY, TICK_EVERY = 2, 4
"""Physics steps of 2.5 ms between readings of the IMU (200 Hz), and between ticks (100 Hz)."""


@dataclass(frozen=True)
class Graph:
    """nodes: (name, type). connections: (from, to), as node.outputs:x and node.inputs:y. values: (attribute, value)."""

    path: str
    nodes: tuple[tuple[str, str], ...]
    connections: tuple[tuple[str, str], ...]
    values: tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Target:
    """A value that is a prim's path and has to be given as a USD path."""

    path: str


def sensors_and_commands(topics: dict[str, str], imu_prim: str, imu_frame: str) -> Graph:
    """Clock, IMU and joint states out, joint commands and the base's twist in, on every physics step.

    Joints are commanded here; the twist only arrives here, and the script turns it into motion of the base. Velocities
    of a joint command are left: a drive with a velocity target would pull against its own damping.
    """
    bridge, core, physics = "isaacsim.ros2.bridge", "isaacsim.core.nodes", "isaacsim.sensors.physics"
    nodes = (
        ("Step", f"{core}.OnPhysicsStep"),
        ("EveryImu", f"{core}.IsaacSimulationGate"),
        ("EveryTick", f"{core}.IsaacSimulationGate"),
        ("Time", f"{core}.IsaacReadSimulationTime"),
        ("Context", f"{bridge}.ROS2Context"),
        ("Clock", f"{bridge}.ROS2PublishClock"),
        ("ReadImu", f"{physics}.IsaacReadIMU"),
        ("Imu", f"{bridge}.ROS2PublishImu"),
        ("ReadJoints", f"{physics}.IsaacReadJointState"),
        ("Joints", f"{bridge}.ROS2PublishJointState"),
        ("JointCommand", f"{bridge}.ROS2SubscribeJointState"),
        ("BaseTwist", f"{bridge}.ROS2SubscribeTwist"),
        ("Servos", f"{core}.IsaacArticulationController"),
    )
    spoken = ("Clock", "Imu", "Joints", "JointCommand", "BaseTwist")
    joint_fields = ("jointNames", "jointPositions", "jointVelocities", "jointEfforts", "jointDofTypes")
    connections = (
        ("Step.outputs:step", "EveryImu.inputs:execIn"),
        ("Step.outputs:step", "EveryTick.inputs:execIn"),
        ("EveryTick.outputs:execOut", "Clock.inputs:execIn"),
        ("EveryImu.outputs:execOut", "ReadImu.inputs:execIn"),
        ("ReadImu.outputs:execOut", "Imu.inputs:execIn"),
        ("ReadImu.outputs:angVel", "Imu.inputs:angularVelocity"),
        ("ReadImu.outputs:linAcc", "Imu.inputs:linearAcceleration"),
        ("EveryTick.outputs:execOut", "ReadJoints.inputs:execIn"),
        ("ReadJoints.outputs:execOut", "Joints.inputs:execIn"),
        *((f"ReadJoints.outputs:{name}", f"Joints.inputs:{name}") for name in joint_fields),
        ("ReadJoints.outputs:stageMetersPerUnit", "Joints.inputs:stageMetersPerUnit"),
        ("ReadJoints.outputs:sensorTime", "Joints.inputs:sensorTime"),
        ("EveryTick.outputs:execOut", "JointCommand.inputs:execIn"),
        ("EveryTick.outputs:execOut", "BaseTwist.inputs:execIn"),
        ("JointCommand.outputs:execOut", "Servos.inputs:execIn"),
        ("JointCommand.outputs:jointNames", "Servos.inputs:jointNames"),
        ("JointCommand.outputs:positionCommand", "Servos.inputs:positionCommand"),
        ("Time.outputs:simulationTime", "Clock.inputs:timeStamp"),
        ("Time.outputs:simulationTime", "Imu.inputs:timeStamp"),
        ("Time.outputs:simulationTime", "Joints.inputs:timeStamp"),
        *(("Context.outputs:context", f"{name}.inputs:context") for name in spoken),
    )
    values = (
        ("EveryImu.inputs:step", IMU_EVERY),
        ("EveryTick.inputs:step", TICK_EVERY),
        ("Time.inputs:resetOnStop", False),
        ("Clock.inputs:topicName", topics["CLOCK"]),
        ("ReadImu.inputs:imuPrim", Target(imu_prim)),
        ("ReadImu.inputs:readGravity", True),
        ("Imu.inputs:topicName", topics["IMU"]),
        ("Imu.inputs:frameId", imu_frame),
        ("Imu.inputs:publishOrientation", False),
        ("ReadJoints.inputs:prim", Target(ROBOT)),
        ("Joints.inputs:topicName", topics["ALL_JOINT_STATES"]),
        ("JointCommand.inputs:topicName", topics["JOINT_COMMAND"]),
        ("BaseTwist.inputs:topicName", topics["BASE_TWIST"]),
        ("Servos.inputs:robotPath", ROBOT),
    )
    return Graph(SENSORS, nodes, connections, values)


def camera(topics: dict[str, str], prim: str, frame: str, width: int, height: int) -> Graph:
    """Pictures and camera_info; run once, it makes the publishers, which then follow the rendering."""
    nodes = (
        ("Tick", "omni.graph.action.OnTick"),
        ("Context", "isaacsim.ros2.bridge.ROS2Context"),
        ("Product", "isaacsim.core.nodes.IsaacCreateRenderProduct"),
        ("Image", "isaacsim.ros2.bridge.ROS2CameraHelper"),
        ("Info", "isaacsim.ros2.bridge.ROS2CameraInfoHelper"),
    )
    connections = [("Tick.outputs:tick", "Product.inputs:execIn")]
    values: list[tuple[str, Any]] = [
        ("Product.inputs:cameraPrim", Target(prim)),
        ("Product.inputs:width", width),
        ("Product.inputs:height", height),
        ("Image.inputs:type", "rgb"),
    ]
    for name, topic in (("Image", "IMAGE"), ("Info", "CAMERA_INFO")):
        connections += [
            ("Product.outputs:execOut", f"{name}.inputs:execIn"),
            ("Product.outputs:renderProductPath", f"{name}.inputs:renderProductPath"),
            ("Context.outputs:context", f"{name}.inputs:context"),
        ]
        values += [
            (f"{name}.inputs:topicName", topics[topic]),
            (f"{name}.inputs:frameId", frame),
            (f"{name}.inputs:resetSimulationTimeOnStop", False),
        ]
    return Graph(CAMERA, nodes, tuple(connections), tuple(values))
