"""Authors the robot, the cube and the ground as USD files, from the URDF and the scene of the MuJoCo world.

Nothing about the robot is written down a second time: links, joints, limits, masses and shapes come from the robot's
description, contact parameters and the joints that carry the base from `tether.world.model`. Contact parameters are
authored in the `mjc:` namespace, which Newton's MuJoCo solver reads; other engines take the friction of the material.
What USD cannot say is in `tether_isaac.constraints`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade

from tether import rotations
from tether.errors import Fault, InvalidInputError
from tether.files import replaced
from tether.robot.model import RobotModel, read_model
from tether.robot.parts import F64, Joint, Link
from tether.robot.raw import JointType, RawShape, ShapeType, read_robot
from tether.robot.xmltree import parse_xml
from tether.world.model import BASE_JOINTS, SceneSpec

GROUND_LINK = "ground_link"
"""Stands still under the robot; the joints that carry the base begin at it."""
CARRIAGE_MASS_KG = 1e-4
"""Of each body between two of the base's joints: USD has one joint between two bodies, MuJoCo has six."""
_CARRIAGE_INERTIA_KG_M2 = 1e-7
_SLIDES = ("base_x", "base_y", "base_z")
_AXIS = {
    "base_x": "X",
    "base_y": "Y",
    "base_z": "Z",
    "base_yaw": "Z",
    "base_pitch": "Y",
    "base_roll": "X",
}
_CONDIM = 4
_FINGER_SOLREF = (0.006, 1.0)
_TORSIONAL, _ROLLING = 0.01, 0.0005


@dataclass(frozen=True)
class Assets:
    """Paths of the authored files."""

    robot: Path
    cube: Path
    ground: Path


