"""Puts stages together by name. The core loop and the nodes of the graph both build theirs here, so they are the same.

Names of tasks and profiles are files of config/; a path to a YAML file of one's own works wherever a name does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tether.alternatives.naming import NAMES as ALTERNATIVES
from tether.alternatives.naming import has_alternatives, manifest_hashes
from tether.alternatives.naming import parse_name as parse_alternative
from tether.alternatives.opening import policy_with_alternatives
from tether.bridge.arbiter import Arbiter, ArbiterConfig, Arbitration, load_arbiter_config
from tether.bridge.pair_fields import PairShape
from tether.bridge.pairs import Pair, PairStage
from tether.bridge.stage import BridgeStage, OracleTeacher, StudentAlone, WithFallback
from tether.bridge.twin import KinematicTwin
from tether.clock import SteadyClock
from tether.contracts import Primitive, SkillContext
from tether.errors import Fault, InvalidInputError, did_you_mean, raise_together
from tether.fusion.classic import ClassicEstimator, load_classic_config
from tether.fusion.estimator import Estimator, NoEstimator
from tether.fusion.stage import FusionStage
from tether.ingest.camera import CameraConfig, CameraIngest
from tether.ingest.detector import ColourDetector
from tether.ingest.encoder import DetectorEncoder, PictureEncoder
from tether.ingest.imu import ImuConfig
from tether.ingest.joints import JointConfig, JointIngest
from tether.ingest.stages import ImuStage
from tether.models.manifest import read_manifest
from tether.motion.config import LagModel, load_motion_config
from tether.motion.executor import Executor
from tether.motion.stage import MotionStage
from tether.pipeline import Pipeline, Stages
from tether.policy.classic import ClassicPolicy
from tether.policy.protocol import Policy
from tether.policy.scripted import ScriptedPolicy
from tether.policy.stage import PolicyStage
from tether.resources import resource_path
from tether.robot.description import description_sha256, expand
from tether.robot.model import RobotModel, load_robot
from tether.robot.roles import COMMAND_JOINTS
from tether.safety.attest import Attestation
from tether.safety.gate_model import GateModel
from tether.safety.guards import FALLBACKS, Guards
from tether.safety.settings import SERVO_HEALTH, Hardware, load_safety
from tether.safety.stage import GateStage
from tether.safety.supervisor import Supervisor
from tether.skills import SkillTable, load_skill_table
from tether.student.baselines import estimator_type
from tether.student.labels import ScriptedLabeller
from tether.student.models import EYES, FUSION, POLICY, open_fusion, open_policy, require_eyes
from tether.student.naming import FORMS as STUDENT_FORMS
from tether.student.naming import NAMES as STUDENTS
from tether.student.naming import StudentName, is_student, parse_name
from tether.student.policy import StudentPolicy
from tether.teacher.model import TeacherNetwork, open_teacher
from tether.teacher.policy import TeacherPolicy
from tether.threads import numerical_threads
from tether.vision.eyes import LearnedEyes
from tether.vision.yolo import DetectorBesideEyes, open_yolo, yolo_manifest
from tether.world.profile import Profile, load_profile
from tether.world.task import Task, load_task

if TYPE_CHECKING:
    from tether.world.mujoco_world import MujocoWorld

ROBOT_FILE = "tether_rover.urdf.xacro"


@dataclass(frozen=True)
class PolicyKit:
    """What belongs to a policy: its maker, the estimator inside fusion, whether it looks at pictures, and its eyes."""

    make: Callable[[], Policy]
    make_estimator: Callable[[], Estimator]
    is_oracle: bool
    pictures: bool
    make_encoder: Callable[[], PictureEncoder] = lambda: DetectorEncoder(ColourDetector())


def policy_kit(name: str) -> PolicyKit:
    """The kit of a policy by name; raises InvalidInputError naming the ones there are."""
    if is_student(name):
        return _student_kit(parse_name(name))
    if has_alternatives(name):
        wanted, base = parse_alternative(name), policy_kit("classic")
        return replace(base, make=lambda: policy_with_alternatives(wanted, base.make(), robot(), skills()))
    kits = {
        "scripted": PolicyKit(lambda: ScriptedPolicy(robot(), skills()), NoEstimator, is_oracle=True, pictures=False),
        "classic": PolicyKit(
            lambda: ClassicPolicy(robot(), skills(), load_classic_config(resource_path("config", "classic.yaml"))),
            lambda: ClassicEstimator(robot(), load_classic_config(resource_path("config", "classic.yaml"))),
            is_oracle=False,
            pictures=True,
        ),
        "teacher": PolicyKit(_teacher, NoEstimator, is_oracle=True, pictures=False),
    }
    if name not in kits:
        names = (*kits, *ALTERNATIVES, *STUDENTS)
        fault = Fault("name", repr(name), f"one of {', '.join((*names, *STUDENT_FORMS))}")
        raise InvalidInputError("policy", [fault], did_you_mean(name, names))
    return kits[name]


def _teacher() -> Policy:
    network = TeacherNetwork(skills(), open_teacher(resource_path("models", "teacher"), skills()))
    return TeacherPolicy(robot(), network)


def _student_kit(name: StudentName) -> PolicyKit:
    """A student's models are opened when it is made, not when it is named."""
    side_m = load_classic_config(resource_path("config", "classic.yaml")).cube.side_m
    return PolicyKit(
        lambda: StudentPolicy(skills(), open_policy(name.model_folder(POLICY), skills().sha256)),
        lambda: estimator_type(name.baseline)(
            robot(), side_m, open_fusion(name.model_folder(FUSION), skills().sha256), name.without
        ),
        is_oracle=False,
        pictures=True,
        make_encoder=lambda: _student_encoder(name),
    )


