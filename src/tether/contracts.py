"""What passes between the stages: one frozen, typed record per hand-over.

Conventions (REP 103/105): SI units, radians, x forward, y left, z up; quaternions x, y, z, w. Times are integer
nanoseconds. `stamp_ns` is the acquisition time of a sensor sample and travels unchanged to the action that used it.
`p_a_b` is the position of b in frame a, `v_a_b` its time derivative in frame a. Arrays are float64 unless said
otherwise and must not be written to once they stand in a record.

Records that hold arrays compare by identity (`eq=False`); compare their fields where values matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]

TICK_NS = 10_000_000
"""Period of the gate and of the primitives' closed loops: 10 ms (100 Hz)."""
TICKS_PER_DECISION = 5
"""A decision every 5 ticks: 50 ms (20 Hz)."""
DECISION_NS = TICK_NS * TICKS_PER_DECISION


class Stream(str, Enum):
    """Names of the streams whose samples a decision or a tick can use."""

    IMU = "imu"
    CAMERA = "camera"
    JOINTS = "joints"
    EXECUTED = "executed"
    TRUTH = "truth"
    """The world's true state. Present only when an oracle runs; absent, not merely unused, otherwise."""


@dataclass(frozen=True, order=True)
class SampleRef:
    """Identity of one sample: its stream, acquisition stamp and the count of samples of that stream before it."""

    stream: Stream
    stamp_ns: int
    sequence: int


@dataclass(frozen=True, eq=False)
class ImuSample:
    """One IMU reading in the IMU's frame (REP 145).

    angular_velocity_rad_s: (3,); linear_acceleration_m_s2: (3,), gravity included (+g on z at rest).
    orientation_xyzw: (4,) unit quaternion, or None where the sensor gives none.
    """

    ref: SampleRef
    angular_velocity_rad_s: F64
    linear_acceleration_m_s2: F64
    orientation_xyzw: F64 | None = None


@dataclass(frozen=True, eq=False)
class JointSample:
    """Joint readings by name. position: rad (m for prismatic), velocity: rad/s (m/s); both (len(names),)."""

    ref: SampleRef
    names: tuple[str, ...]
    position: F64
    velocity: F64


@dataclass(frozen=True, eq=False)
class CameraModel:
    """Pinhole intrinsics. k: (3, 3) pixels; frame_id: optical frame (z forward, x right, y down)."""

    width: int
    height: int
    k: F64
    frame_id: str = "camera_optical_frame"


@dataclass(frozen=True, eq=False)
class ImageSample:
    """One decoded picture. rgb: (height, width, 3) uint8."""

    ref: SampleRef
    rgb: U8
    camera: CameraModel


@dataclass(frozen=True, eq=False)
class ImageFeature:
    """What camera ingest makes of one picture.

    detections: (N, 6) float32, rows x1, y1, x2, y2 (pixels), confidence, class.
    tokens: (T, D) float32 from the image encoder, or None where no encoder is loaded.
    rejected: reason why the picture was refused, or None; a refused picture still has its record, so that a
    lockstep barrier never waits for it.
    """

    ref: SampleRef
    camera: CameraModel | None
    detections: F32
    tokens: F32 | None = None
    rejected: str | None = None


@dataclass(frozen=True, eq=False)
class TruthSample:
    """The world's true state, for oracles and judges only.

    p_base_cube, v_base_cube: (3,) cube in the base frame and its rate in that frame. p_world_base: (3,) x, y, yaw.
    base_twist: (3,) vx, vy (base frame, m/s), wz. joints: by name order of the robot.
    """

    ref: SampleRef
    p_base_cube: F64
    v_base_cube: F64
    p_world_base: F64
    base_twist: F64
    joint_position: F64
    joint_velocity: F64
    held: bool
    cube_height_m: float


Sample = ImuSample | JointSample | ImageSample | TruthSample


@dataclass(frozen=True, eq=False)
class ImuBatch:
    """IMU samples that passed ingest during one tick, oldest first.

    token: (D,) float32 of the 1D-CNN over the last 100 samples, or None where no encoder is loaded.
    """

    episode: int
    tick: int
    stamp_ns: int
    samples: tuple[ImuSample, ...]
    token: F32 | None = None


@dataclass(frozen=True, eq=False)
class SkillContext:
    """The active task skill as the policy sees it: id, parameters, step `step_k` of `step_n`, allowed primitives.

    primitive_mask: (len(Primitive),) bool, True where the primitive may be chosen.
    """

    skill_id: int
    name: str
    params: F64
    step_k: int
    step_n: int
    primitive_mask: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Estimate:
    """The policy's own view of the object, valid at `stamp_ns` (its decision time).

    p_base_cube (3,) m, v_base_cube (3,) m/s, a_base_cube (3,) m/s²: cube in the base frame and its derivatives there
    (base motion included: this is what a tool on the base must follow). sigma_m: one-sigma position error.
    valid: False while the object has never been seen or was lost.
    """

    stamp_ns: int
    p_base_cube: F64
    v_base_cube: F64
    a_base_cube: F64
    sigma_m: float
    valid: bool

    @staticmethod
    def none(stamp_ns: int) -> Estimate:
        """The estimate of somebody who has seen nothing yet."""
        zero = np.zeros(3)
        return Estimate(stamp_ns, zero, zero, zero, float("inf"), False)


