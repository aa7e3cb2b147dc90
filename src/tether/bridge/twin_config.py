"""Settings of the digital twin's check of itself."""

from __future__ import annotations

from dataclasses import dataclass

from tether.config import bounded


@dataclass(frozen=True)
class TwinConfig:
    """A residual of 1 is `box_px` between the cube's box as foretold and as seen, or `joint_rad` of a joint."""

    box_px: float = bounded(0.5, 100.0, unit="px", default=6.0)
    joint_rad: float = bounded(0.001, 1.0, unit="rad", default=0.03)
    window: int = bounded(1, 100, unit="residuals", default=8, doc="newest residuals of each kind that are looked at")
    limit: float = bounded(0.1, 10.0, default=1.0, doc="RMS of them up to which the twin passes")
    stale_s: float = bounded(0.05, 10.0, unit="s", default=0.8, doc="longest time without a residual of a box")
    correction: float = bounded(0.01, 1.0, default=0.3, doc="share of a joint's residual that is taken for the truth")
