"""The student's estimator at run time: arrivals in, estimate and features out, through the exported fusion model."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

from tether.contracts import F32, Estimate, SkillContext
from tether.fusion.estimator import Arrivals, Insight
from tether.models.session import Session
from tether.policy.stage import digest
from tether.robot.model import RobotModel
from tether.student.models import CAMERA, SUMMARY, uses_camera
from tether.student.observation import DROPS, MODALITIES, PERIODS, Observation, Observer
from tether.student.prediction import PredictionCheck

_SIGMA_M = 0.03
"""Position error beyond which an estimate is not valid."""


class StudentEstimator:
    """See `tether.fusion.estimator.Estimator` and `Encoder`. Its memory is what arrived and four summaries."""

    def __init__(self, robot: RobotModel, side_m: float, session: Session, without: Sequence[str] = ()) -> None:
        """without: modalities that are masked, for ablations."""
        self._observer = Observer(robot, side_m)
        self._check = PredictionCheck()
        self._without = tuple(without)
        self.observation: Observation = {}
        """Input of the newest update."""
        self._size = 0
        self._summaries: deque[F32] = deque(maxlen=PERIODS - 1)
        self._insight = Insight()
        self.use(session)

    def use(self, session: Session) -> None:
        """Run another model from the next decision on; the summaries stay, models of one training agree on them."""
        size = int(session.manifest.settings[SUMMARY])
        if size != self._size:
            self._size = size
            self._forget()
        self._session = session
        self._camera = uses_camera(session.manifest)

    @property
    def runtime(self) -> str:
        """What runs the model."""
        return self._session.runtime

    def sessions(self) -> tuple[Session, ...]:
        """See `tether.models.running.RunsModels`."""
        return (self._session,)

    @property
    def newest_picture_ns(self) -> int | None:
        """Stamp of the newest picture that was taken."""
        return self._observer.newest_picture_ns

    def reset(self, skill: SkillContext) -> None:
        """Start an episode."""
        self._observer.reset(skill)
        self._check.reset()
        self._forget()

    def update(self, stamp_ns: int, arrivals: Arrivals) -> Estimate:
        """Take what arrived and estimate the cube at `stamp_ns`."""
        self.observation = self._observer.take(stamp_ns, arrivals)
        error = self._check.error(stamp_ns, self._observer)
        inputs = self._masked(self.observation)
        history = np.concatenate(list(self._summaries))[None]
        out = self._session.run({**{name: value[None] for name, value in inputs.items()}, "history": history})
        self._summaries.append(out["summary"])
        self._check.say(stamp_ns, np.asarray(out["states"][0], np.float64))
        shares = out["attention"][0].tolist()
        self._insight = Insight(out["features"][0], dict(zip(MODALITIES, shares, strict=True)), error)
        seen = float(inputs["boxes_mask"].max()) > 0.0 or (self._camera and float(inputs["tokens_mask"][0]) > 0.0)
        sigma_m = math.exp(float(out["log_sigma"][0, 0]))
        p, v, a = (np.asarray(out[name][0], np.float64) for name in ("p", "v", "a"))
        finite = bool(np.isfinite(p).all() and np.isfinite(v).all() and np.isfinite(a).all())
        if not (seen and finite):
            return Estimate.none(stamp_ns)
        return Estimate(stamp_ns, p, v, a, sigma_m, sigma_m <= _SIGMA_M)

    def insight(self) -> Insight:
        """Features, attention and prediction error of the newest update."""
        return self._insight

    def state_hash(self) -> str:
        """Digest of everything that later estimates depend on."""
        summaries = b"".join(summary.tobytes() for summary in self._summaries)
        return digest(self._observer.digest(), summaries, self._check.dump(), self._session.manifest.sha256.encode())

    def _forget(self) -> None:
        self._summaries.extend([np.zeros((1, self._size), np.float32)] * (PERIODS - 1))
        self._insight = Insight()

    def _masked(self, observation: Observation) -> Observation:
        out = dict(observation)
        for modality in self._without:
            for name in DROPS[modality]:
                out[name] = np.zeros_like(out[name])
        if not self._camera:
            for name in DROPS[CAMERA]:
                del out[name]
        return out