@dataclass(frozen=True, eq=False)
class FusedState:
    """Output of fusion for one decision: what was used, how old it is, and the state made of it.

    used: every sample that arrived since the previous decision and went into the state, in canonical order.
    age_ns: modality → age of its newest sample at the decision; absent while none has arrived.
    features: (F,) float32 state for a learned policy; empty shape (0,) where fusion has no encoder loaded.
    imu_window: (6, n ≤ 100) newest last, rows gyro x y z, accel x y z.
    attention: modality → share of fusion's attention, empty where fusion has no encoder loaded. prediction_error:
    normalised RMS between what was predicted for the newest samples' stamps and what came; None while unknown.
    """

    decision_id: int
    stamp_ns: int
    used: tuple[SampleRef, ...]
    age_ns: Mapping[Stream, int]
    estimate: Estimate
    joints: JointSample | None
    imu_window: F64
    detections: F32
    features: F32
    skill: SkillContext
    attention: Mapping[str, float] = field(default_factory=dict)
    prediction_error: float | None = None


class Primitive(IntEnum):
    """Short closed-loop motions and perceptions; the discrete half of a hybrid action. Order is a contract."""

    HOLD = 0
    TRACK = 1
    REACH = 2
    GRASP = 3
    LIFT = 4
    PLACE = 5
    RETREAT = 6
    DRIVE = 7
    LOOK = 8


class Source(str, Enum):
    """Who made an action."""

    SCRIPTED = "scripted"
    CLASSIC = "classic"
    STUDENT = "student"
    TEACHER = "teacher"
    FALLBACK = "fallback"
    OPERATOR = "operator"
    GATE = "gate"
    """A command as it reaches a world: the standard messages that carry it do not say who first made it."""


@dataclass(frozen=True, eq=False)
class HybridAction:
    """(primitive id, that primitive's continuous parameters) with the estimate that the primitive acts on.

    params: (n,) in the order and bounds of the skill table's entry for `primitive`; other primitives' are masked.
    """

    decision_id: int
    stamp_ns: int
    primitive: Primitive
    params: F64
    estimate: Estimate
    source: Source


@dataclass(frozen=True, eq=False)
class PolicyOutput:
    """A policy's proposal for one decision, with what is needed to explain and to rebuild it.

    state_hash, rng_hash: hex digests after the decision. runtime: what computed it, e.g. `numpy` or `onnxruntime`.
    latency_ns: stage name → time it took, in real time only.
    """

    action: HybridAction
    used: tuple[SampleRef, ...]
    age_ns: Mapping[Stream, int]
    state_hash: str
    rng_hash: str
    runtime: str
    threads: int
    latency_ns: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Decision:
    """An arbitrated action with everything needed to explain and to rebuild it."""

    action: HybridAction
    used: tuple[SampleRef, ...]
    age_ns: Mapping[Stream, int]
    reason: str
    state_hash: str
    rng_hash: str
    runtime: str
    threads: int
    prediction_error: float | None = None
    latency_ns: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Command:
    """Set-points for one tick: joints by name and the base twist in the base frame.

    position: (n,) rad or m; velocity: (n,) rad/s or m/s (feed-forward); base_twist: (3,) vx, vy (m/s), wz (rad/s).
    """

    tick: int
    stamp_ns: int
    decision_id: int
    source: Source
    joint_names: tuple[str, ...]
    position: F64
    velocity: F64
    base_twist: F64


class Mode(IntEnum):
    """States of the safety supervisor."""

    INIT = 0
    ARMED = 1
    ACTIVE = 2
    DEGRADED = 3
    SAFE = 4
    SLOW = 5
    STOP = 6
    """Emergency stop: latched, left only by an explicit reset with a reason."""


@dataclass(frozen=True)
class Verdict:
    """Judgement of one check: the share of the command's motion that may pass (0 stops, 1 passes), and why."""

    check: str
    scale: float
    reason: str = ""


@dataclass(frozen=True, eq=False)
class GateOutput:
    """One tick of the gate: the command that may reach the motors, the mode, and every check that restricted it."""

    command: Command
    mode: Mode
    scale: float
    verdicts: tuple[Verdict, ...]
    command_age_ns: int | None


@dataclass(frozen=True, eq=False)
class ExecutedCommand:
    """What the world or driver really applied during a tick; this is what is recorded and trained on."""

    ref: SampleRef
    command: Command
    watchdog_stop: bool


@dataclass(frozen=True)
class TickPlan:
    """A lockstep barrier: what the world has delivered for this tick, and whether a decision is due."""

    episode: int
    tick: int
    stamp_ns: int
    due: tuple[SampleRef, ...]
    decision_id: int | None
    """Number of the decision due at this tick, or None between decisions."""


@dataclass(frozen=True)
class EpisodeSpec:
    """What fully determines an episode of a given policy."""

    task: str
    profile: str
    seed: int


@dataclass(frozen=True)
class EpisodeResult:
    """How an episode ended. failure: None on success, else a reason from the task's list."""

    spec: EpisodeSpec
    success: bool
    first_attempt_success: bool
    attempts: int
    duration_s: float
    failure: str | None


@dataclass(frozen=True, eq=False)
class TickDelivery:
    """What a world hands over at the start of tick `tick` (time `stamp_ns`): samples whose delay has passed.

    samples: in order of delivery; executed: what was applied during the previous tick (None at tick 0);
    result: set once, at the tick at which the episode ended.
    """

    episode: int
    tick: int
    stamp_ns: int
    samples: Sequence[Sample]
    executed: ExecutedCommand | None
    result: EpisodeResult | None
