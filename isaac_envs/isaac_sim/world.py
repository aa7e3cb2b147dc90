"""The robot in Isaac Sim 6 as the world of the graph, over its ROS 2 bridge. Written against the vendor's documentation
and examples of 6.0.1; it has not been run, for want of an RTX GPU.

    .venv-isaac/bin/python -m tether_isaac.export /tmp/scene
    ISAAC_SIM/python.sh isaac_envs/isaac_sim/world.py /tmp/scene
    tether launch sim.launch.xml world:=isaac_sim policy:=classic profile:=ideal

Servos here have neither dead time nor lag, and nobody judges episodes or starts the next one.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from isaacsim import SimulationApp

_arguments = argparse.ArgumentParser(description=__doc__)
_arguments.add_argument("scene", type=Path, help="folder that tether_isaac.export wrote")
_arguments.add_argument("--window", action="store_true", help="with a window")
ARGUMENTS, _ = _arguments.parse_known_args()
APP = SimulationApp({"headless": not ARGUMENTS.window})

# What is imported from here on exists only once the application runs.
import graph as graphs  # noqa: E402
import isaacsim.core.experimental.utils.app as app_utils  # noqa: E402
import isaacsim.core.experimental.utils.stage as stage_utils  # noqa: E402
import numpy as np  # noqa: E402
import omni.graph.core as og  # noqa: E402
import omni.usd  # noqa: E402
import usdrt.Sdf  # noqa: E402
from isaacsim.core.experimental.prims import Articulation  # noqa: E402
from isaacsim.core.rendering_manager import RenderingManager  # noqa: E402
from isaacsim.core.simulation_manager import SimulationManager  # noqa: E402
from isaacsim.sensors.experimental.physics import IMU  # noqa: E402
from pxr import Gf, Usd, UsdGeom, UsdLux  # noqa: E402

APERTURE_MM = 20.955
NEAR_M, FAR_M = 0.02, 30.0


def main() -> None:
    """Build the scene and its graphs, then run until the application is closed."""
    facts = json.loads((ARGUMENTS.scene / "scene.json").read_text(encoding="utf-8"))
    app_utils.enable_extension("isaacsim.ros2.bridge")
    APP.update()
    stage_utils.set_stage_units(meters_per_unit=1.0)
    stage = build_stage(facts)
    APP.update()
    imu = f"{frame_path(stage, facts['imu_frame'])}/imu"
    IMU.create(imu, translations=np.zeros((1, 3)))
    camera = add_camera(stage, facts["camera"])
    build(graphs.sensors_and_commands(facts["topics"], imu, facts["imu_frame"]))
    look = facts["camera"]
    made = build(graphs.camera(facts["topics"], camera, look["frame"], look["width"], look["height"]))
    og.Controller.evaluate_sync(made)
    SimulationManager.setup_simulation(dt=facts["physics_dt_s"], device="cpu")
    RenderingManager.set_dt(1.0 / look["rate_hz"])
    app_utils.play()
    app_utils.update_app(steps=2)
    robot = Articulation(graphs.ROBOT)
    prepare(robot, facts)
    base = Base(robot, facts)
    while APP.is_running():
        APP.update()
        if app_utils.is_playing():
            base.follow(1.0 / look["rate_hz"])
            follow_gripper(robot, facts)
    app_utils.stop()
    APP.close()


def build_stage(facts: dict[str, Any]) -> Usd.Stage:
    """Ground, light, robot and cube, from the exported files."""
    for name, path in (("ground", "/World/Ground"), ("robot", graphs.ROBOT), ("cube", "/World/Cube")):
        stage_utils.add_reference_to_stage(str(ARGUMENTS.scene / facts[name]), path)
    stage = omni.usd.get_context().get_stage()
    UsdLux.DistantLight.Define(stage, "/World/Light").CreateIntensityAttr(2000.0)
    x, y, z, w = facts["cube_pose"]["quat_xyzw"]
    cube = UsdGeom.Xformable(stage.GetPrimAtPath("/World/Cube"))
    cube.AddTranslateOp().Set(Gf.Vec3d(*facts["cube_pose"]["position"]))
    cube.AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Quatd(w, x, y, z))
    return stage


def frame_path(stage: Usd.Stage, name: str) -> str:
    """The prim of a frame of the robot, wherever it hangs."""
    for prim in Usd.PrimRange(stage.GetPrimAtPath(graphs.ROBOT)):
        if prim.GetName() == name:
            return str(prim.GetPath())
    raise RuntimeError(f"the robot has no frame {name!r}; export the scene again")


def add_camera(stage: Usd.Stage, look: dict[str, Any]) -> str:
    """A camera in the optical frame. USD's looks along -z with y up, the frame (REP 103) along +z with y down."""
    path = f"{frame_path(stage, look['frame'])}/camera"
    camera = UsdGeom.Camera.Define(stage, path)
    UsdGeom.Xformable(camera.GetPrim()).AddRotateXOp().Set(180.0)
    camera.CreateHorizontalApertureAttr(APERTURE_MM)
    camera.CreateVerticalApertureAttr(APERTURE_MM * look["height"] / look["width"])
    half = math.tan(look["fovy_rad"] / 2.0)
    camera.CreateFocalLengthAttr(APERTURE_MM * look["height"] / look["width"] / (2.0 * half))
    camera.CreateClippingRangeAttr(Gf.Vec2f(NEAR_M, FAR_M))
    return path


