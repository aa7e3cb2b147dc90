"""Figures of a campaign: for machines (key names of `tether faults --json`) and as a table for people."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tether.faults.campaign import Campaign
from tether.faults.journal import GraphLife, Injection
from tether.faults.table import FaultSpec, FaultTable, Recovery
from tether.results import header

RECOVERY_BAR_S = 3.0
_WIDTHS = (24, 4, 5, 5, 6, 12, 7, 7, 11, 7, 5, 6)


def as_json(
    campaign: Campaign, injections: Sequence[Injection], lives: Sequence[GraphLife], rounds: int
) -> dict[str, Any]:
    """The result; `per_class` sums up, `per_fault` has every fault that was put in."""
    table = campaign.table
    by_fault: dict[str, list[Injection]] = defaultdict(list)
    by_class: dict[str, list[Injection]] = defaultdict(list)
    for one in injections:
        by_fault[one.fault].append(one)
        by_class[table.faults[one.fault].group.value].append(one)
    return {
        **header("faults", campaign.seed),
        "policy": campaign.policy,
        "task": campaign.task,
        "rounds": rounds,
        "load_average_at_end": list(os.getloadavg()),
        "injections": len(injections),
        "safe": sum(one.safe for one in injections),
        "as_expected": sum(_expected(table.faults[one.fault], one) for one in injections),
        "unsafe_commands": sum(len(one.unsafe) for one in injections) + sum(life.unsafe for life in lives),
        "lost_records": sum(one.lost for one in injections) + sum(life.lost for life in lives),
        "judged_commands": sum(life.commands for life in lives),
        "graphs": len(lives),
        "discarded": sum(life.discarded for life in lives),
        "made_anew": sum(life.made_anew for life in lives),
        "per_fault": {name: _fault(table, name, ones) for name, ones in sorted(by_fault.items())},
        "per_class": {name: _figures(table, ones) for name, ones in sorted(by_class.items())},
        "not_run": dict(table.not_run),
        "past_the_bar": [_past(one) for one in injections if _late(table.faults[one.fault], one)],
        "unsafe": [f"{one.fault}: {text}" for one in injections for text in one.unsafe],
    }


def as_table(result: Mapping[str, Any]) -> str:
    """One line a fault."""
    head = ("fault", "n", "safe", "late", "blind", "stop ms p50", "p99", "max", "stands p50", "max", "back", "s p50")
    lines = [_line(head)]
    for name, row in result["per_fault"].items():
        figures = ("stop_ms_p50", "stop_ms_p99", "stop_ms_max", "standstill_ms_p50", "standstill_ms_max")
        cells = [_cell(row[figure]) for figure in figures]
        counts = [str(row[count]) for count in ("n", "safe", "late", "blind")]
        lines.append(_line((name, *counts, *cells, str(row["recovered"]), _cell(row["recovery_s_p50"], 2))))
    lines.append(
        f"{result['injections']} injections, {result['safe']} safe, {result['as_expected']} as the table says; "
        f"{result['unsafe_commands']} unsafe of {result['judged_commands']} commands, "
        f"{result['lost_records']} records lost"
    )
    lines += [f"not run: {name}: {why}" for name, why in result["not_run"].items()]
    return "\n".join(lines) + "\n"


def _fault(table: FaultTable, name: str, ones: Sequence[Injection]) -> dict[str, Any]:
    spec = table.faults[name]
    ends: dict[str, int] = defaultdict(int)
    for one in ones:
        ends[one.end.value] += 1
    return {
        "class": spec.group.value,
        **_figures(table, ones),
        "ends": dict(sorted(ends.items())),
        "expected_ends": [end.value for end in spec.ends],
        "stop_max_ms": spec.stop_max_ms,
        "recovery": spec.recovery.value,
    }


def _figures(table: FaultTable, ones: Sequence[Injection]) -> dict[str, Any]:
    recoverable = [one for one in ones if table.faults[one.fault].recovery is not Recovery.RESTART]
    return {
        "n": len(ones),
        "safe": sum(one.safe for one in ones),
        "as_expected": sum(_expected(table.faults[one.fault], one) for one in ones),
        "late": sum(_late(table.faults[one.fault], one) for one in ones),
        "blind": sum(one.blind for one in ones),
        **_percentiles("stop_ms", [one.stop_ms for one in ones]),
        **_percentiles("gate_ms", [one.gate_ms for one in ones]),
        "gap_ms_max": _percentile([one.gap_ms for one in ones], 100),
        **_percentiles("standstill_ms", [one.standstill_ms for one in ones]),
        **_percentiles("no_fault_stop_ms", [one.still_ms for one in ones]),
        "to_recover": len(recoverable),
        "recovered": sum(one.recovery_s is not None and one.recovery_s <= RECOVERY_BAR_S for one in recoverable),
        "recovery_s_p50": _percentile([one.recovery_s for one in recoverable], 50),
        "recovery_s_max": _percentile([one.recovery_s for one in recoverable], 100),
    }


def _past(one: Injection) -> dict[str, Any]:
    """Where the time of an injection went that did not keep its bar."""
    return {"fault": one.fault, "stop_ms": one.stop_ms, "gate_ms": one.gate_ms, "gap_ms": one.gap_ms, "why": one.why}


def _late(spec: FaultSpec, one: Injection) -> bool:
    """Past its bar, or never."""
    return spec.stop_max_ms is not None and (one.stop_ms is None or one.stop_ms > spec.stop_max_ms)


def _expected(spec: FaultSpec, one: Injection) -> bool:
    return one.end in spec.ends and one.said and one.safe


def _percentiles(name: str, values: Sequence[float | None]) -> dict[str, float | None]:
    return {
        f"{name}_p50": _percentile(values, 50),
        f"{name}_p99": _percentile(values, 99),
        f"{name}_max": _percentile(values, 100),
    }


def _percentile(values: Sequence[float | None], share: float) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.percentile(known, share)), 3) if known else None


def _line(cells: Sequence[str]) -> str:
    name, *rest = cells
    return " ".join([name.ljust(_WIDTHS[0]), *(c.rjust(w) for c, w in zip(rest, _WIDTHS[1:], strict=True))])


def _cell(value: float | None, digits: int = 0) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
