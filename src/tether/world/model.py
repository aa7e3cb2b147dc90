"""The MuJoCo model: the robot's own URDF, plus what a world adds to it (floor, cube, base joints, servos, sensors).

Nothing about the robot is written down here a second time. Joint names, axes, limits, damping, masses and frames
come from the URDF; this module adds joints that carry the base, actuators on the URDF's joints, an IMU on
`imu_link`, a camera on `camera_optical_frame`, and the scene.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import mujoco
import numpy as np

from tether.contracts import TICK_NS
from tether.robot.model import read_model
from tether.robot.roles import ARM_JOINTS, COMMAND_JOINTS, GRIPPER_JOINT, WHEEL_JOINTS

SUBSTEP_NS = 1_250_000
"""Physics step, 8 a tick, 4 an IMU reading: short enough to integrate stiff servos and contacts explicitly."""
SUBSTEPS_PER_TICK = TICK_NS // SUBSTEP_NS

BASE_JOINTS = ("base_x", "base_y", "base_z", "base_yaw", "base_pitch", "base_roll")
"""Joints that carry the base: ground plane x, y, heave, then yaw, pitch, roll (applied in this order)."""

_FLOOR_BIT, _ROBOT_BIT, _CUBE_BIT = 1, 2, 4
_TURNING_ARMATURE = 0.1
_WHEEL_ARMATURE, _WHEEL_GAIN = 0.02, 1.0
_NO_FLOOR_CONTACT = ("chassis", "wheel_left", "wheel_back", "wheel_right", "mast", "mast_foot")
"""The base is carried by its joints, so its own contact with the ground would only fight them."""


@dataclass(frozen=True)
class Block:
    """A cube that lies about: side (m), mass (kg), colour (r, g, b), 0 to 1."""

    side_m: float
    mass_kg: float
    rgb: tuple[float, float, float]


@dataclass(frozen=True)
class SceneSpec:
    """What stands in the world beside the robot, and how contacts and drives behave. SI units.

    Servo gains are the STS3215's in SO101/so101_new_calib.xml of TheRobotStudio/SO-ARM100 (kp 998 N m/rad, kv 2.73,
    reflected inertia 0.028 kg m²). The gripper's follow from them through its 4 mm pinion, with the stall force
    cut to the URDF's effort limit.
    """

    cube_side_m: float = 0.024
    cube_mass_kg: float = 0.020
    cube_friction: float = 0.9
    finger_friction: float = 1.1
    servo_kp: float = 998.22
    servo_kv: float = 2.731
    servo_armature: float = 0.028
    gripper_kp: float = 3000.0
    gripper_kv: float = 20.0
    gripper_armature: float = 0.12
    base_frequency_rad_s: float = 120.0
    camera_fovy_rad: float = 0.92
    width: int = 320
    height: int = 240
    distractors: tuple[Block, ...] = ()


@dataclass(frozen=True)
class ModelIndex:
    """Addresses into the compiled model, so that the loop never looks a name up."""

    base_qpos: slice
    base_ctrl: slice
    wheel_ctrl: slice
    joint_qpos: Any
    joint_qvel: Any
    joint_ctrl: slice
    wheel_qpos: Any
    cube_qpos: int
    cube_qvel: int
    cube_body: int
    cube_geom: int
    floor_geom: int
    finger_geoms: tuple[int, ...]
    base_body: int
    tcp_body: int
    camera: int
    gyro: slice
    accel: slice
    base_kv_over_kp: float
    base_m_over_kp: Any = field(default=None)
    distractor_qpos: tuple[int, ...] = ()


def compile_model(urdf: str, scene: SceneSpec) -> tuple[mujoco.MjModel, ModelIndex]:
    """Compile the expanded `urdf` text and the scene; returns the model and the addresses the loop needs."""
    spec = mujoco.MjSpec.from_string(_with_compiler_options(urdf))
    _set_options(spec, scene)
    _filter_contacts(spec, scene)
    _add_base_joints(spec, scene)
    _couple_mimics(spec, urdf)
    _add_servos(spec, scene)
    _add_sensors(spec, scene)
    _add_scene(spec, scene)
    model = spec.compile()
    return model, _index(model, scene)


def _with_compiler_options(urdf: str) -> str:
    """MuJoCo's own extension element: keep every link as a body and every visual as a geom."""
    end = urdf.rindex("</robot>")
    return (
        urdf[:end]
        + '<mujoco><compiler fusestatic="false" discardvisual="false" balanceinertia="false" '
        + 'boundmass="0" boundinertia="0"/></mujoco>'
        + urdf[end:]
    )


