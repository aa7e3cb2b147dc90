"""What is written: whole, or what there was room and time for; always readable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from box_making import START_NS, picture, story, verdict

from tether import topics
from tether.bags import open_bag
from tether.blackbox.box import BlackBox, BoxConfig
from tether.blackbox.contents import TYPES
from tether.blackbox.dump import BAG, PICTURE, RESERVE, SUMMARY, Dump, DumpReport, left_overs
from tether.blackbox.ring import RingLimits
from tether.blackbox.trips import Trip, TripKind
from tether.contracts import TICK_NS, Mode

HERE = Path(__file__).parent
TRIP = Trip(TripKind.LATCHED_STOP, "tick 60: tilt: tilted", START_NS + 60 * TICK_NS, 60 * TICK_NS)
QUICK = BoxConfig(after_s=0.05, spacing_s=1.0)


def fill(box: BlackBox, pictures: int = 0, size: int = 1000) -> int:
    rows = list(story(60))
    for topic, raw, at in rows:
        box.append(topic, raw, START_NS + at, at)
    for i in range(pictures):
        box.append(topics.IMAGE.name, picture(bytes(size)), START_NS + i, i)
    return len(rows) + pictures


def waited(box: BlackBox, count: int = 1) -> list[DumpReport]:
    found: list[DumpReport] = []
    deadline = time.monotonic() + 60.0
    while len(found) < count:
        found += box.reports()
        assert time.monotonic() < deadline, "no dump came to its end"
        time.sleep(0.005)
    return found


def delivered(folder: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    with open_bag(folder / BAG) as bag:
        for message in bag.messages(check=False):
            counts[message.topic] = counts.get(message.topic, 0) + 1
    return counts


def test_a_trip_writes_bag_summary_and_picture(tmp_path: Path) -> None:
    box = BlackBox(tmp_path / "box", QUICK, {"policy": "classic"})
    count = fill(box, pictures=20)
    assert box.trip(TRIP)
    (report,) = waited(box)
    assert report.failure is None and report.messages == count
    assert report.path.name.endswith("-latched_stop")
    assert {SUMMARY, PICTURE, BAG} <= {path.name for path in report.path.iterdir()}
    summary = json.loads((report.path / SUMMARY).read_text())
    assert summary["bag"]["complete"] and summary["wrong"]["check"] == "tilt" and summary["wrong"]["tick"] == 56
    assert summary["about"] == {"policy": "classic"}
    with open_bag(report.path / BAG) as bag:
        assert bag.read_through().intact
    assert delivered(report.path)[topics.IMAGE.name] == 20
    assert left_overs(tmp_path / "box") == []


def test_bytes_in_the_bag_are_the_bytes_that_came(tmp_path: Path) -> None:
    box = BlackBox(tmp_path / "box", QUICK)
    fill(box)
    box.trip(TRIP)
    (report,) = waited(box)
    expected = [raw for topic, raw, _ in story(60) if topic == topics.VERDICT.name]
    with open_bag(report.path / BAG) as bag:
        found = [bytes(m.raw) for m in bag.messages(check=False) if m.topic == topics.VERDICT.name]
    assert found == expected


def test_what_follows_the_trip_is_written_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, begin = threading.Event(), Dump.begin

    def begin_and_say(self: Dump, *arguments: object) -> None:
        begin(self, *arguments)  # type: ignore[arg-type]
        begun.set()

    monkeypatch.setattr(Dump, "begin", begin_and_say)
    box = BlackBox(tmp_path / "box", BoxConfig(after_s=60.0))
    fill(box)
    box.trip(TRIP)
    assert begun.wait(60.0)
    for i in range(7):
        box.append(topics.VERDICT.name, verdict(100 + i, Mode.STOP), START_NS + 10**9, 10**9)
    assert box.close(60.0), "closing does not wait for what would follow"
    (report,) = waited(box)
    assert delivered(report.path)[topics.VERDICT.name] == 70 + 7


def test_trips_while_one_is_written_belong_to_it_and_later_ones_get_their_own(tmp_path: Path) -> None:
    box = BlackBox(tmp_path / "box", BoxConfig(after_s=0.5, spacing_s=1.0))
    fill(box)
    assert box.trip(TRIP)
    assert not box.trip(Trip(TripKind.WATCHDOG, "second", START_NS, TRIP.steady_ns + 1))
    (first,) = waited(box)
    summary = json.loads((first.path / SUMMARY).read_text())
    assert [trip["reason"] for trip in summary["further_trips"]] == ["second"]
    assert not box.trip(Trip(TripKind.WATCHDOG, "too soon", START_NS, TRIP.steady_ns + 10**8))
    assert box.trip(Trip(TripKind.WATCHDOG, "later", START_NS, TRIP.steady_ns + 10 * 10**9))
    (second,) = waited(box)
    assert second.path != first.path


def test_a_graph_that_trips_for_ever_does_not_fill_the_disk(tmp_path: Path) -> None:
    box = BlackBox(tmp_path / "box", BoxConfig(after_s=0.0, spacing_s=0.0, dumps_max=3))
    fill(box)
    taken = 0
    for i in range(6):
        if box.trip(Trip(TripKind.WATCHDOG, str(i), START_NS, i * 10**9)):
            taken += 1
            waited(box)
    assert taken == 3


@pytest.mark.parametrize("limit_kib", [40, 300])
def test_a_full_disk_leaves_summary_and_picture_and_a_readable_part_of_the_bag(tmp_path: Path, limit_kib: int) -> None:
    """The limit holds for each file, so the small ones fit and the bag does not."""
    code = f"""
