"""The player on a clock of its own: no real time passes in these tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from bag_making import PERIOD_NS, Row, write_mcap

from tether.bags import Bag, BagMessage, open_bag
from tether.bags.player import Ask, NullSink, Player, PlayOptions, Rate, Unpaced, parse_pace
from tether.errors import InvalidInputError


class FakeTime:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.ns = 1_000

    def now_ns(self) -> int:
        return self.ns

    def sleep(self, seconds: float) -> None:
        self.ns += max(1, round(seconds * 1e9))


class Log:
    """Remembers when what was played."""

    def __init__(self, time: FakeTime) -> None:
        self._time = time
        self.messages: list[tuple[int, str, int]] = []
        self.clocks: list[int] = []
        self.jumps: list[tuple[int, int]] = []

    def clock(self, time_ns: int) -> None:
        self.clocks.append(time_ns)

    def message(self, topic: str, message: BagMessage) -> None:
        self.messages.append((self._time.ns, topic, message.log_time_ns))

    def jumped_back(self, from_ns: int, to_ns: int) -> None:
        self.jumps.append((from_ns, to_ns))


class Keys:
    """Presses at given moments."""

    def __init__(self, time: FakeTime, presses: list[tuple[int, Ask]]) -> None:
        self._time = time
        self._presses = list(presses)

    def poll(self) -> Ask | None:
        if self._presses and self._time.ns >= self._presses[0][0]:
            return self._presses.pop(0)[1]
        return None


@pytest.fixture
def bag(tmp_path: Path, rows: list[Row]) -> Iterator[Bag]:
    with open_bag(write_mcap(tmp_path / "x.mcap", rows)) as opened:
        yield opened


def play(bag: Bag, options: PlayOptions, presses: list[tuple[int, Ask]] | None = None) -> tuple[Log, FakeTime]:
    time = FakeTime()
    log = Log(time)
    keys = Keys(time, presses) if presses is not None else None
    Player(bag, log, options, keys, clock=time, sleep=time.sleep).play()
    return log, time


@pytest.mark.parametrize("rate", [0.1, 1.0, 10.0])
def test_every_message_is_played_when_it_is_due(rate: float, bag: Bag, rows: list[Row]) -> None:
    log, _ = play(bag, PlayOptions(pace=Rate(rate)))
    assert [at for _, _, at in log.messages] == [row[2] for row in rows]
    begun = log.messages[0][0]
    for wall_ns, _, at in log.messages:
        due = begun + (at - rows[0][2]) / rate
        assert due - 1 <= wall_ns <= due + 1_000


class SlowSink(NullSink):
    """Takes `each_s` for a message."""

    def __init__(self, time: FakeTime, each_s: float) -> None:
        super().__init__()
        self._time, self._each_s = time, each_s

    def message(self, topic: str, message: BagMessage) -> None:
        self._time.sleep(self._each_s)


def test_speed_is_the_one_that_a_slow_sink_left(bag: Bag, rows: list[Row]) -> None:
    span_s = (rows[-1][2] - rows[0][2]) / 1e9
    for each_s, reached in ((1e-9, 10.0), (span_s / len(rows), 1.0)):
        time = FakeTime()
        player = Player(bag, SlowSink(time, each_s), PlayOptions(pace=Rate(10.0)), clock=time, sleep=time.sleep)
        assert player.play().speed == pytest.approx(reached, rel=0.05)


def test_unpaced_plays_everything_without_waiting(bag: Bag, rows: list[Row]) -> None:
    log, time = play(bag, PlayOptions(pace=Unpaced()))
    assert len(log.messages) == len(rows) and time.ns == 1_000


def test_clock_goes_forward_at_its_rate_and_never_lags_a_message(bag: Bag, rows: list[Row]) -> None:
    log, _ = play(bag, PlayOptions(clock_hz=1000.0))
    assert log.clocks == sorted(set(log.clocks))
    assert log.clocks[0] == rows[0][2] and log.clocks[-1] >= rows[-1][2] - 1_000_000
    span_s = (rows[-1][2] - rows[0][2]) / 1e9
    assert 0.9 * 1000 * span_s < len(log.clocks) <= 1000 * span_s + len(rows) + 2


def test_start_skips_the_beginning_and_not_the_schedule(bag: Bag, rows: list[Row]) -> None:
    log, time = play(bag, PlayOptions(start_s=0.3))
    assert [at for _, _, at in log.messages] == [row[2] for row in rows if row[2] >= rows[0][2] + 300_000_000]
    assert time.ns < 400_000_000
    with pytest.raises(InvalidInputError, match="at most the bag's"):
        play(bag, PlayOptions(start_s=1e6))


def test_loop_tells_consumers_that_time_goes_back(bag: Bag, rows: list[Row]) -> None:
    stop_ns = 2_500 * len(rows) * (PERIOD_NS // 1000)
    log, _ = play(bag, PlayOptions(loop=True), [(stop_ns, Ask.STOP)])
    assert len(log.messages) > 2 * len(rows)
    assert len(log.jumps) >= 2
    assert all(to_ns == rows[0][2] and from_ns > to_ns for from_ns, to_ns in log.jumps)


def test_a_pause_holds_messages_and_clock_and_makes_nothing_late(bag: Bag, rows: list[Row]) -> None:
    pause_ns, go_ns = 100_000_000, 5_000_000_000
    log, _ = play(bag, PlayOptions(), [(pause_ns, Ask.PAUSE), (go_ns, Ask.PAUSE)])
    assert [at for _, _, at in log.messages] == [row[2] for row in rows]
    assert not [wall for wall, _, _ in log.messages if pause_ns + 25_000_000 < wall < go_ns]
    walls = [wall for wall, _, _ in log.messages]
    gaps = sorted(b - a for a, b in pairwise(walls))
    assert gaps[-1] > 4_000_000_000 and gaps[-2] <= PERIOD_NS + 1_000_000


def test_each_step_plays_one_message(bag: Bag, rows: list[Row]) -> None:
    presses = [(1_000_000_000 * i, Ask.STEP) for i in (1, 2, 3)] + [(5_000_000_000, Ask.STOP)]
    log, _ = play(bag, PlayOptions(step=True), presses)
    assert [at for _, _, at in log.messages] == [row[2] for row in rows[:3]]


def test_remapping_and_topic_filter(bag: Bag, rows: list[Row]) -> None:
    log, _ = play(bag, PlayOptions(remap={"/imu/data_raw": "/imu"}, topics=("/imu/data_raw",)))
    assert {topic for _, topic, _ in log.messages} == {"/imu"}
    assert len(log.messages) == sum(row[0] == "/imu/data_raw" for row in rows)


def test_wrong_remaps_and_rates_are_refused_all_together(bag: Bag) -> None:
    with pytest.raises(InvalidInputError) as caught:
        play(bag, PlayOptions(remap={"/nothing": "/x", "/imu/data_raw": "no slash"}))
    assert len(caught.value.faults) == 2
    with pytest.raises(InvalidInputError, match="one type for each topic"):
        play(bag, PlayOptions(remap={"/imu/data_raw": "/joint_states"}))
    for text in ("0", "0.05", "11", "nan", "fast", "-1"):
        with pytest.raises(InvalidInputError, match="rate"):
            parse_pace(text)
    assert parse_pace("max") == Unpaced() and parse_pace("0.1") == Rate(0.1)


def test_a_start_beyond_any_bag_is_refused(bag: Bag) -> None:
    with pytest.raises(InvalidInputError, match="at most the bag's"):
        play(bag, PlayOptions(start_s=1e300))


def test_null_sink_counts_what_it_is_given(bag: Bag, rows: list[Row]) -> None:
    sink = NullSink()
    result = Player(bag, sink, PlayOptions(pace=Unpaced())).play()
    assert (sink.message_count, result.messages, sink.jumps) == (len(rows), len(rows), 0)
    assert result.report.complete and result.report.intact