def _set_options(spec: Any, scene: SceneSpec) -> None:
    spec.modelname = "tether_world"
    spec.option.timestep = SUBSTEP_NS * 1e-9
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10.0
    spec.option.iterations = 20
    spec.option.ls_iterations = 20
    spec.visual.quality.offsamples = 0
    spec.visual.quality.shadowsize = 0
    spec.visual.global_.offwidth = max(scene.width, 640)
    spec.visual.global_.offheight = max(scene.height, 480)
    spec.visual.map.znear = 0.02
    spec.visual.map.zfar = 30.0
    spec.visual.headlight.ambient = [0.35, 0.35, 0.35]
    spec.visual.headlight.diffuse = [0.25, 0.25, 0.25]
    spec.visual.headlight.specular = [0.0, 0.0, 0.0]
    spec.stat.extent = 1.0
    spec.stat.center = [0.2, 0.0, 0.1]


def _filter_contacts(spec: Any, scene: SceneSpec) -> None:
    for geom in spec.geoms:
        if geom.name.endswith("_visual"):
            geom.contype = geom.conaffinity = 0
            geom.group = 2
            continue
        geom.group = 3
        geom.contype = _ROBOT_BIT
        geom.conaffinity = 0 if geom.name in _NO_FLOOR_CONTACT else _FLOOR_BIT
        if geom.name.startswith("finger"):
            geom.friction = [scene.finger_friction, 0.01, 0.0005]
            geom.condim = 4
            geom.solref = [0.006, 1.0]


def _add_base_joints(spec: Any, scene: SceneSpec) -> None:
    base = spec.body("base_link")
    axes = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 1), (0, 1, 0), (1, 0, 0))
    for name, axis in zip(BASE_JOINTS, axes, strict=True):
        slide = name in ("base_x", "base_y", "base_z")
        kind = mujoco.mjtJoint.mjJNT_SLIDE if slide else mujoco.mjtJoint.mjJNT_HINGE
        joint = base.add_joint(name=name, type=kind, axis=axis)
        # The arm's posture changes the inertia about the base by half; an armature on top keeps the drive's tune.
        joint.armature = 0.0 if slide else _TURNING_ARMATURE
        inertia = _carried(spec) if slide else _TURNING_ARMATURE + 0.05
        kp = inertia * scene.base_frequency_rad_s**2
        kv = 2.0 * inertia * scene.base_frequency_rad_s
        _position_actuator(spec, name, kp, kv)


def _carried(spec: Any) -> float:
    """Mass that the base joints carry, kg."""
    return float(sum(body.mass for body in spec.bodies if body.explicitinertial))


def _couple_mimics(spec: Any, urdf: str) -> None:
    """Make mimic joints follow: MuJoCo reads <mimic> from version 4 on and drops it before."""
    if not spec.equalities:
        for joint in read_model(urdf).joints:
            mimic = joint.mimic
            if mimic is None:
                continue
            equality = spec.add_equality(name1=joint.name, name2=mimic.joint)
            equality.type = mujoco.mjtEq.mjEQ_JOINT
            equality.objtype = mujoco.mjtObj.mjOBJ_JOINT
            equality.data[:5] = [mimic.offset, mimic.multiplier, 0.0, 0.0, 0.0]
    for equality in spec.equalities:
        equality.solref = [0.005, 1.0]
        equality.solimp = [0.99, 0.999, 0.0001, 0.5, 2.0]