import resource, signal, sys, time
sys.path.insert(0, {str(HERE)!r})
from pathlib import Path
from box_making import picture
from test_dumps import QUICK, TRIP, fill, waited
from tether.blackbox.box import BlackBox
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
box = BlackBox(Path(sys.argv[1]), QUICK)
fill(box, pictures=0)
import os
from tether import topics
for i in range(60):
    box.append(topics.IMAGE.name, picture(os.urandom(20_000)), 1000 + i, 60 * 10_000_000 + i)
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_kib} * 1024, resource.RLIM_INFINITY))
assert box.trip(TRIP)
(report,) = waited(box)
assert report.failure, "the limit was never met"
print(report.path)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "box")], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    summary = json.loads((path / SUMMARY).read_text())
    assert summary["wrong"]["check"] == "tilt"
    assert summary["bag"]["complete"] is False and summary["failures"]
    assert (path / PICTURE).read_text().startswith("digraph")
    counts = delivered(path)
    assert counts.get(topics.IMAGE.name, 0) < 60
    if limit_kib == 300:
        assert counts[topics.VERDICT.name] == 70, "small messages come before pictures"


def test_a_nearly_full_disk_is_left_to_others_and_pictures_are_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = BlackBox(tmp_path / "box", QUICK)
    count = fill(box, pictures=20, size=50_000)
    found = os.statvfs(tmp_path)
    free = found.f_bavail * found.f_frsize
    monkeypatch.setattr("tether.blackbox.dump.KEEP_FREE_BYTES", free - 300_000)
    monkeypatch.setattr("os.statvfs", lambda _: found)
    box.trip(TRIP)
    (report,) = waited(box)
    assert report.failure is not None and "left out" in report.failure
    summary = json.loads((report.path / SUMMARY).read_text())
    assert set(summary["bag"]["left_out"]) == {topics.IMAGE.name}
    assert report.messages + summary["bag"]["left_out"][topics.IMAGE.name] == count


def test_the_reserve_makes_room_for_the_summary_when_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "box"
    box = BlackBox(folder, QUICK)
    assert (folder / RESERVE).stat().st_size == 4 * 2**20
    seen: list[bool] = []

    def full(path: Path, data: bytes, mode: int = 0o644) -> None:
        seen.append((folder / RESERVE).exists())
        path.write_bytes(data)

    monkeypatch.setattr("tether.blackbox.dump.write_whole", full)
    fill(box)
    box.trip(TRIP)
    waited(box)
    assert seen and not any(seen), "the room is given free before anything is written"
    assert (folder / RESERVE).exists(), "and set aside again"


def test_a_kill_while_writing_leaves_a_readable_part(tmp_path: Path) -> None:
    folder = tmp_path / "box"
    code = f"""
import os, sys, time
sys.path.insert(0, {str(HERE)!r})
from pathlib import Path
from test_dumps import TRIP, fill
from tether.blackbox.box import BlackBox, BoxConfig
box = BlackBox(Path(sys.argv[1]), BoxConfig(after_s=60.0))
fill(box, pictures=30)
box.trip(TRIP)
print("tripped", flush=True)
time.sleep(100)
"""
    child = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "tripped\n"
    deadline = time.monotonic() + 60.0
    while not any(path.stat().st_size > 5000 for path in folder.glob(f"*.partial/{BAG}/*.mcap")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    (left,) = left_overs(folder)
    summary = json.loads((left / SUMMARY).read_text())
    assert summary["wrong"]["check"] == "tilt" and summary["bag"] == {"complete": False}
    expected = [raw for topic, raw, _ in story(60) if topic == topics.VERDICT.name]
    with open_bag(left / BAG) as bag:
        found = [bytes(m.raw) for m in bag.messages(check=False) if m.topic == topics.VERDICT.name]
    assert found and found == expected[: len(found)]


def test_messages_that_make_no_sense_are_written_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise KeyError("a fault of ours")

    monkeypatch.setattr("tether.blackbox.dump.read_incident", fails)
    box = BlackBox(tmp_path / "box", QUICK)
    count = fill(box)
    box.trip(TRIP)
    (report,) = waited(box)
    assert report.failure is not None and "analysis" in report.failure
    assert report.messages == count


def test_a_folder_that_cannot_be_made_is_reported_and_harms_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    box = BlackBox(tmp_path / "file" / "box", QUICK)
    fill(box)
    assert box.trip(TRIP)
    (report,) = waited(box)
    assert report.failure is not None and report.messages == 0


def test_every_topic_in_the_box_can_be_declared_in_a_bag() -> None:
    from tether.codec import typestore

    assert all(name in typestore().fielddefs for name in TYPES.values())


def test_memory_is_bounded_while_a_dump_is_written(tmp_path: Path) -> None:
    limits = RingLimits(bytes_max=2**18, pictures_bytes_max=2**20, whole_s=0.0)
    box = BlackBox(tmp_path / "box", BoxConfig(limits=limits, after_s=0.2))
    fill(box, pictures=10)
    box.trip(TRIP)
    for i in range(3000):
        box.append(topics.IMAGE.name, picture(bytes(10_000)), START_NS + i, 10**9 + i * 10**6)
        assert box.ring.size_bytes <= 2**18 + 2**20
    waited(box)
