"""Memory, disk, heat, power and clocks: what fails first on a small robot."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from itertools import pairwise

from tether.doctor.finding import Finding, Machine, Status, ok
from tether.ingest.machine import THROTTLED_NOW

GIB = 2**30
MEMORY_FAIL_GIB = 0.5
MEMORY_WARN_GIB = 1.5
DISK_FAIL_GIB = 0.5
DISK_WARN_GIB = 2.0
# A Raspberry Pi 5 lowers its clock from 80 °C on and hard from 85 °C on (Raspberry Pi documentation,
# "Frequency management and thermal control"); laptops and servers have similar limits.
HOT_C = 75.0
THROTTLES_C = 80.0
# A clock before this has never been set: the Pi has no battery-backed clock unless one is fitted.
EARLIEST_S = 1_735_689_600  # 2025-01-01
GOVERNORS = ("performance", "schedutil", "ondemand")
STEADY_SOURCES = ("tsc", "arch_sys_counter", "kvm-clock")


def memory(machine: Machine) -> list[Finding]:
    """Memory that can be had without swapping."""
    text = machine.read("proc/meminfo") or ""
    fields = {line.split(":")[0]: line.split()[1] for line in text.splitlines() if len(line.split()) > 1}
    expected = f"at least {MEMORY_WARN_GIB:g} GiB available"
    if not fields.get("MemAvailable", "").isdigit():
        return [Finding("memory", Status.WARN, "no MemAvailable in /proc/meminfo", expected, "mount /proc")]
    available = int(fields["MemAvailable"]) * 1024 / GIB
    found = f"{available:.1f} GiB of {int(fields.get('MemTotal', '0')) * 1024 / GIB:.1f} GiB available"
    if available >= MEMORY_WARN_GIB:
        return [ok("memory", found, expected)]
    status = Status.FAIL if available < MEMORY_FAIL_GIB else Status.WARN
    return [Finding("memory", status, found, expected, "end other programs; `ps -eo rss,args --sort=-rss | head`")]


def disk(machine: Machine, usage: Callable[[str], tuple[int, int, int]] = shutil.disk_usage) -> list[Finding]:
    """Room for recordings in the current folder."""
    free = usage(str(machine.here))[2] / GIB
    expected = f"at least {DISK_WARN_GIB:g} GiB free"
    found = f"{free:.1f} GiB free in {machine.here}"
    if free >= DISK_WARN_GIB:
        return [ok("disk", found, expected)]
    status = Status.FAIL if free < DISK_FAIL_GIB else Status.WARN
    return [Finding("disk", status, found, expected, "remove old recordings under runs/, or record to another disk")]


def temperature(machine: Machine) -> list[Finding]:
    """Hottest thermal zone."""
    zones = []
    for zone in machine.glob("sys/class/thermal/thermal_zone*"):
        milli = machine.read_int(str(zone.relative_to(machine.root) / "temp"))
        if milli is not None:
            kind = machine.read(str(zone.relative_to(machine.root) / "type")) or zone.name
            zones.append((milli / 1000.0, kind))
    expected = f"below {HOT_C:g} °C"
    if not zones:
        return [ok("temperature", "this machine shows no thermal zone", expected)]
    degrees, kind = max(zones)
    found = f"{degrees:.0f} °C ({kind})"
    if degrees < HOT_C:
        return [ok("temperature", found, expected)]
    status = Status.FAIL if degrees >= THROTTLES_C else Status.WARN
    return [Finding("temperature", status, found, expected, "fit a heat sink and a fan, and let air in")]


def throttling(machine: Machine) -> list[Finding]:
    """Under-voltage and throttling as a Raspberry Pi's firmware reports them; nothing on other machines."""
    if not machine.is_pi:
        return []
    bits = throttled_bits(machine)
    expected = "no under-voltage and no throttling since start"
    if bits is None:
        fix = "sudo apt-get install libraspberrypi-bin, and be in the group `video`"
        return [Finding("throttling", Status.WARN, "the firmware cannot be asked", expected, fix)]
    now = [text for bit, text in THROTTLED_NOW.items() if bits >> bit & 1]
    before = [text for bit, text in THROTTLED_NOW.items() if bits >> (bit + 16) & 1]
    if now:
        fix = "use the 27 W supply (5 V, 5 A), feed the servos from their own battery, cool the board"
        return [Finding("throttling", Status.FAIL, "now: " + ", ".join(now), expected, fix)]
    if before:
        fix = "check supply, cable and cooling; the flag clears at the next start"
        return [Finding("throttling", Status.WARN, "since start: " + ", ".join(before), expected, fix)]
    return [ok("throttling", "none since start", expected)]