def _student_encoder(name: StudentName) -> PictureEncoder:
    """The eyes that a student was trained with; the colour detector for one that was trained without.

    Where the name says YOLO, the boxes are YOLO's; tokens stay those of the eyes, the only ones the student knows.
    """
    fusion = read_manifest(name.model_folder(FUSION))
    yolo = None if name.yolo is None else open_yolo(name.yolo)
    if EYES not in fusion.trained_on:
        return DetectorEncoder(yolo or ColourDetector())
    eyes = LearnedEyes.load(name.eyes_folder())
    require_eyes(fusion, eyes.session.manifest)
    return eyes if yolo is None else DetectorBesideEyes(yolo, eyes)


@cache
def robot() -> RobotModel:
    """The robot of urdf/."""
    return load_robot(resource_path("urdf", ROBOT_FILE))


@cache
def skills() -> SkillTable:
    """The primitive table of config/skills.yaml."""
    return load_skill_table(resource_path("config", "skills.yaml"))


@cache
def task(name: str) -> Task:
    """A task by name or file."""
    return load_task(_named_or_file("tasks", name))


@cache
def profile(name: str) -> Profile:
    """A profile by name or file."""
    return load_profile(_named_or_file("profiles", name))


@cache
def arbiter_config() -> ArbiterConfig:
    """The arbiter's settings, config/arbiter.yaml."""
    return load_arbiter_config(resource_path("config", "arbiter.yaml"))


def require_settings(policy: str | None, task_name: str | None, profile_name: str | None) -> None:
    """Read all that a run is named by; raises one InvalidInputError with the faults of all of it.

    None: the run is not named by it.
    """
    errors: list[InvalidInputError] = []
    for read, name in ((policy_kit, policy), (task, task_name), (profile, profile_name)):
        try:
            if name is not None:
                read(name)
        except InvalidInputError as error:
            errors.append(error)
    raise_together("settings", errors)


