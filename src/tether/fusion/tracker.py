"""Pictures into the filter, each at the moment it was taken, however late and in whatever order it came.

The tracker keeps the belief after every picture of the last moments. A picture that is older than the newest one used
takes the filter back to the belief before it, and everything since is done again: the result is that of pictures that
came in order. The belief at a decision is the newest one carried on through the IMU's readings.

An edge of a box is believed unless it lies further in than it can: then something hides that side of the cube, and the
other edges, with what is known of the box's size, still say where the cube is.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.contracts import F64, CameraModel, ImageFeature, ImuSample
from tether.fusion.box_model import BoxModel
from tether.fusion.classic_config import ClassicConfig
from tether.fusion.imu_track import ImuTrack
from tether.fusion.kalman import CUBE, N_STATES, SIZE, TILT, Belief, CubeMotion, Relative, corrected, told

_INWARDS = np.array([1.0, 1.0, -1.0, -1.0])
"""Direction in which each edge (x1, y1, x2, y2) moves where something hides a part of the box."""
_BORDER_PX = 1.0
_STEP_M = 1e-3
_STEPS_M = np.array([[0.0, 0.0, 0.0], [_STEP_M, 0.0, 0.0], [0.0, _STEP_M, 0.0]])
_FIRST_SIGMA_M = 0.004
_WHOLE = (0.7, 1.4)
"""Size of a box over that of a cube's, turned by an unknown angle, between which it counts as wholly visible."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What stands after a picture: belief, when the cube was last believed seen, boxes out of the gate in a row."""

    belief: Belief
    seen_ns: int
    misses: int


