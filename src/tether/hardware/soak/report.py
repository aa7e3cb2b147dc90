"""A soak's records as a result, as a table, and as a picture."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tether.hardware.soak.measure import memory_slope

Record = Mapping[str, Any]


def summary(records: Sequence[Record], total_s: float) -> dict[str, Any]:
    """What the records add up to; `complete` says whether the whole time was run."""
    spans = [one for one in records if one["record"] == "span"]
    faults = [one for one in records if one["record"] == "fault"]
    done_s = max((one["done_s"] for one in spans), default=0.0)
    slope = memory_slope([(one["run"], one["run_s"], one["rss_mib"]) for one in spans])
    return {
        "hours_asked": total_s / 3600.0,
        "hours": done_s / 3600.0,
        "complete": done_s >= total_s - 1.0,
        "runs": len({one["run"] for one in spans}),
        "memory": {
            "slope_mib_h": None if slope is None else slope.mib_h,
            "slope_low": None if slope is None else slope.low,
            "slope_high": None if slope is None else slope.high,
            "samples": 0 if slope is None else slope.n,
            "first_mib": spans[0]["rss_mib"] if spans else None,
            "last_mib": spans[-1]["rss_mib"] if spans else None,
        },
        "fds": _range(spans, "fds"),
        "threads": _range(spans, "threads"),
        "servo_c": _range(spans, "servo_c"),
        "cpu_c": _range(spans, "cpu_c"),
        "load": _range(spans, "load"),
        "late_ticks": sum(one["late_ticks"] for one in spans),
        "refused_commands": sum(one["refused"] for one in spans),
        "stuck": sum(one["stuck"] for one in spans),
        "streams": _streams(spans),
        "bus": dict(_total(spans, "bus")),
        "notices": dict(_total(spans, "notices")),
        "injections": len(faults),
        "per_fault": {name: _fault(faults, name) for name in dict.fromkeys(one["fault"] for one in faults)},
    }


def table(result: Mapping[str, Any]) -> str:
    """For a terminal."""
    memory = result["memory"]
    slope = "too short for a slope (it begins two minutes after the start)"
    if memory["slope_mib_h"] is not None:
        bounds = f"95 %: {memory['slope_low']:+.2f} to {memory['slope_high']:+.2f}"
        slope = f"{memory['slope_mib_h']:+.2f} MiB/h ({bounds}, n {memory['samples']})"
    state = "complete" if result["complete"] else "NOT complete: the same command goes on"
    lines = [
        f"soak: {result['hours']:.3f} of {result['hours_asked']:g} h in {result['runs']} runs, {state}",
        f"  memory       {slope}",
        f"  open files   {_span(result['fds'])}; threads {_span(result['threads'])}",
        f"  temperature  servos {_span(result['servo_c'])} °C, processor {_span(result['cpu_c'])} °C",
        f"  stuck        {result['stuck']}; late ticks {result['late_ticks']}, commands refused "
        f"{result['refused_commands']}; load of the machine {_span(result['load'])}",
    ]
    for name, one in result["streams"].items():
        share = f"{one['missing_percent']:.2f} % missing, longest gap {1e3 * one['longest_s']:.0f} ms"
        lines.append(f"  {name:<12} {one['samples']} samples beside the faults, {share}")
    lines.append("  bus          " + ", ".join(f"{name} {n}" for name, n in result["bus"].items()))
    if result["per_fault"]:
        lines.append(
            f"  {'fault':<14}{'n':>4}{'noticed':>9}{'recovered':>11}{'after s':>9}{'recovery s':>12}{'max':>8}"
        )
    for name, one in result["per_fault"].items():
        counts = f"{one['n']:>4}{one['noticed']:>9}{one['recovered']:>11}"
        times = f"{_number(one['noticed_s_p50']):>9}{_number(one['recovery_s_p50']):>12}"
        lines.append(f"  {name:<14}{counts}{times}{_number(one['recovery_s_max']):>8}")
    return "\n".join(lines) + "\n"


def draw(path: Path, records: Sequence[Record]) -> None:
    """Memory, temperatures and gaps over time, with a line at each fault, as a PNG; needs matplotlib."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    spans = [one for one in records if one["record"] == "span"]
    hours = [one["done_s"] / 3600.0 for one in spans]
    figure, axes = pyplot.subplots(3, 1, sharex=True, figsize=(9, 7), constrained_layout=True)
    axes[0].plot(hours, [one["rss_mib"] for one in spans], color="tab:blue")
    axes[0].set_ylabel("memory, MiB")
    for key, label in (("servo_c", "hottest servo"), ("cpu_c", "processor")):
        if any(one[key] is not None for one in spans):
            axes[1].plot(hours, [one[key] for one in spans], label=label)
            axes[1].legend(loc="lower right")
    axes[1].set_ylabel("°C")
    for stream in spans[0]["streams"] if spans else ():
        shares = [100.0 * m / max(n + m, 1) for n, m, _ in (one["streams"][stream] for one in spans)]
        axes[2].plot(hours, shares, label=stream, linewidth=0.8)
    axes[2].set_ylabel("missing beside faults, %")
    axes[2].set_xlabel("hours")
    axes[2].legend(loc="upper right")
    for one in records:
        if one["record"] == "fault":
            bad = one["recovered_s"] is None
            for axis in axes:
                axis.axvline(one["at_s"] / 3600.0, color="red" if bad else "0.85", linewidth=0.6, zorder=0)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _streams(spans: Sequence[Record]) -> dict[str, dict[str, float]]:
    result = {}
    for name in dict.fromkeys(name for one in spans for name in one["streams"]):
        rows = [one["streams"][name] for one in spans]
        samples, missing = sum(row[0] for row in rows), sum(row[1] for row in rows)
        share = 100.0 * missing / max(samples + missing, 1)
        longest_s = max(row[2] for row in rows)
        result[name] = {"samples": samples, "missing": missing, "missing_percent": share, "longest_s": longest_s}
    return result


def _fault(faults: Sequence[Record], name: str) -> dict[str, Any]:
    mine = [one for one in faults if one["fault"] == name]
    noticed = [one["noticed_s"] for one in mine if one["noticed_s"] is not None]
    recovery = [one["recovered_s"] for one in mine if one["recovered_s"] is not None]
    return {
        "n": len(mine),
        "noticed": len(noticed),
        "noticed_s_p50": statistics.median(noticed) if noticed else None,
        "recovered": len(recovery),
        "recovery_s_p50": statistics.median(recovery) if recovery else None,
        "recovery_s_max": max(recovery, default=None),
    }


def _range(spans: Sequence[Record], key: str) -> list[float] | None:
    values = [one[key] for one in spans if one[key] is not None]
    return [min(values), max(values)] if values else None


def _total(spans: Sequence[Record], key: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in spans:
        total.update(one[key])
    return total


def _span(values: Sequence[float] | None) -> str:
    return "unknown" if values is None else f"{values[0]:.3g} to {values[1]:.3g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