def author_assets(folder: Path, urdf: str, scene: SceneSpec) -> Assets:
    """Write robot, cube and ground of the expanded `urdf` text and `scene` into `folder`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    assets = Assets(folder / "robot.usda", folder / "cube.usda", folder / "ground.usda")
    _write(assets.robot, robot_stage(urdf, scene))
    _write(assets.cube, cube_stage(scene))
    _write(assets.ground, ground_stage())
    return assets


def robot_stage(urdf: str, scene: SceneSpec) -> Usd.Stage:
    """The robot under /Robot: a body for each link that has a mass, a frame for each that has none."""
    stage = _new_stage("Robot")
    model = read_model(urdf)
    root = stage.GetPrimAtPath("/Robot")
    UsdPhysics.ArticulationRootAPI.Apply(root)
    root.AddAppliedSchema("NewtonArticulationRootAPI")
    _attribute(root, "newton:selfCollisionEnabled", Sdf.ValueTypeNames.Bool, False)
    raw = read_robot(parse_xml(urdf))
    shapes = {link.name: link.shapes for link in raw.links}
    finger = _material(stage, "/Robot/finger_material", scene.finger_friction)
    other = _material(stage, "/Robot/material", 1.0)
    poses = {link.name: _zero_pose(model, link.name) for link in model.links}
    carriers = _carriage(stage)
    for link in model.links:
        if link.mass_kg > 0.0:
            prim = _body(stage, f"/Robot/{link.name}", poses[link.name], link)
            _add_shapes(stage, prim, shapes[link.name], finger if "finger" in link.name else other)
    for joint in model.joints:
        child = model.link(joint.child)
        if child.mass_kg == 0.0:
            _frame(stage, model, child, poses)
        else:
            _joint(stage, joint, _parent_body(model, joint.parent), poses)
    _carry(stage, carriers, model.root)
    return stage


def cube_stage(scene: SceneSpec) -> Usd.Stage:
    """The cube under /Cube, a rigid body."""
    stage = _new_stage("Cube")
    root = stage.GetPrimAtPath("/Cube")
    UsdPhysics.RigidBodyAPI.Apply(root)
    side, mass = scene.cube_side_m, scene.cube_mass_kg
    _mass(root, mass, np.zeros(3), np.eye(3) * mass * side**2 / 6.0)
    box = UsdGeom.Cube.Define(stage, "/Cube/shape")
    box.CreateSizeAttr(side)
    box.CreateDisplayColorAttr([Gf.Vec3f(0.80, 0.10, 0.10)])
    _collide(box.GetPrim(), (0.02, 1.0))
    _bind(box.GetPrim(), _material(stage, "/Cube/material", scene.cube_friction))
    return stage


def ground_stage() -> Usd.Stage:
    """The ground under /Ground: the plane z = 0."""
    stage = _new_stage("Ground")
    plane = UsdGeom.Plane.Define(stage, "/Ground/plane")
    plane.CreateAxisAttr("Z")
    plane.CreateWidthAttr(200.0)
    plane.CreateLengthAttr(200.0)
    plane.CreateDisplayColorAttr([Gf.Vec3f(0.48, 0.50, 0.53)])
    _collide(plane.GetPrim(), (0.02, 1.0), condim=3)
    _bind(plane.GetPrim(), _material(stage, "/Ground/material", 1.0))
    return stage


# -- Stage -----------------------------------------------------------------------------------------------------------


def _new_stage(name: str) -> Usd.Stage:
    stage = Usd.Stage.CreateInMemory()
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    UsdPhysics.SetStageKilogramsPerUnit(stage, 1.0)
    stage.SetDefaultPrim(UsdGeom.Xform.Define(stage, f"/{name}").GetPrim())
    return stage


def _write(path: Path, stage: Usd.Stage) -> None:
    with replaced(path) as file:
        file.write(stage.GetRootLayer().ExportToString().encode())


def _attribute(prim: Usd.Prim, name: str, kind: Any, value: Any) -> None:
    prim.CreateAttribute(name, kind).Set(value)


def _material(stage: Usd.Stage, path: str, friction: float) -> UsdShade.Material:
    material = UsdShade.Material.Define(stage, path)
    api = UsdPhysics.MaterialAPI.Apply(material.GetPrim())
    api.CreateStaticFrictionAttr(friction)
    api.CreateDynamicFrictionAttr(friction)
    api.CreateRestitutionAttr(0.0)
    _attribute(material.GetPrim(), "mjc:torsionalfriction", Sdf.ValueTypeNames.Double, _TORSIONAL)
    _attribute(material.GetPrim(), "mjc:rollingfriction", Sdf.ValueTypeNames.Double, _ROLLING)
    return material


def _bind(prim: Usd.Prim, material: UsdShade.Material) -> None:
    binding = UsdShade.MaterialBindingAPI.Apply(prim)
    binding.Bind(material, UsdShade.Tokens.weakerThanDescendants, "physics")


def _place(prim: Usd.Prim, pose: F64) -> None:
    """Author a pose (4, 4) as translation and orientation."""
    x, y, z, w = rotations.matrix_to_quat(pose[:3, :3]).tolist()
    form = UsdGeom.Xformable(prim)
    form.AddTranslateOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Vec3d(*pose[:3, 3].tolist()))
    form.AddOrientOp(UsdGeom.XformOp.PrecisionDouble).Set(Gf.Quatd(w, x, y, z))


# -- Bodies ----------------------------------------------------------------------------------------------------------


def _zero_pose(model: RobotModel, link: str) -> F64:
    pose = np.eye(4)
    pose[:3, 3], pose[:3, :3] = model.transform(model.root, link, np.zeros(len(model.joint_names)))
    return pose


def _body(stage: Usd.Stage, path: str, pose: F64, link: Link) -> Usd.Prim:
    prim = UsdGeom.Xform.Define(stage, path).GetPrim()
    _place(prim, pose)
    UsdPhysics.RigidBodyAPI.Apply(prim)
    _mass(prim, link.mass_kg, link.p_link_com, link.inertia_com_kg_m2)
    return prim


def _mass(prim: Usd.Prim, mass_kg: float, com: F64, inertia: F64) -> None:
    moments, axes = np.linalg.eigh(inertia)
    if np.linalg.det(axes) < 0.0:
        axes[:, 2] = -axes[:, 2]
    if np.allclose(inertia, np.diag(np.diag(inertia)), atol=1e-15):
        moments, axes = np.diag(inertia), np.eye(3)
    x, y, z, w = rotations.matrix_to_quat(axes).tolist()
    api = UsdPhysics.MassAPI.Apply(prim)
    api.CreateMassAttr(mass_kg)
    api.CreateCenterOfMassAttr(Gf.Vec3f(*com.tolist()))
    api.CreateDiagonalInertiaAttr(Gf.Vec3f(*moments.tolist()))
    api.CreatePrincipalAxesAttr(Gf.Quatf(w, x, y, z))


def _frame(stage: Usd.Stage, model: RobotModel, link: Link, poses: dict[str, F64]) -> None:
    """A frame without a mass stands under the body that it is fixed to."""
    body = _parent_body(model, link.name)
    prim = UsdGeom.Xform.Define(stage, f"/Robot/{body}/{link.name}").GetPrim()
    _place(prim, np.linalg.inv(poses[body]) @ poses[link.name])


def _parent_body(model: RobotModel, link: str) -> str:
    """The nearest link with a mass, from `link` upwards along joints that are fixed."""
    above = {joint.child: joint for joint in model.joints}
    while model.link(link).mass_kg == 0.0:
        joint = above[link]
        if joint.type is not JointType.FIXED:
            fault = Fault(f"link {link}", "no mass, though it moves", "a mass above 0")
            raise InvalidInputError(f"robot {model.name!r}", [fault])
        link = joint.parent
    return link


# -- Shapes ----------------------------------------------------------------------------------------------------------


def _add_shapes(stage: Usd.Stage, body: Usd.Prim, shapes: tuple[RawShape, ...], material: UsdShade.Material) -> None:
    for index, shape in enumerate(shapes):
        prim = _shape(stage, f"{body.GetPath()}/{shape.use}_{index}", shape)
        if shape.use == "visual":
            continue
        UsdGeom.Imageable(prim).CreatePurposeAttr(UsdGeom.Tokens.guide)
        _collide(prim, _FINGER_SOLREF if "finger" in body.GetName() else (0.02, 1.0))
        _bind(prim, material)


def _shape(stage: Usd.Stage, path: str, shape: RawShape) -> Usd.Prim:
    numbers = shape.numbers or ()
    if shape.type is ShapeType.BOX:
        prim = UsdGeom.Cube.Define(stage, path)
        prim.CreateSizeAttr(1.0)
        _place(prim.GetPrim(), shape.origin.pose())
        prim.AddScaleOp().Set(Gf.Vec3f(*numbers))
    elif shape.type is ShapeType.CYLINDER:
        prim = UsdGeom.Cylinder.Define(stage, path)
        prim.CreateAxisAttr("Z")
        prim.CreateRadiusAttr(numbers[0])
        prim.CreateHeightAttr(numbers[1])
        _place(prim.GetPrim(), shape.origin.pose())
    else:
        found = "no shape" if shape.type is None else shape.type.value
        fault = Fault(f"line {shape.line}", found, "a box or a cylinder")
        raise InvalidInputError("USD of the robot", [fault], "teach tether_isaac.usd the shape")
    return prim.GetPrim()


def _collide(prim: Usd.Prim, solref: tuple[float, float], condim: int = _CONDIM) -> None:
    UsdPhysics.CollisionAPI.Apply(prim)
    _attribute(prim, "mjc:condim", Sdf.ValueTypeNames.Int, condim)
    _attribute(prim, "mjc:solref", Sdf.ValueTypeNames.DoubleArray, list(solref))
    # A gap wider than nothing would make contacts before surfaces touch, which MuJoCo's world does not.
    _attribute(prim, "mjc:margin", Sdf.ValueTypeNames.Double, 0.0)
    _attribute(prim, "mjc:gap", Sdf.ValueTypeNames.Double, 0.0)


# -- Joints ----------------------------------------------------------------------------------------------------------


def _joint(stage: Usd.Stage, joint: Joint, parent: str, poses: dict[str, F64]) -> None:
    path = f"/Robot/joints/{joint.name}"
    if joint.type is JointType.FIXED:
        made: Any = UsdPhysics.FixedJoint.Define(stage, path)
        align = np.eye(4)
    else:
        kind = UsdPhysics.PrismaticJoint if joint.type is JointType.PRISMATIC else UsdPhysics.RevoluteJoint
        made = kind.Define(stage, path)
        axis, align = _axis(joint.axis)
        made.CreateAxisAttr(axis)
        _limit(made, joint)
    _between(made, f"/Robot/{parent}", f"/Robot/{joint.child}")
    at_parent = np.linalg.inv(poses[parent]) @ poses[joint.child] @ align
    _frames(made, at_parent, align)


def _axis(axis: F64) -> tuple[str, F64]:
    """USD's axis token and the joint frame in the child's, (4, 4), turned about so that the axis is positive."""
    index = int(np.argmax(np.abs(axis)))
    if not np.allclose(np.abs(axis), np.eye(3)[index]):
        fault = Fault("axis", str(axis.tolist()), "along x, y or z")
        raise InvalidInputError("USD of the robot", [fault])
    align = np.eye(4)
    if axis[index] < 0.0:
        flipped = (index + 1) % 3
        keep = np.eye(3)[flipped]
        align[:3, :3] = np.diag(np.where(keep > 0.0, 1.0, -1.0))
    return "XYZ"[index], align


def _limit(made: Any, joint: Joint) -> None:
    limits = joint.limits
    if limits is None:
        raise AssertionError(f"joint {joint.name} moves without limits")
    turns = joint.type is not JointType.PRISMATIC
    if math.isfinite(limits.lower):
        scale = math.degrees(1.0) if turns else 1.0
        made.CreateLowerLimitAttr(limits.lower * scale)
        made.CreateUpperLimitAttr(limits.upper * scale)
    prim = made.GetPrim()
    if joint.mimic is None:
        drive = UsdPhysics.DriveAPI.Apply(prim, "angular" if turns else "linear")
        drive.CreateTypeAttr(UsdPhysics.Tokens.force)
        drive.CreateMaxForceAttr(limits.effort)
    else:
        prim.AddAppliedSchema("NewtonMimicAPI")
        prim.CreateRelationship("newton:mimicJoint").SetTargets([f"/Robot/joints/{joint.mimic.joint}"])
        offset = math.degrees(joint.mimic.offset) if turns else joint.mimic.offset
        _attribute(prim, "newton:mimicCoef0", Sdf.ValueTypeNames.Float, offset)
        _attribute(prim, "newton:mimicCoef1", Sdf.ValueTypeNames.Float, joint.mimic.multiplier)
    _attribute(prim, "mjc:damping", Sdf.ValueTypeNames.Double, joint.damping)
    _attribute(prim, "mjc:frictionloss", Sdf.ValueTypeNames.Double, joint.friction)


def _between(made: Any, parent: str | None, child: str) -> None:
    if parent is not None:
        made.CreateBody0Rel().SetTargets([parent])
    made.CreateBody1Rel().SetTargets([child])


def _frames(made: Any, at_parent: F64, at_child: F64) -> None:
    for pose, position, rotation in (
        (at_parent, made.CreateLocalPos0Attr, made.CreateLocalRot0Attr),
        (at_child, made.CreateLocalPos1Attr, made.CreateLocalRot1Attr),
    ):
        x, y, z, w = rotations.matrix_to_quat(pose[:3, :3]).tolist()
        position(Gf.Vec3f(*pose[:3, 3].tolist()))
        rotation(Gf.Quatf(w, x, y, z))


# -- What carries the base -------------------------------------------------------------------------------------------


def _carriage(stage: Usd.Stage) -> list[str]:
    """Bodies between the base's joints, the one that stands still first; returns their paths."""
    tiny = Link("", CARRIAGE_MASS_KG, np.zeros(3), np.eye(3) * _CARRIAGE_INERTIA_KG_M2)
    names = [GROUND_LINK, *(f"{name}_link" for name in BASE_JOINTS[:-1])]
    return [str(_body(stage, f"/Robot/{name}", np.eye(4), tiny).GetPath()) for name in names]


def _carry(stage: Usd.Stage, carriers: list[str], root: str) -> None:
    fixed = UsdPhysics.FixedJoint.Define(stage, "/Robot/joints/ground")
    _between(fixed, None, carriers[0])
    _frames(fixed, np.eye(4), np.eye(4))
    for name, (parent, child) in zip(BASE_JOINTS, pairwise([*carriers, f"/Robot/{root}"]), strict=True):
        slide = name in _SLIDES
        kind = UsdPhysics.PrismaticJoint if slide else UsdPhysics.RevoluteJoint
        made = kind.Define(stage, f"/Robot/joints/{name}")
        made.CreateAxisAttr(_AXIS[name])
        UsdPhysics.DriveAPI.Apply(made.GetPrim(), "linear" if slide else "angular")
        _between(made, parent, child)
        _frames(made, np.eye(4), np.eye(4))