class CubeTracker:
    """Filter over pictures and IMU readings. Deterministic in the sequence of calls."""

    def __init__(self, boxes: BoxModel, motion: CubeMotion, config: ClassicConfig) -> None:
        self._boxes = boxes
        self._motion = motion
        self._config = config
        self._imu = ImuTrack(round(config.imu.max_gap_s * 1e9))
        self._history_ns = round(config.memory.history_s * 1e9)
        self.reset()

    def reset(self) -> None:
        """Forget everything."""
        self._imu.clear()
        self.forget_cube()

    def forget_cube(self) -> None:
        """Forget all but the IMU's readings."""
        self._pushes: list[tuple[int, int | None]] = []
        """Start and end of the times in which the cube may have been pushed, the last one still open or not."""
        self._pictures: list[ImageFeature] = []
        self._after: list[Seen] = []
        """The state after each of `_pictures`."""
        self._start: Seen | None = None
        """The state before the first of `_pictures`."""

    def add_imu(self, sample: ImuSample) -> None:
        """Take a reading; ignored where the configuration leaves the IMU out."""
        if self._config.imu.enabled:
            self._imu.add(sample)

    def set_pushed(self, stamp_ns: int, pushed: bool) -> None:
        """Say whether something may be pushing the cube from `stamp_ns` on."""
        is_open = bool(self._pushes) and self._pushes[-1][1] is None
        if pushed and not is_open:
            self._pushes.append((stamp_ns, None))
        elif is_open and not pushed:
            self._pushes[-1] = (self._pushes[-1][0], stamp_ns)

    def tidy(self, now_ns: int) -> None:
        """Keep the work of a decision bounded where pictures have stopped: the belief goes on without them.

        Pictures from before are then too late.
        """
        newest, kept_ns = self.newest, now_ns - self._history_ns
        if newest is None:
            self._imu.forget_before(kept_ns)
        elif newest.belief.stamp_ns < kept_ns - self._history_ns:
            self._begin_at(Seen(self._carried(newest.belief, kept_ns), newest.seen_ns, newest.misses))

    @property
    def newest(self) -> Seen | None:
        """The state after the newest picture; None while the cube was never seen."""
        return self._after[-1] if self._after else self._start

    def observe(self, picture: ImageFeature) -> None:
        """Use a picture at its stamp. One from before the history is too late and is dropped."""
        stamps = [p.ref.stamp_ns for p in self._pictures]
        if picture.camera is None or (self._start is not None and picture.ref.stamp_ns <= self._start.belief.stamp_ns):
            return
        at = bisect_right(stamps, picture.ref.stamp_ns)
        before = self._after[at - 1] if at > 0 else self._start
        if before is None and self._whole_box(picture) is None:
            return
        self._pictures.insert(at, picture)
        del self._after[at:]
        for each in self._pictures[at:]:
            before = self._use(before, each)
            self._after.append(before)
        self._forget()

    def place_at(self, stamp_ns: int, p_base_cube: F64, sigma_m: float) -> None:
        """Say where the cube is, from something other than pictures (the hand has just let it go)."""
        newest = self.newest
        size = self._config.box.size
        if newest is None:
            belief = self._motion.begin(stamp_ns, p_base_cube, sigma_m, size)
        else:
            at_ns = max(stamp_ns, newest.belief.stamp_ns)
            belief = self._motion.moved(self._carried(newest.belief, at_ns), p_base_cube, sigma_m, size)
        self._begin_at(Seen(belief, belief.stamp_ns, 0))

    def at(self, stamp_ns: int) -> tuple[Relative, int] | None:
        """Cube against base at `stamp_ns` and when it was last seen; None while it never was."""
        newest = self.newest
        if newest is None:
            return None
        belief = self._carried(newest.belief, max(stamp_ns, newest.belief.stamp_ns))
        inputs = self._imu.newest_mean(stamp_ns, round(self._config.imu.smooth_s * 1e9))
        return self._motion.relative(belief, inputs), newest.seen_ns

    def gap_px(self, p_base: F64, picture: ImageFeature) -> float | None:
        """Distance in pixels from the box of a cube at p_base to the nearest in the picture; None without one."""
        if picture.camera is None:
            return None
        expected = self._boxes.edges_of(p_base, picture.camera)
        rows = self._believable(picture)
        if expected is None or len(rows) == 0:
            return None
        centre = 0.5 * (expected[:2] + expected[2:])
        gaps = np.linalg.norm(0.5 * (rows[:, :2] + rows[:, 2:]) - centre, axis=1)
        return float(gaps.min())

    def digest(self) -> bytes:
        """Digest of everything that later estimates depend on."""
        sha = hashlib.sha256(self._imu.dump() + repr(self._pushes).encode())
        for seen in ([self._start] if self._start is not None else []) + self._after:
            sha.update(seen.belief.x.tobytes() + seen.belief.P.tobytes())
            sha.update(repr((seen.belief.stamp_ns, seen.seen_ns, seen.misses)).encode())
        for picture in self._pictures:
            sha.update(repr(picture.ref.stamp_ns).encode() + picture.detections.tobytes())
        return sha.digest()

    # -- One picture ---------------------------------------------------------------------------------------------

    def _use(self, before: Seen | None, picture: ImageFeature) -> Seen:
        stamp_ns = picture.ref.stamp_ns
        if before is None:
            box = self._whole_box(picture)
            p = None if box is None or picture.camera is None else self._locate(box, picture.camera)
            if p is None:
                raise AssertionError("a tracker starts only from a picture that shows the cube")
            return Seen(self._motion.begin(stamp_ns, p, _FIRST_SIGMA_M, self._config.box.size), stamp_ns, 0)
        belief = self._level(self._carried(before.belief, stamp_ns), before.belief.stamp_ns)
        if picture.camera is None:
            return Seen(belief, before.seen_ns, before.misses)
        predicted = self._predict(belief, picture.camera)
        if predicted is None:
            return Seen(belief, before.seen_ns, before.misses)
        expected, H = predicted
        box = self._box_near(picture, expected, belief, H)
        used = None if box is None else self._corrected(belief, box, expected, H, picture.camera)
        if used is not None:
            return Seen(used, stamp_ns, 0)
        return self._missed(belief, before, picture)

    def _missed(self, belief: Belief, before: Seen, picture: ImageFeature) -> Seen:
        """Nothing to believe where the cube should be. Seen whole somewhere else often enough, it is there."""
        box = self._whole_box(picture)
        if box is None or picture.camera is None:
            return Seen(belief, before.seen_ns, before.misses)
        misses = before.misses + 1
        p = self._locate(box, picture.camera) if misses >= self._config.box.lost_after else None
        if p is None:
            return Seen(belief, before.seen_ns, misses)
        moved = self._motion.moved(belief, p, _FIRST_SIGMA_M, self._config.box.size)
        return Seen(moved, belief.stamp_ns, 0)

    def _predict(self, belief: Belief, camera: CameraModel) -> tuple[F64, F64] | None:
        """Expected edges (4,) and their derivative (4, N_STATES)."""
        edges = self._boxes.edges(self._motion.place(belief.x) + _STEPS_M, camera)
        if edges is None:
            return None
        nominal, along_x, along_y = edges
        centre = 0.5 * (nominal[:2] + nominal[2:])
        half = 0.5 * (nominal[2:] - nominal[:2])
        scaled = half * belief.x[SIZE]
        H = np.zeros((4, N_STATES))
        H[:, 0] = (along_x - nominal) / _STEP_M
        H[:, 1] = (along_y - nominal) / _STEP_M
        H[0, SIZE.start], H[2, SIZE.start] = -half[0], half[0]
        H[1, SIZE.start + 1], H[3, SIZE.start + 1] = -half[1], half[1]
        return np.concatenate((centre - scaled, centre + scaled)), H

    def _box_near(self, picture: ImageFeature, expected: F64, belief: Belief, H: F64) -> F64 | None:
        """The box about the expected place: what hides a stripe of the cube leaves several, which are joined."""
        spread = np.sqrt(np.diag(H[:, CUBE] @ belief.P[CUBE, CUBE] @ H[:, CUBE].T))
        margin = self._config.box.gate_sigma * (spread + self._config.box.edge_px)
        low, high = expected[:2] - margin[:2], expected[2:] + margin[2:]
        rows = self._believable(picture)
        centres = 0.5 * (rows[:, :2] + rows[:, 2:])
        near = rows[np.all((centres >= low) & (centres <= high), axis=1)]
        if len(near) == 0:
            return None
        return np.concatenate((near[:, :2].min(axis=0), near[:, 2:].max(axis=0)))

    def _corrected(self, belief: Belief, box: F64, expected: F64, H: F64, camera: CameraModel) -> Belief | None:
        """The belief after the edges that can be believed; None where none or none of an axis can."""
        config = self._config.box
        innovation = box - expected
        variance = np.diag(H @ belief.P @ H.T) + config.edge_px**2
        reach = config.gate_sigma * np.sqrt(variance)
        if bool(np.any(-innovation * _INWARDS > reach)):
            return None  # larger than the cube can look: not the cube, or not where it is thought to be
        border = np.array([_BORDER_PX, _BORDER_PX, camera.width - 1 - _BORDER_PX, camera.height - 1 - _BORDER_PX])
        use: NDArray[np.bool_] = (innovation * _INWARDS < reach) & ((box - border) * _INWARDS > 0.0)
        if not bool(use.any()):
            return None
        R = np.eye(int(use.sum())) * config.edge_px**2
        return corrected(belief, innovation[use], H[use], R)

    def _level(self, belief: Belief, since_ns: int) -> Belief:
        """The ground is level on average: said about once in the time over which its tilt remembers itself."""
        imu = self._config.imu
        dt_s = max((belief.stamp_ns - since_ns) * 1e-9, 1e-3)
        variance = imu.tilt_rad**2 * max(imu.tilt_memory_s / dt_s, 1.0)
        for state in range(TILT.start, TILT.stop):
            belief = told(belief, state, 0.0, variance)
        return belief

    # -- Small things --------------------------------------------------------------------------------------------

    def _believable(self, picture: ImageFeature) -> F64:
        rows = picture.detections
        return np.asarray(rows[rows[:, 4] >= self._config.box.min_confidence, :4], dtype=np.float64)

    def _whole_box(self, picture: ImageFeature) -> F64 | None:
        """The largest box that can be a whole cube on the ground."""
        if picture.camera is None:
            return None
        for row in self._believable(picture):
            p = self._locate(row[:4], picture.camera)
            expected = None if p is None else self._boxes.edges_of(p, picture.camera)
            if expected is None:
                continue
            share = (row[2:4] - row[:2]) / (expected[2:] - expected[:2])
            if bool(np.all((share > _WHOLE[0]) & (share < _WHOLE[1]))):
                return np.asarray(row[:4])
        return None

    def _locate(self, box: F64, camera: CameraModel) -> F64 | None:
        return self._boxes.locate(box, self._config.cube.side_m / 2.0, camera)

    def _carried(self, belief: Belief, to_ns: int) -> Belief:
        start_ns = belief.stamp_ns
        overlaps = (min(end or to_ns, to_ns) - max(begin, start_ns) for begin, end in self._pushes)
        pushed_s = sum(max(overlap, 0) for overlap in overlaps) * 1e-9
        return self._motion.propagate(belief, to_ns, self._imu.pieces(start_ns, to_ns), pushed_s)

    def _begin_at(self, seen: Seen) -> None:
        self._pictures.clear()
        self._after.clear()
        self._start = seen
        self._forget_before(seen.belief.stamp_ns)

    def _forget(self) -> None:
        """Keep the history short: pictures that are too old to be overtaken, and readings before them."""
        if not self._pictures:
            return
        oldest = self._pictures[-1].ref.stamp_ns - self._history_ns
        n = bisect_left([p.ref.stamp_ns for p in self._pictures], oldest)
        n = min(n, len(self._pictures) - 1)
        if n > 0:
            self._start = self._after[n - 1]
            del self._pictures[:n], self._after[:n]
        first = self._start.belief.stamp_ns if self._start is not None else self._after[0].belief.stamp_ns
        self._forget_before(first)

    def _forget_before(self, first: int) -> None:
        self._imu.forget_before(first)
        self._pushes = [push for push in self._pushes if push[1] is None or push[1] > first]