def throttled_bits(machine: Machine) -> int | None:
    """The firmware's flags from sysfs, else from vcgencmd; None where neither answers."""
    for path in machine.glob("sys/devices/platform/soc*/soc*:firmware/get_throttled"):
        text = machine.read(str(path.relative_to(machine.root)))
        if text is not None:
            return parse_hex(text)
    answer = machine.run(["vcgencmd", "get_throttled"])
    if answer is None or answer.code != 0:
        return None
    return parse_hex(answer.text.partition("=")[2])


def parse_hex(text: str) -> int | None:
    """A number written in hexadecimal, or None."""
    try:
        return int(text.strip(), 16)
    except ValueError:
        return None


def cpu_governor(machine: Machine) -> list[Finding]:
    """A governor that saves power makes the first decisions after a pause late."""
    governor = machine.read("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor is None:
        return []
    expected = "performance, schedutil or ondemand"
    if governor in GOVERNORS:
        return [ok("cpu governor", governor, expected)]
    fix = "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
    return [Finding("cpu governor", Status.WARN, governor, expected, fix)]


def wall_clock(machine: Machine, now_s: Callable[[], float] = time.time) -> list[Finding]:
    """Stamps of two machines only compare when both clocks follow the network."""
    expected = "set from the network (NTP)"
    if now_s() < EARLIEST_S:
        fix = "connect to a network and `sudo timedatectl set-ntp true`; fit a battery to the Pi 5's clock"
        date = time.strftime("%Y-%m-%d", time.gmtime(now_s()))
        return [Finding("wall clock", Status.FAIL, f"it is {date} here", expected, fix)]
    synchronised = ntp_synchronised(machine)
    if synchronised:
        return [ok("wall clock", "synchronised", expected)]
    found = "not synchronised" if synchronised is False else "no time service answers"
    fix = "sudo timedatectl set-ntp true (or install chrony); needed as soon as two machines share stamps"
    return [Finding("wall clock", Status.WARN, found, expected, fix)]


def ntp_synchronised(machine: Machine) -> bool | None:
    """Whether the clock follows the network; None where nothing on this machine can say."""
    if (machine.root / "run/systemd/timesync/synchronized").exists():
        return True
    chrony = machine.run(["chronyc", "-n", "tracking"])
    if chrony is not None and chrony.code == 0:
        return "Leap status     : Normal" in chrony.text
    timedatectl = machine.run(["timedatectl", "show", "--property=NTPSynchronized", "--value"])
    if timedatectl is not None and timedatectl.code == 0 and timedatectl.text in ("yes", "no"):
        return timedatectl.text == "yes"
    return None


def steady_clock(machine: Machine, now_ns: Callable[[], int] = time.monotonic_ns) -> list[Finding]:
    """Deadlines stand on the steady clock: it must never go back and must be fine-grained."""
    expected = f"never backwards, from {', '.join(STEADY_SOURCES)}"
    samples = [now_ns() for _ in range(2000)]
    steps = [b - a for a, b in pairwise(samples)]
    source = machine.read("sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown source"
    if min(steps) < 0:
        fix = f"boot with another clock source than {source} (kernel option clocksource=)"
        return [Finding("steady clock", Status.FAIL, f"went back by {-min(steps)} ns", expected, fix)]
    finest = min((step for step in steps if step > 0), default=0)
    found = f"{source}, steps of {finest} ns"
    if source in STEADY_SOURCES or source == "unknown source":
        return [ok("steady clock", found, expected)]
    fix = "reading it is slow; boot with clocksource=tsc if the kernel trusts it (see dmesg)"
    return [Finding("steady clock", Status.WARN, found, expected, fix)]


PROBES = (memory, disk, temperature, throttling, cpu_governor, wall_clock, steady_clock)