def settings_hashes(task_name: str, profile_name: str, policy: str | None = None) -> dict[str, str]:
    """SHA-256 of all settings that a run depends on: task, profile, skills, the robot, and each file of its kind.

    policy: whose models are among them.
    """
    hashes = {
        "task": task(task_name).sha256,
        "profile": profile(profile_name).sha256,
        "skills": skills().sha256,
        "robot": description_sha256(resource_path("urdf", ROBOT_FILE)),
    }
    for name in ("arbiter", "classic", "motion", "safety"):
        hashes[name] = hashlib.sha256(resource_path("config", f"{name}.yaml").read_bytes()).hexdigest()
    if policy is not None and is_student(policy):
        student = parse_name(policy)
        for part in (FUSION, POLICY):
            hashes[f"student {part}"] = read_manifest(student.model_folder(part)).sha256
        if student.yolo is not None:
            hashes["yolo"] = yolo_manifest(student.yolo).sha256
    if policy is not None and has_alternatives(policy):
        hashes |= manifest_hashes(parse_alternative(policy))
    return hashes


def skill_of_task(name: str) -> SkillContext:
    """The task skill that is active where no agent has chosen one: the task itself, as its only step."""
    return SkillContext(0, task(name).name, np.zeros(0), 1, 1, np.ones(len(Primitive), np.bool_))


def make_imu_stage(profile_name: str) -> ImuStage:
    """IMU ingest; a profile whose IMU has no noise is a world in which a resting IMU repeats itself."""
    return ImuStage(ImuConfig(noiseless_world=profile(profile_name).imu.is_noiseless))


def make_joint_ingest() -> JointIngest:
    """Joint ingest for exactly the joints that are commanded; others belong on a topic of their own."""
    return JointIngest(JointConfig(COMMAND_JOINTS))


def make_camera_ingest(policy: str, *, noiseless_world: bool = False) -> CameraIngest:
    """Camera ingest with the eyes of the policy. noiseless_world: pictures of a scene at rest repeat themselves."""
    return CameraIngest(policy_kit(policy).make_encoder(), CameraConfig(noiseless_world=noiseless_world), skills())


def make_fusion_stage(policy: str) -> FusionStage:
    """Fusion with the estimator of the policy."""
    return FusionStage(policy_kit(policy).make_estimator())


def make_policy_stage(policy: str) -> PolicyStage:
    """The policy, held to the skill table."""
    return PolicyStage(policy_kit(policy).make(), skills(), numerical_threads())


def make_bridge_stage(arbitration: Arbitration = Arbitration.STUDENT_ALONE, profile_name: str = "real") -> BridgeStage:
    """The bridge, which arbitrates between the proposals for a decision.

    The twin of a fallback knows the nominal lag of the profile's servos, as the executor does.
    """
    if arbitration is Arbitration.STUDENT_ALONE:
        return StudentAlone()
    config = arbiter_config()
    teacher = policy_kit(config.teacher).make()
    if arbitration is Arbitration.ORACLE_TEACHER:
        return OracleTeacher(teacher)
    classic = load_classic_config(resource_path("config", "classic.yaml"))
    actuation = profile(profile_name).actuation
    lag = LagModel(actuation.dead_time_s, actuation.time_constant_s)
    return WithFallback(Arbiter(config), KinematicTwin(robot(), classic, lag, config.twin), teacher, skills())


def make_pair_stage(sink: Callable[[Pair], None], tokens: tuple[int, int] = (0, 0)) -> PairStage:
    """What online training learns from. tokens: shape of the camera encoder's, (0, 0) where they are not kept."""
    return PairStage(ScriptedLabeller(robot(), skills()), sink, PairShape(tokens=tokens))


def needs_truth(policy: str, arbitration: Arbitration) -> bool:
    """Whether a run asks its world for the truth: only what is called an oracle does."""
    return policy_kit(policy).is_oracle or arbitration is Arbitration.ORACLE_TEACHER


def make_motion_stage(profile_name: str) -> MotionStage:
    """The primitives' executor; it compensates the nominal lag of the profile's servos."""
    return motion_stage_for(profile(profile_name))