def build(wanted: graphs.Graph) -> Any:
    """Make an OmniGraph of its description."""
    keys = og.Controller.Keys
    stage = og.GraphPipelineStage.GRAPH_PIPELINE_STAGE_ONDEMAND
    head: dict[str, Any] = {"graph_path": wanted.path, "pipeline_stage": stage}
    if wanted.path == graphs.CAMERA:
        head["evaluator_name"] = "push"
    values = [(at, [usdrt.Sdf.Path(v.path)] if isinstance(v, graphs.Target) else v) for at, v in wanted.values]
    parts = {
        keys.CREATE_NODES: list(wanted.nodes),
        keys.CONNECT: list(wanted.connections),
        keys.SET_VALUES: values,
    }
    made, _, _, _ = og.Controller.edit(head, parts)
    return made


def prepare(robot: Articulation, facts: dict[str, Any]) -> None:
    """Give every joint its drive, and put the robot into its start."""
    drives = {name: dict(drive) for name, drive in facts["drives"].items()}
    # What couples the fingers for Newton says nothing to PhysX: here the follower is driven, too.
    for name in ("stiffness", "damping", "effort"):
        drives[facts["follower"]][name] = drives[facts["gripper"]][name]
    for name, drive in drives.items():
        at = robot.get_dof_indices([name])
        robot.set_dof_gains(stiffnesses=drive["stiffness"], dampings=drive["damping"], dof_indices=at)
        robot.set_dof_armatures(drive["armature"], dof_indices=at)
        robot.set_dof_friction_properties(
            static_frictions=drive["friction"],
            dynamic_frictions=drive["friction"],
            viscous_frictions=drive["viscous"],
            dof_indices=at,
        )
        if drive["effort"] is not None:
            robot.set_dof_max_efforts(drive["effort"], dof_indices=at)
    for name, position in facts["start"].items():
        at = robot.get_dof_indices([name])
        robot.set_dof_positions(position, dof_indices=at)
        robot.set_dof_position_targets(position, dof_indices=at)


def read(attribute: str) -> Any:
    """The value of an attribute of the graph of sensors and commands."""
    return og.Controller.attribute(f"{graphs.SENSORS}/{attribute}").get()


def follow_gripper(robot: Articulation, facts: dict[str, Any]) -> None:
    """The right finger is told what the left one was."""
    names = [str(name) for name in read("JointCommand.outputs:jointNames")]
    if facts["gripper"] in names:
        wanted = float(read("JointCommand.outputs:positionCommand")[names.index(facts["gripper"])])
        robot.set_dof_position_targets(wanted, dof_indices=robot.get_dof_indices([facts["follower"]]))


class Base:
    """Moves the joints that carry the base by the twist that arrives."""

    def __init__(self, robot: Articulation, facts: dict[str, Any]) -> None:
        self._robot, self._facts = robot, facts["base"]
        self._joints = robot.get_dof_indices(["base_x", "base_y", "base_z", "base_yaw"])
        self._pose = [0.0, 0.0, 0.0]

    def follow(self, period_s: float) -> None:
        """Integrate the twist (base frame) over a period and hand on where the base has to be, and how fast."""
        vx, vy, _ = (float(v) for v in read("BaseTwist.outputs:linearVelocity"))
        wz = float(read("BaseTwist.outputs:angularVelocity")[2])
        x, y, yaw = self._pose
        middle = yaw + 0.5 * wz * period_s
        rate_x = math.cos(middle) * vx - math.sin(middle) * vy
        rate_y = math.sin(middle) * vx + math.cos(middle) * vy
        self._pose = [x + rate_x * period_s, y + rate_y * period_s, yaw + wz * period_s]
        ahead = self._facts["kv_over_kp_s"]
        targets = [
            self._pose[0] + ahead * rate_x,
            self._pose[1] + ahead * rate_y,
            self._facts["sag_m"],
            self._pose[2] + ahead * wz,
        ]
        self._robot.set_dof_position_targets(np.array([targets], np.float32), dof_indices=self._joints)


main()
