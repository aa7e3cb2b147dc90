"""What a recording holds of a task, for its trace: the agent's calls, what policy and gate made of them, and events."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from tether.agent.bag_trace import CallTrace, TaskTrace, tasks_of
from tether.errors import TetherError


def recorded_trace(bag: Path, ids: Collection[str]) -> dict[str, Any]:
    """Calls and events of the tasks named by `ids`, in the order of the world's time.

    A recording that still grows is read as far as it was flushed. fault: why nothing could be read; None otherwise.
    """
    try:
        tasks = [task for task in tasks_of(bag) if task.task_id in ids]
    except (OSError, TetherError) as error:
        return {"bag": str(bag), "fault": str(error), "entries": []}
    entries = [entry for task in tasks for entry in _entries(task)]
    return {"bag": str(bag), "fault": None, "entries": sorted(entries, key=lambda entry: int(entry["world_ns"]))}


def _entries(task: TaskTrace) -> list[dict[str, Any]]:
    calls = [_call(call) for call in task.calls]
    return calls + [{"world_ns": stamp_ns, "event": "event", "detail": text} for stamp_ns, text in task.events]


def _call(call: CallTrace) -> dict[str, Any]:
    return {
        "world_ns": call.first_ns,
        "event": "call",
        "call": call.call_id,
        "skill": call.skill,
        "way": call.way,
        "until_world_ns": call.last_ns,
        "decisions": call.decisions,
        "primitives": dict(call.primitives),
        "gate": dict(call.modes),
        "fault": call.fault or None,
    }
