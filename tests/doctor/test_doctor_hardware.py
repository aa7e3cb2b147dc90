"""Memory, disk, heat, power and clocks, on machines made of files."""

from __future__ import annotations

import pytest

from tether.doctor import hardware
from tether.doctor.finding import Answer, Finding, Status

PI = {"proc/device-tree/model": "Raspberry Pi 5 Model B Rev 1.0\0"}
GIB = 2**30


@pytest.mark.parametrize(
    ("available_kib", "status"),
    [(4_000_000, Status.OK), (1_000_000, Status.WARN), (200_000, Status.FAIL)],
)
def test_memory_is_judged_by_what_is_available_not_by_what_is_free(make_machine, available_kib, status) -> None:
    text = f"MemTotal: 8000000 kB\nMemFree: 100 kB\nMemAvailable: {available_kib} kB\n"
    (finding,) = hardware.memory(make_machine({"proc/meminfo": text}))
    assert finding.status is status
    assert f"{available_kib * 1024 / GIB:.1f} GiB of 7.6 GiB" in finding.found


def test_memory_without_proc_is_a_warning_not_a_crash(make_machine) -> None:
    (finding,) = hardware.memory(make_machine())
    assert finding.status is Status.WARN


@pytest.mark.parametrize(("free_gib", "status"), [(50, Status.OK), (1, Status.WARN), (0.1, Status.FAIL)])
def test_full_disk_fails_before_the_recording_does(make_machine, free_gib, status) -> None:
    (finding,) = hardware.disk(make_machine(), usage=lambda path: (0, 0, int(free_gib * GIB)))
    assert finding.status is status


@pytest.mark.parametrize(("milli", "status"), [("51000", Status.OK), ("77500", Status.WARN), ("86000", Status.FAIL)])
def test_hottest_zone_counts(make_machine, milli, status) -> None:
    zone = "sys/class/thermal/thermal_zone"
    files = {
        f"{zone}0/temp": "40000",
        f"{zone}0/type": "acpitz",
        f"{zone}1/temp": milli,
        f"{zone}1/type": "cpu",
    }
    (finding,) = hardware.temperature(make_machine(files))
    assert finding.status is status
    assert "(cpu)" in finding.found


def test_unreadable_thermal_zone_is_passed_over(make_machine) -> None:
    (finding,) = hardware.temperature(make_machine({"sys/class/thermal/thermal_zone0/temp": "N/A"}))
    assert finding.status is Status.OK
    assert "no thermal zone" in finding.found


def throttled(make_machine, text: str) -> Finding:
    machine = make_machine(PI, answers={"vcgencmd": Answer(0, f"throttled={text}")})
    (finding,) = hardware.throttling(machine)
    return finding


def test_under_voltage_now_fails_and_names_supply_and_servos(make_machine) -> None:
    finding = throttled(make_machine, "0x50005")
    assert finding.status is Status.FAIL
    assert finding.found == "now: under-voltage, throttled"
    assert "27 W" in finding.fix


def test_under_voltage_since_start_warns(make_machine) -> None:
    finding = throttled(make_machine, "0x50000")
    assert finding.status is Status.WARN
    assert finding.found == "since start: under-voltage, throttled"


def test_clean_flags_are_ok(make_machine) -> None:
    assert throttled(make_machine, "0x0").status is Status.OK


def test_firmware_flags_are_read_from_sysfs_where_vcgencmd_is_missing(make_machine) -> None:
    files = {**PI, "sys/devices/platform/soc@107c000000/soc@107c000000:firmware/get_throttled": "1"}
    (finding,) = hardware.throttling(make_machine(files))
    assert finding.found == "now: under-voltage"


def test_garbage_from_the_firmware_is_not_taken_for_healthy(make_machine) -> None:
    assert throttled(make_machine, "error=1").status is Status.WARN


def test_throttling_is_not_asked_on_other_machines(make_machine) -> None:
    assert hardware.throttling(make_machine()) == []


def test_powersave_governor_is_named_with_the_command(make_machine) -> None:
    path = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    (finding,) = hardware.cpu_governor(make_machine({path: "powersave"}))
    assert finding.status is Status.WARN
    assert "tee" in finding.fix
    assert hardware.cpu_governor(make_machine({path: "schedutil"}))[0].status is Status.OK


def test_clock_that_was_never_set_fails(make_machine) -> None:
    (finding,) = hardware.wall_clock(make_machine(), now_s=lambda: 3600.0)
    assert finding.status is Status.FAIL
    assert "1970-01-01" in finding.found


NOW = hardware.EARLIEST_S + 1e7


@pytest.mark.parametrize(("answer", "status"), [("yes", Status.OK), ("no", Status.WARN)])
def test_ntp_state_comes_from_timedatectl(make_machine, answer, status) -> None:
    machine = make_machine(answers={"timedatectl": Answer(0, answer)})
    assert hardware.wall_clock(machine, now_s=lambda: NOW)[0].status is status


def test_chrony_is_asked_first(make_machine) -> None:
    answers = {"chronyc": Answer(0, "Leap status     : Normal"), "timedatectl": Answer(0, "no")}
    assert hardware.wall_clock(make_machine(answers=answers), now_s=lambda: NOW)[0].status is Status.OK


def test_steady_clock_that_steps_back_fails(make_machine) -> None:
    ticks = iter([10 * i - (500 if i == 700 else 0) for i in range(2000)])
    (finding,) = hardware.steady_clock(make_machine(), now_ns=lambda: next(ticks))
    assert finding.status is Status.FAIL
    assert "490 ns" in finding.found


def test_slow_clock_source_warns(make_machine) -> None:
    path = "sys/devices/system/clocksource/clocksource0/current_clocksource"
    (finding,) = hardware.steady_clock(make_machine({path: "hpet"}))
    assert finding.status is Status.WARN
