"""The highest rate that the graph keeps up with, after the method of NVIDIA-ISAAC-ROS/ros2_benchmark.

One recording is played into the graph at different speeds, all of its streams alike. The highest speed at which fewer
than 5 % of the messages are lost is found by bisection, apart for pictures and for IMU samples; then the graph is
measured at the peak several times, and at fixed rates. Lost is what was in the recording played and did not come out of
ingest, wherever it was lost: player, transport, ingest, or the recorder of the results. A speed that the player itself
did not reach says nothing of the graph at that speed: it counts as lost, and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tether.bags.player import MAX_RATE, MIN_RATE
from tether.bench.figures import Metric
from tether.bench.processes import Usage, usage_of_all
from tether.bench.way import Way, joined

DROP_MAX = 0.05
TRIES = 5
"""Halvings after the player's highest speed: a peak is known to a 32nd of that."""
REPEATS = 3
"""Plays at the peak, the one that found it included."""
FIXED_HZ = (30.0, 60.0)
"""Picture rates at which the graph is measured besides."""

PLAYS_MAX = 1 + 2 * TRIES + REPEATS - 1 + len(FIXED_HZ)

_OF_TIME_ITSELF = ("missed_decisions", "wait_for_decision_ms")
"""Figures that say nothing where a period of 50 ms lasts as long as the speed of play makes it."""


@dataclass(frozen=True)
class Play:
    """One play of a recording into the graph.

    source, way: what was in the recording played, and what was recorded of the graph. usage: each process. speed: how
    many times as fast as it was recorded it should be. reached: how many times it was.
    """

    source: Way
    way: Way
    usage: Mapping[str, Usage]
    speed: float
    reached: float

    @property
    def is_on_time(self) -> bool:
        """Whether the player reached the speed, but for a share that may be lost, too."""
        return self.reached >= (1.0 - DROP_MAX) * self.speed

    @property
    def picture_drops(self) -> float:
        """Share of the pictures that camera ingest did not look at."""
        return _lost(self.source.pictures, self.way.features)

    @property
    def imu_drops(self) -> float:
        """Share of the IMU samples that IMU ingest did not hand on."""
        return _lost(self.source.imu_samples, self.way.imu_taken)

    @property
    def decision_drops(self) -> float:
        """Share of the decisions that were not made; due by the steady clock, however fast the sensors are played."""
        return _lost(self.source.decisions / self.reached if self.reached else 0.0, self.way.decisions)

    def note(self) -> str:
        """What came of it, in words."""
        return (
            f"{self.speed:.3g} x asked, {self.reached:.3g} x played: {self.picture_drops:.1%} of pictures lost "
            f"({self.way.pictures_missed} of {self.source.pictures} never taken), {self.imu_drops:.1%} of IMU samples"
        )


@dataclass(frozen=True)
class Peak:
    """Speeds of play. kept: highest that was kept up with (0: none); lost: lowest that was not (None: all were).

    by_player: it was the player that did not reach `lost`.
    """

    kept: float
    lost: float | None
    by_player: bool = False

    def note(self, what: str, base_hz: float) -> str:
        """What was found, in words."""
        kept = f"peak rate of {what}: {self.kept * base_hz:g} Hz with fewer than {DROP_MAX:.0%} lost"
        if self.lost is None:
            return f"{kept}, or more: at least this, since the player cannot play faster"
        if self.by_player:
            return f"{kept}, or more: the player did not reach {self.lost * base_hz:g} Hz"
        return f"{kept}, not {self.lost * base_hz:g} Hz"


def find_peak(play: Callable[[float], Play], drops: Callable[[Play], float], tries: int = TRIES) -> Peak:
    """Bisection over the speed of play, the player's highest first. drops: share that a play lost."""

    def is_kept(speed: float) -> bool:
        return play(speed).is_on_time and drops(play(speed)) < DROP_MAX

    if is_kept(MAX_RATE):
        return Peak(MAX_RATE, None)
    kept, lost = 0.0, MAX_RATE
    for _ in range(tries):
        speed = max(0.5 * (kept + lost), MIN_RATE)
        if is_kept(speed):
            kept = speed
        else:
            lost = speed
    return Peak(kept, lost, by_player=not play(lost).is_on_time)


def search(
    play: Callable[[float], Play],
    picture_hz: float,
    imu_hz: float,
    figures: Callable[[Way, Mapping[str, Usage]], dict[str, Metric]],
) -> tuple[dict[str, Metric], tuple[str, ...]]:
    """Peaks and what all else was at them, as metrics and notes.

    play: plays at a speed. picture_hz, imu_hz: the recording's own rates. figures: of one or more plays as one.
    """
    plays: dict[float, list[Play]] = {}

    def played(speed: float) -> Play:
        if speed not in plays:
            plays[speed] = [play(speed)]
        return plays[speed][0]

    pictures = find_peak(played, lambda play: play.picture_drops)
    imu = find_peak(played, lambda play: play.imu_drops)
    metrics = {
        "peak_picture_rate": Metric.of([pictures.kept * picture_hz], "Hz"),
        "peak_imu_rate": Metric.of([imu.kept * imu_hz], "Hz"),
    }
    if pictures.kept:
        plays[pictures.kept] += [play(pictures.kept) for _ in range(REPEATS - 1)]
        metrics |= _figures("peak", plays[pictures.kept], figures)
    for hz in FIXED_HZ:
        metrics |= _figures(f"at_{hz:g}hz", [played(hz / picture_hz)], figures)
    fixed = ", ".join(f"{hz:g}" for hz in FIXED_HZ)
    notes = (
        pictures.note("pictures", picture_hz),
        imu.note("IMU samples", imu_hz),
        f"all streams played faster alike; {REPEATS} plays at the peak, one each at {fixed} pictures a second",
        *(play.note() for speed in sorted(plays) for play in plays[speed]),
    )
    return metrics, notes


def _figures(
    name: str, plays: Sequence[Play], figures: Callable[[Way, Mapping[str, Usage]], dict[str, Metric]]
) -> dict[str, Metric]:
    found = figures(joined([play.way for play in plays]), usage_of_all([play.usage for play in plays]))
    found = {key: metric for key, metric in found.items() if key not in _OF_TIME_ITSELF}
    for what in ("picture_drops", "imu_drops", "decision_drops"):
        found[what] = Metric.of([float(getattr(play, what)) for play in plays], "share")
    found["played_speed"] = Metric.of([play.reached for play in plays], "x")
    return {f"{name}_{key}": metric for key, metric in found.items()}


def _lost(given: float, taken: int) -> float:
    return max(0.0, 1.0 - taken / given) if given else 1.0