def _position_actuator(spec: Any, joint: str, kp: float, kv: float) -> Any:
    actuator = spec.add_actuator(name=joint, target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
    actuator.gaintype = mujoco.mjtGain.mjGAIN_FIXED
    actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
    actuator.gainprm[0] = kp
    actuator.biasprm[:3] = [0.0, -kp, -kv]
    return actuator


def _add_servos(spec: Any, scene: SceneSpec) -> None:
    for name in WHEEL_JOINTS:
        spec.joint(name).armature = _WHEEL_ARMATURE
        motor = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.gaintype = mujoco.mjtGain.mjGAIN_FIXED
        motor.biastype = mujoco.mjtBias.mjBIAS_AFFINE
        motor.gainprm[0] = _WHEEL_GAIN
        motor.biasprm[:3] = [0.0, 0.0, -_WHEEL_GAIN]
    for name in ARM_JOINTS:
        joint = spec.joint(name)
        joint.armature = scene.servo_armature
        _position_actuator(spec, name, scene.servo_kp, scene.servo_kv)
    for name in (GRIPPER_JOINT, f"{GRIPPER_JOINT}_right"):
        spec.joint(name).armature = scene.gripper_armature
    _position_actuator(spec, GRIPPER_JOINT, scene.gripper_kp, scene.gripper_kv)


def _add_sensors(spec: Any, scene: SceneSpec) -> None:
    spec.body("imu_link").add_site(name="imu")
    for name, kind in (("gyro", mujoco.mjtSensor.mjSENS_GYRO), ("accel", mujoco.mjtSensor.mjSENS_ACCELEROMETER)):
        spec.add_sensor(name=name, type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname="imu")
    # MuJoCo looks along -z with y up; the optical frame (REP 103) looks along +z with y down: half a turn about x.
    camera = spec.body("camera_optical_frame").add_camera(name="camera", quat=[0.0, 1.0, 0.0, 0.0])
    camera.fovy = math.degrees(scene.camera_fovy_rad)


def _add_scene(spec: Any, scene: SceneSpec) -> None:
    world = spec.worldbody
    spec.add_texture(
        name="ground",
        type=mujoco.mjtTexture.mjTEXTURE_2D,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER,
        rgb1=[0.55, 0.57, 0.60],
        rgb2=[0.42, 0.44, 0.47],
        width=128,
        height=128,
    )
    material = spec.add_material(name="ground", texrepeat=[10.0, 10.0], texuniform=True)
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "ground"
    world.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[3.0, 3.0, 0.1],
        material="ground",
        contype=_FLOOR_BIT,
        conaffinity=0,
    )
    world.add_light(
        name="lamp",
        type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
        pos=[0.5, 0.5, 2.0],
        dir=[-0.2, -0.25, -1.0],
        diffuse=[0.55, 0.55, 0.55],
        specular=[0.05, 0.05, 0.05],
        castshadow=False,
    )
    cube = Block(scene.cube_side_m, scene.cube_mass_kg, (0.80, 0.10, 0.10))
    _add_block(spec, scene, "cube", cube, _FLOOR_BIT | _ROBOT_BIT)
    for i, block in enumerate(scene.distractors):
        _add_block(spec, scene, f"distractor_{i}", block, _FLOOR_BIT | _ROBOT_BIT | _CUBE_BIT)


def _add_block(spec: Any, scene: SceneSpec, name: str, block: Block, meets: int) -> None:
    half = block.side_m / 2
    body = spec.worldbody.add_body(name=name, pos=[0.25, 0.0, half])
    body.add_freejoint(name=name)
    body.add_geom(
        name=name,
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=[half, half, half],
        mass=block.mass_kg,
        friction=[scene.cube_friction, 0.01, 0.0005],
        condim=4,
        rgba=[*block.rgb, 1.0],
        contype=_CUBE_BIT,
        conaffinity=meets,
    )


def _index(model: mujoco.MjModel, scene: SceneSpec) -> ModelIndex:
    def qpos(name: str) -> int:
        return int(model.joint(name).qposadr[0])

    def qvel(name: str) -> int:
        return int(model.joint(name).dofadr[0])

    def ctrl(names: tuple[str, ...]) -> slice:
        first = model.actuator(names[0]).id
        expected = [model.actuator(name).id for name in names]
        if expected != list(range(first, first + len(names))):
            raise AssertionError(f"actuators {names} are not in one block: {expected}")
        return slice(first, first + len(names))

    def sensor(name: str) -> slice:
        start = int(model.sensor(name).adr[0])
        return slice(start, start + 3)

    base_ctrl = ctrl(BASE_JOINTS)
    kp = model.actuator_gainprm[base_ctrl, 0]
    return ModelIndex(
        base_qpos=slice(qpos(BASE_JOINTS[0]), qpos(BASE_JOINTS[0]) + len(BASE_JOINTS)),
        base_ctrl=base_ctrl,
        wheel_ctrl=ctrl(WHEEL_JOINTS),
        joint_qpos=np.array([qpos(name) for name in COMMAND_JOINTS]),
        joint_qvel=np.array([qvel(name) for name in COMMAND_JOINTS]),
        joint_ctrl=ctrl(COMMAND_JOINTS),
        wheel_qpos=np.array([qpos(name) for name in WHEEL_JOINTS]),
        cube_qpos=qpos("cube"),
        cube_qvel=qvel("cube"),
        cube_body=model.body("cube").id,
        cube_geom=model.geom("cube").id,
        floor_geom=model.geom("floor").id,
        finger_geoms=(model.geom("finger_left").id, model.geom("finger_right").id),
        base_body=model.body("base_link").id,
        tcp_body=model.body("tcp").id,
        camera=model.camera("camera").id,
        gyro=sensor("gyro"),
        accel=sensor("accel"),
        base_kv_over_kp=2.0 / scene.base_frequency_rad_s,
        base_m_over_kp=1.0 / scene.base_frequency_rad_s**2 * np.ones_like(kp),
        distractor_qpos=tuple(qpos(f"distractor_{i}") for i in range(len(scene.distractors))),
    )