def motion_stage_for(drawn: Profile) -> MotionStage:
    """The same for a profile that has no file."""
    actuation = drawn.actuation
    lag = LagModel(actuation.dead_time_s, actuation.time_constant_s)
    config = load_motion_config(resource_path("config", "motion.yaml"))
    return MotionStage(Executor(robot(), skills(), config, lag), round(config.decision_s * 1e9))


def make_gate_model(policy: str, *, physical: bool = False, servo_health: bool = False) -> GateModel:
    """What the gate knows of the robot. Where a policy looks at no pictures, the camera is named as not fitted.

    servo_health: a driver tells how its servos are, as that of a physical robot must; a simulated world has none.
    """
    settings = load_safety(resource_path("config", "safety.yaml"))
    if not (physical or servo_health):
        settings = settings.lacking(*SERVO_HEALTH)
    if not policy_kit(policy).pictures:
        settings = settings.lacking(Hardware.CAMERA)
    return GateModel.build(robot(), settings, physical)


def make_gate_stage(
    policy: str,
    arbitration: Arbitration = Arbitration.STUDENT_ALONE,
    *,
    physical: bool = False,
    servo_health: bool = False,
    rewards: Mapping[str, float] | None = None,
    attestations: Sequence[Attestation] = (),
) -> GateStage:
    """The safety gate; it arms by itself in simulated worlds only.

    rewards: what each subgoal pays, where rewards are handed over. attestations: what is asked at every tick.
    """
    model = make_gate_model(policy, physical=physical, servo_health=servo_health)
    sources = FALLBACKS if arbitration is Arbitration.WITH_FALLBACK else {}
    guards = Guards(model.settings, rewards, attestations, sources)
    return GateStage(Supervisor(model), auto_arm=not physical, guards=guards)


def make_stages(
    policy: str,
    profile_name: str,
    arbitration: Arbitration = Arbitration.STUDENT_ALONE,
    pairs: PairStage | None = None,
) -> Stages:
    """Every stage of one robot."""
    return Stages(
        imu=make_imu_stage(profile_name),
        camera=make_camera_ingest(policy, noiseless_world=profile(profile_name).camera.is_noiseless),
        joints=make_joint_ingest(),
        fusion=make_fusion_stage(policy),
        policy=make_policy_stage(policy),
        bridge=make_bridge_stage(arbitration, profile_name),
        motion=make_motion_stage(profile_name),
        gate=make_gate_stage(policy, arbitration),
        pairs=pairs,
    )


def make_pipeline(
    policy: str,
    profile_name: str,
    arbitration: Arbitration = Arbitration.STUDENT_ALONE,
    pairs: PairStage | None = None,
) -> Pipeline:
    """The whole way from sensors to command. pairs: takes what online training learns from, None where nobody does."""
    return Pipeline(make_stages(policy, profile_name, arbitration, pairs))


def make_world(
    task_name: str,
    profile_name: str,
    *,
    truth_age_ns: int | None,
    pictures: bool,
    measures: bool = False,
    steady_watchdog: bool = False,
) -> MujocoWorld:
    """The MuJoCo world.

    truth_age_ns: age of the truth an oracle is given, None where no truth channel is to exist. measures: for the reward
    server. steady_watchdog: the command watchdog runs on the steady clock (real time) instead of the world's time.
    """
    from tether.world.mujoco_world import MujocoWorld, TruthChannel  # MuJoCo is needed by worlds only

    return MujocoWorld(
        expand(resource_path("urdf", ROBOT_FILE)),
        task(task_name),
        profile(profile_name),
        truth=None if truth_age_ns is None else TruthChannel(truth_age_ns),
        pictures=pictures,
        measures=measures,
        clock=SteadyClock() if steady_watchdog else None,
    )


def _named_or_file(folder: str, name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    known = sorted(path.stem for path in resource_path("config", folder).glob("*.yaml"))
    if name not in known:
        kind = folder.removesuffix("s")
        fault = Fault(kind, repr(name), f"one of {', '.join(known)}, or a YAML file's path")
        raise InvalidInputError(kind, [fault], did_you_mean(name, known))
    return resource_path("config", f"{folder}/{name}.yaml")
