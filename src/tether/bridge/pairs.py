"""Pairs for online distillation: what the student had at a decision, and what the teacher would have done.

The student acts. For its decision at time t the input is what had *arrived* by t, and the label is the teacher's action
on the true state *as it was* at t, not at the stamps of what had arrived. Both questions go to one `AlignedBuffer`,
which knows of every sample its stamp and its arrival. A truth that comes late is waited for; a pair whose truth does
not come is dropped, and counted. Nothing here changes a decision.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tether.align import JOINTS, TRUTH, AlignedBuffer, Arrived, BufferConfig, Quality, StreamSpec
from tether.bridge.pair_fields import PairShape, input_fields, label_fields
from tether.bridge.stage import Around
from tether.contracts import (
    DECISION_NS,
    F32,
    Decision,
    FusedState,
    HybridAction,
    ImageFeature,
    ImuBatch,
    Primitive,
    SkillContext,
    Stream,
    TruthSample,
)
from tether.errors import TetherError
from tether.fusion.estimator import Arrivals
from tether.student.labels import Labeller
from tether.student.memory import PolicyMemory

Fields = dict[str, NDArray[Any]]

_WAIT_NS = 10 * DECISION_NS
"""A truth that has not come by then does not come."""
_OPEN_MAX = 64
"""Decisions that wait for their truth; past it the oldest goes, and is counted."""
_REASON_MAX = 120
_SPECS = {
    Stream.IMU.value: StreamSpec(BufferConfig(capacity=400)),
    Stream.CAMERA.value: StreamSpec(BufferConfig(capacity=32)),
    Stream.JOINTS.value: StreamSpec(BufferConfig(capacity=200), JOINTS),
    Stream.EXECUTED.value: StreamSpec(BufferConfig(capacity=200)),
    Stream.TRUTH.value: StreamSpec(BufferConfig(capacity=64, max_gap_ns=2 * DECISION_NS), TRUTH),
}


@dataclass(frozen=True, eq=False)
class Pair:
    """One decision of the student and its label. fields: `input.*` and `label.*`, see `tether.bridge.pair_fields`."""

    episode: int
    decision_id: int
    stamp_ns: int
    fields: Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class PairStats:
    """Numbers of the pairs since the stage was made.

    made, dropped: pairs, and decisions without one by reason. skew_ns: spread of the newest stamps of the inputs of the
    last pair. staleness_ns: stream → age of its newest sample there. unlike: samples that the last state used and that
    had not arrived here, or the other way round. label_quality: how the truths were come by → pairs. streams: of each
    buffer: samples inserted, reordered, duplicates, too_old, evicted and lost.
    """

    made: int
    dropped: Mapping[str, int]
    skew_ns: int | None
    staleness_ns: Mapping[str, int]
    unlike: int
    label_quality: Mapping[str, int]
    streams: Mapping[str, Mapping[str, int | None]]


@dataclass(eq=False)
class _Open:
    """A decision that waits for the truth of its time."""

    episode: int
    state: FusedState
    decision: Decision
    memory: F32
    last: Primitive | None


@dataclass(eq=False)
class _Tally:
    made: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    quality: Counter[str] = field(default_factory=Counter)
    unlike: int = 0
    skew_ns: int | None = None
    staleness_ns: dict[str, int] = field(default_factory=dict)


class PairStage:
    """Takes samples as they arrive and decisions as they are made; hands pairs to `sink` when their truth is there.

    The teacher is asked once for each decision, in their order: it may remember what it was asked.
    """

    def __init__(self, teacher: Labeller, sink: Callable[[Pair], None], shape: PairShape | None = None) -> None:
        self._teacher = teacher
        self._memory = PolicyMemory()
        self._last: Primitive | None = None
        self._sink = sink
        self._shape = shape or PairShape()
        self._tally = _Tally()
        self._buffer = AlignedBuffer(_SPECS)
        self._open: deque[_Open] = deque()

    def reset(self, skill: SkillContext) -> None:
        """Start an episode; decisions that still wait are dropped."""
        self._drop_all("episode ended")
        self._buffer.clear()
        self._teacher.reset()
        self._memory.reset()
        self._last = None

    def step(self, episode: int, around: Around, proposal: HybridAction, decision: Decision) -> None:
        """Core loop and lockstep: a decision with what arrived for it; to the period, that is when it arrived."""
        self.take(around.arrivals, around.state.stamp_ns)
        if around.truth is not None:
            self.take_truth(around.truth, around.state.stamp_ns)
        self.decided(episode, around.state, proposal, decision)

    def take(self, arrivals: Arrivals, arrival_ns: int) -> None:
        """Samples that arrived at `arrival_ns`, on the clock of the stamps."""
        for batch in arrivals.imu:
            self.take_imu(batch, arrival_ns)
        for picture in arrivals.pictures:
            self.take_picture(picture, arrival_ns)
        for joints in arrivals.joints:
            self._insert(Stream.JOINTS, joints, arrival_ns)
        for executed in arrivals.executed:
            self._insert(Stream.EXECUTED, executed, arrival_ns)

    def take_imu(self, batch: ImuBatch, arrival_ns: int) -> None:
        """IMU samples of a tick."""
        for sample in batch.samples:
            self._insert(Stream.IMU, sample, arrival_ns)

    def take_picture(self, picture: ImageFeature, arrival_ns: int) -> None:
        """What was seen in a picture; a refused one was not seen."""
        if picture.rejected is None:
            self._insert(Stream.CAMERA, picture, arrival_ns)

    def take_truth(self, truth: TruthSample, arrival_ns: int) -> None:
        """The world's true state, which only labels are made of."""
        self._insert(Stream.TRUTH, truth, arrival_ns)
        self._complete(arrival_ns)

    def decided(self, episode: int, state: FusedState, proposal: HybridAction, decision: Decision) -> None:
        """The student's state, what it proposed, and the decision that was made on it."""
        memory = self._memory.before(state.stamp_ns, state.joints)
        self._memory.after(state.stamp_ns, proposal.primitive)
        if len(self._open) == _OPEN_MAX:
            self._open.popleft()
            self._tally.dropped["too many wait for their truth"] += 1
        self._open.append(_Open(episode, state, decision, memory, self._last))
        self._last = decision.action.primitive
        self._complete(state.stamp_ns)

    def missed(self, reason: str) -> None:
        """Count a decision that no pair can be made of."""
        self._tally.dropped[reason] += 1

    def stats(self) -> PairStats:
        """The numbers so far."""
        t = self._tally
        streams: dict[str, Mapping[str, int | None]] = {
            name: {
                "inserted": s.inserted,
                "reordered": s.reordered,
                "duplicates": s.duplicates,
                "too_old": s.too_old,
                "evicted": s.evicted,
                "lost": s.lost,
                "max_delay_ns": s.max_delay_ns,
            }
            for name, s in self._buffer.stats().items()
        }
        return PairStats(t.made, dict(t.dropped), t.skew_ns, dict(t.staleness_ns), t.unlike, dict(t.quality), streams)

    # -- inside -----------------------------------------------------------------------------------------------------

    def _insert(self, stream: Stream, sample: Any, arrival_ns: int) -> None:
        self._buffer.insert(stream.value, sample.ref.stamp_ns, arrival_ns, sample, sample.ref.sequence)

    def _complete(self, now_ns: int) -> None:
        """Label the oldest decisions as far as the truth goes."""
        while self._open:
            oldest = self._open[0]
            truth = self._buffer[Stream.TRUTH.value].as_of(oldest.state.stamp_ns)
            if truth.value is not None and truth.quality in (Quality.EXACT, Quality.INTERPOLATED):
                self._open.popleft()
                self._tally.quality[truth.quality.value] += 1
                self._try_making(oldest, truth.value)
            elif now_ns - oldest.state.stamp_ns > _WAIT_NS:
                self._open.popleft()
                self._tally.dropped[f"no truth ({truth.quality.value})"] += 1
            else:
                return

    def _try_making(self, waiting: _Open, truth: TruthSample) -> None:
        """A pair that cannot be made is counted, and is nobody's trouble but the trainer's."""
        try:
            self._make(waiting, truth)
        except (TetherError, ValueError) as error:
            self._tally.dropped[f"not made: {str(error)[:_REASON_MAX]}"] += 1

    def _make(self, waiting: _Open, truth: TruthSample) -> None:
        state, decision, shape = waiting.state, waiting.decision, self._shape
        arrived = self._buffer.arrived_by(
            state.stamp_ns,
            {
                Stream.IMU.value: shape.imu_samples,
                Stream.JOINTS.value: 1,
                Stream.CAMERA.value: 1,
                Stream.EXECUTED.value: shape.executed_ticks,
            },
        )
        label = self._teacher.label(truth, waiting.last)
        self._note(state, arrived)
        fields = {**input_fields(shape, state, decision, arrived), **label_fields(label, truth)}
        fields["input.memory"] = waiting.memory
        self._sink(Pair(waiting.episode, state.decision_id, state.stamp_ns, fields))
        self._tally.made += 1

    def _note(self, state: FusedState, arrived: Arrived) -> None:
        truth: str = Stream.TRUTH.value
        sensors = {name: entries for name, entries in arrived.streams.items() if name != truth}
        seen = Arrived(arrived.by_ns, sensors)
        self._tally.skew_ns, self._tally.staleness_ns = seen.skew_ns, seen.staleness_ns
        ages: dict[str, int] = {stream.value: age for stream, age in state.age_ns.items() if stream.value in sensors}
        self._tally.unlike = sum(ages.get(name) != seen.staleness_ns.get(name) for name in sensors)

    def _drop_all(self, reason: str) -> None:
        if self._open:
            self._tally.dropped[reason] += len(self._open)
            self._open.clear()
