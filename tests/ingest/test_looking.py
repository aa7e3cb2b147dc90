"""How often the eyes look: fewer pictures at once under load and heat, all again slowly, never so few that the gate
must hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.assembly import make_gate_model, skills
from tether.config import parse
from tether.contracts import DECISION_NS, Primitive
from tether.errors import InvalidInputError
from tether.ingest.looking import Choice, Looking, LookingConfig, Where, Wish, load_looking_config, wish_of
from tether.ingest.machine import MachineState, MachineWatch
from tether.ingest.rejection import Reason
from tether.resources import resource_path

MS, S = 1_000_000, 1_000_000_000
FRAME_NS = S // 30
CONFIG = LookingConfig()
SHIPPED = load_looking_config(resource_path("config", "looking.yaml"))
LAST = len(CONFIG.least_ms) - 1
HOT = MachineState(cpu_c=82.0)
WARM = MachineState(cpu_c=75.0)
COOL = MachineState(cpu_c=60.0, throttled=0, available_mb=3000.0)


class Film:
    """Pictures at 30 Hz for one `Looking`; the steady clock and the stamps run together."""

    def __init__(self, looking: Looking | None = None, spacing_ns: int = FRAME_NS, speed: float = 1.0) -> None:
        """speed: of the clock of the stamps, against the steady one."""
        self.looking = looking or Looking(CONFIG)
        self.spacing_ns = spacing_ns
        self.speed = speed
        self.now_ns = S

    def run(self, seconds: float) -> list[Choice]:
        choices = []
        for _ in range(round(seconds * S / self.spacing_ns)):
            self.now_ns += self.spacing_ns
            choices.append(self.looking.choose(self.now_ns, round(self.now_ns / self.speed)))
        return choices

    def decide(self, *gaps_ms: float, wish: Wish = Wish.LOCAL) -> None:
        """Decisions so long after each other by the steady clock."""
        self.looking.decided(None, wish)
        for gap_ms in gaps_ms:
            self.looking.decided(round(gap_ms * MS), wish)


def share_looked(choices: list[Choice]) -> float:
    return sum(c.where is Where.LOCAL for c in choices) / len(choices)


def test_without_load_or_heat_every_picture_is_looked_at_for_no_reason() -> None:
    film = Film()
    film.decide(*[50.0] * 40)
    film.looking.looked(20 * MS)
    film.looking.hear(COOL)
    assert {(c.where, c.step, c.reasons) for c in film.run(3.0)} == {(Where.LOCAL, 0, ())}
    assert not film.looking.coasted


def test_computer_that_tells_nothing_of_itself_is_no_reason() -> None:
    film = Film()
    film.looking.hear(MachineState())
    assert share_looked(film.run(2.0)) == 1.0


def test_late_decisions_step_down_with_the_very_next_picture_and_are_counted() -> None:
    film = Film()
    film.run(0.5)
    film.decide(50, 90, 50, 90, 50, 90)
    first = film.run(FRAME_NS / S)[0]
    assert (first.step, first.reasons) == (1, (Reason.OVERLOAD,))
    left_out = [c for c in film.run(0.5) if c.where is Where.COAST]
    assert left_out
    assert film.looking.coasted[Reason.OVERLOAD] == len(left_out) + (first.where is Where.COAST)


def test_two_late_decisions_of_twenty_are_no_overload() -> None:
    film = Film()
    film.decide(90, 90, *[50.0] * 18)
    assert share_looked(film.run(1.0)) == 1.0


def test_pause_between_decisions_is_not_a_late_one() -> None:
    film = Film()
    film.decide(3000, 50, 3000, 50, 3000, 50)
    assert film.looking.late == 0


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (HOT, Reason.HOT),
        (MachineState(throttled=0x4), Reason.THROTTLED),
        (MachineState(throttled=0x50001), Reason.THROTTLED),
        (MachineState(available_mb=100.0), Reason.LITTLE_MEMORY),
    ],
)
def test_heat_throttling_and_little_memory_step_down_to_the_last_step(machine: MachineState, reason: Reason) -> None:
    film = Film()
    film.looking.hear(machine)
    assert film.run(FRAME_NS / S)[0].step == 1
    assert film.run(5.0)[-1].step == LAST
    looked = share_looked(film.run(10.0))
    assert looked == pytest.approx(0.25, abs=0.01), "every fourth picture of 30 a second"
    assert set(film.looking.coasted) == {reason}


def test_a_look_may_ask_for_smaller_pictures_only_while_memory_is_little() -> None:
    looking = Looking(CONFIG)
    assert looking.image_size_max is None
    looking.hear(MachineState(available_mb=100.0))
    assert looking.image_size_max == CONFIG.little_memory_px
    looking.hear(COOL)
    assert looking.image_size_max is None


def test_throttling_of_the_past_is_no_reason() -> None:
    film = Film()
    film.looking.hear(MachineState(throttled=0x50000))
    assert share_looked(film.run(1.0)) == 1.0


def test_slow_eyes_step_down_but_one_interrupted_look_does_not() -> None:
    film = Film()
    for took_ms in (20, 20, 300, 20, 20):
        film.looking.looked(took_ms * MS)
    assert film.run(0.1)[-1].step == 0
    for _ in range(3):
        film.looking.looked(120 * MS)
    assert film.run(0.1)[-1].reasons == (Reason.OVERLOAD,)


def test_steps_go_up_slowly_and_one_at_a_time() -> None:
    film = Film()
    film.looking.hear(HOT)
    film.run(5.0)
    film.looking.hear(COOL)
    assert {c.step for c in film.run(CONFIG.calm_s - 0.1)} == {LAST}
    steps = [c.step for c in film.run(CONFIG.calm_s * LAST + 1.0)]
    assert [b - a for a, b in pairwise(steps) if a != b] == [-1] * LAST
    end = film.run(1.0)
    assert (share_looked(end), end[-1].reasons) == (1.0, ())


def test_between_the_limits_the_step_stays() -> None:
    film = Film()
    film.looking.hear(HOT)
    film.run(1.5)
    film.looking.hear(WARM)
    assert {c.step for c in film.run(60.0)} == {2}
    cold_start = Film()
    cold_start.looking.hear(WARM)
    assert {c.step for c in cold_start.run(60.0)} == {0}


def test_decision_that_asks_to_coast_does_from_the_next_picture_on_until_another_decides() -> None:
    film = Film()
    film.run(0.2)
    film.decide(wish=Wish.COAST)
    coasting = film.run(1.0)
    assert {c.reasons for c in coasting} == {(Reason.COAST_ASKED,)}
    assert share_looked(coasting) == pytest.approx(0.25, abs=0.05)
    film.decide(wish=Wish.LOCAL)
    assert share_looked(film.run(1.0)) == 1.0


def test_decision_that_asks_for_a_workstation_is_seen_to_here_at_once_and_says_so() -> None:
    film = Film()
    film.run(0.2)
    film.decide(wish=Wish.WORKSTATION)
    assert {(c.where, c.degraded) for c in film.run(1.0)} == {(Where.LOCAL, True)}


@pytest.mark.parametrize("hertz", [5, 7, 10, 12, 15, 20, 30, 60])
def test_no_rate_of_a_camera_makes_the_gate_find_it_silent(hertz: int) -> None:
    film = Film(Looking(SHIPPED), spacing_ns=S // hertz)
    film.looking.hear(HOT)
    film.decide(wish=Wish.COAST)
    looked = []
    for _ in range(hertz * 20):
        if film.run(film.spacing_ns / S)[0].where is Where.LOCAL:
            looked.append(film.now_ns)
    silence_max_ms = make_gate_model("classic").settings.ages.camera.silence_max_ms
    longest_ms = max(np.diff(looked)) / MS
    assert longest_ms <= max(film.looking.config.gap_max_ms, film.spacing_ns / MS)
    assert film.looking.config.gap_max_ms + 2 * FRAME_NS / MS < silence_max_ms


@pytest.mark.parametrize("speed", [0.1, 0.3, 0.5])
def test_no_world_slower_than_time_makes_the_gate_find_its_camera_silent(speed: float) -> None:
    film = Film(Looking(SHIPPED), speed=speed)
    film.looking.hear(HOT)
    film.decide(wish=Wish.COAST)
    looked_ns = []
    for _ in range(200):
        if film.run(FRAME_NS / S)[0].where is Where.LOCAL:
            looked_ns.append(film.now_ns / speed)
    silence_max_ms = make_gate_model("classic").settings.ages.camera.silence_max_ms
    assert max(np.diff(looked_ns)) / MS < max(silence_max_ms, FRAME_NS / speed / MS + 1.0)


@pytest.mark.parametrize("speed", [1.5, 2.0])
def test_stamps_that_a_fast_clock_spreads_are_no_reason(speed: float) -> None:
    film = Film(speed=speed)
    for _ in range(60):
        film.decide(50)
        assert share_looked(film.run(speed * DECISION_NS / S)) == 1.0


def test_late_is_later_than_one_and_a_half_periods() -> None:
    assert SHIPPED.late_ms * MS == 1.5 * DECISION_NS


def test_stamps_that_do_not_rise_are_left_to_admission() -> None:
    film = Film()
    film.looking.hear(HOT)
    film.run(5.0)
    for stamp_ns in (0, film.now_ns, film.now_ns - 10 * S):
        film.looking.choose(film.now_ns, film.now_ns)
        assert film.looking.choose(stamp_ns, film.now_ns).where is Where.LOCAL


def test_new_episode_looks_at_its_first_picture_and_forgets_the_wish_but_not_the_heat() -> None:
    film = Film()
    film.looking.hear(HOT)
    film.run(5.0)
    film.decide(90, 90, 90, 90, wish=Wish.COAST)
    film.looking.begin_episode()
    assert film.looking.late == 0
    first = film.looking.choose(5 * MS, film.now_ns)
    assert (first.where, first.step, first.reasons) == (Where.LOCAL, LAST, (Reason.HOT,))


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("picture"), st.integers(1, 200)),
            st.tuples(st.just("decision"), st.integers(-100, 300)),
            st.tuples(st.just("look"), st.integers(1, 400)),
            st.tuples(st.just("heat"), st.integers(40, 100)),
        ),
        max_size=80,
    )
)
@settings(max_examples=150, deadline=None)
def test_same_calls_give_the_same_choices_which_always_have_reasons(calls: list[tuple[str, int]]) -> None:
    first, second = (_play(calls) for _ in range(2))
    assert first == second
    for choice in first:
        assert 0 <= choice.step <= LAST
        assert choice.where is Where.LOCAL or choice.reasons


def _play(calls: list[tuple[str, int]]) -> list[Choice]:
    looking, now_ns, out = Looking(CONFIG), S, []
    for kind, value in calls:
        if kind == "picture":
            now_ns += value * MS
            out.append(looking.choose(now_ns, now_ns))
        elif kind == "decision":
            looking.decided(value * MS if value >= 0 else None, Wish(value % 3))
        elif kind == "look":
            looking.looked(value * MS)
        else:
            looking.hear(MachineState(cpu_c=float(value)))
    return out


def test_only_look_says_where_to_look() -> None:
    table = skills()
    for where, wish in ((0.4, Wish.LOCAL), (0.6, Wish.WORKSTATION), (2.0, Wish.COAST)):
        assert wish_of(table, Primitive.LOOK, table.clipped(Primitive.LOOK, where=where)) is wish
    assert wish_of(table, Primitive.HOLD, np.zeros(0)) is Wish.LOCAL
    bad = table[Primitive.LOOK].default.copy()
    bad[table[Primitive.LOOK].index("where")] = np.nan
    with pytest.raises(InvalidInputError, match=r"look\.where"):
        wish_of(table, Primitive.LOOK, bad)


def test_settings_that_contradict_each_other_are_all_named() -> None:
    bad = {"least_ms": [0, 90, 50], "hot_c": 70, "cool_c": 75, "late_of": 5, "late_max": 5}
    with pytest.raises(InvalidInputError) as caught:
        parse(bad, LookingConfig, "looking.yaml")
    assert all(word in str(caught.value) for word in ("least_ms", "cool_c", "late_max"))
    with pytest.raises(InvalidInputError, match="gap_max_ms"):
        replace(CONFIG, gap_max_ms=100.0)


def test_computers_state_is_read_from_the_kernels_files(tmp_path: Path) -> None:
    for number, milli in (("0", "61000"), ("1", "79500"), ("2", "no number")):
        zone = tmp_path / f"sys/class/thermal/thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "temp").write_text(f"{milli}\n")
    firmware = tmp_path / "sys/devices/platform/soc@107c000000/soc@107c000000:firmware"
    firmware.mkdir(parents=True)
    (firmware / "get_throttled").write_text("50005\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:  8000000 kB\nMemAvailable:    1000000 kB\n")
    state = MachineWatch(tmp_path).read()
    assert state == MachineState(79.5, 0x50005, 1024.0)
    assert state.is_throttled


def test_computer_without_these_files_tells_nothing(tmp_path: Path) -> None:
    assert MachineWatch(tmp_path).read() == MachineState()
