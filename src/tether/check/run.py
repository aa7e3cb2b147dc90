"""`tether replay --check`: is every decision of a recording what the same code makes of the same samples?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tether.assembly import make_camera_ingest, settings_hashes
from tether.bags.report import Report
from tether.bridge.arbiter import Arbitration
from tether.check.rebuild import Bridging, Samples, Step, rebuild
from tether.check.recording import Recording, RuntimeChange, load_recording, recorded_looks, recorded_runtimes
from tether.codec import convert, encode
from tether.contracts import F32, Stream
from tether.errors import Fault, InvalidInputError
from tether.ingest.camera import CameraIngest
from tether.models.errors import ModelRefusedError
from tether.results import header, library_versions
from tether.runtimes.interface import RuntimeName
from tether.runtimes.registry import runtime
from tether.runtimes.selection import fixed
from tether.runtimes.timeline import StampClock, Timeline

_CIRCUMSTANCES = frozenset(
    {"latency_stages", "latency_ns", "arrival_steady_ns", "start_steady_ns", "end_steady_ns", "steady_ns", "threads"}
)
"""Fields that say when on this machine, for how long and by how many threads; they are not part of a decision."""


@dataclass(frozen=True)
class Difference:
    """The first step that came out otherwise. modality: whose input differs from what the run recorded of it."""

    episode: int
    stage: str
    number: int
    fields: tuple[str, ...]
    modality: str
    detail: str


@dataclass(frozen=True, eq=False)
class CheckReport:
    """Outcome of a check. steps: stage → number of steps that were rebuilt and are identical."""

    bag: Path
    policy: str
    runtime: str
    episodes: int
    steps: dict[str, int]
    difference: Difference | None
    reading: Report

    @property
    def identical(self) -> bool:
        """Whether every step came out bit for bit as recorded."""
        return self.difference is None

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return {
            **header("replay --check", 0),
            "bag": str(self.bag),
            "policy": self.policy,
            "runtime": self.runtime,
            "episodes": self.episodes,
            "identical": self.identical,
            "steps": self.steps,
            "difference": None if self.difference is None else vars(self.difference),
            "reading": self.reading.to_json(),
        }

    def as_table(self) -> str:
        """For people."""
        steps = ", ".join(f"{count} of {stage}" for stage, count in self.steps.items()) or "none"
        lines = [
            f"{self.bag}: {self.episodes} episodes of {self.policy} on {self.runtime}",
            f"  identical: {steps}",
        ]
        if self.difference is not None:
            d = self.difference
            lines.append(f"  first difference: episode {d.episode}, {d.stage} {d.number}: {', '.join(d.fields)}")
            lines.append(f"  modality: {d.modality} ({d.detail})")
        return "\n".join(lines) + "\n"


def check_bag(path: Path) -> CheckReport:
    """Rebuild a recording's decisions and compare; each model runs on the runtime that the recording names.

    Raises InvalidInputError where the bag holds no run, one made with another profile or skill table, or one whose
    runtimes are not here.
    """
    clock = StampClock()
    with fixed(runtimes_to_use(recorded_runtimes(path), clock)):
        return _check(path, clock)


def runtimes_to_use(
    recorded: Mapping[str, Sequence[RuntimeChange]], clock: StampClock
) -> dict[str, RuntimeName | Timeline]:
    """SHA-256 of each model of a recording → the runtime that ran it, or those that ran it one after the other.

    Raises InvalidInputError where one is not here or unknown, or where nobody said from when on another one ran it.
    """
    faults: list[Fault] = []
    runtimes: dict[str, RuntimeName | Timeline] = {}
    for sha256, changes in recorded.items():
        where = f"runtime of model {sha256[:12]}…"
        words = list(dict.fromkeys(change.label.split(" ", 1)[0] for change in changes))
        labels = {change.label.split(" ", 1)[0]: change.label for change in changes}
        found = [fault for word in words if (fault := _runtime_fault(where, word, labels[word])) is not None]
        if not found and len(words) > 1:
            found = _timeline_faults(where, words, changes)
        faults += found
        if found:
            continue
        if len(words) == 1:
            runtimes[sha256] = RuntimeName(words[0])
        else:
            told = [(change.since_ns or 0, RuntimeName(change.label.split(" ", 1)[0])) for change in changes]
            runtimes[sha256] = Timeline.of(told, clock)
    if faults:
        fix = "install that runtime, see docs/runtimes.md, or check the recording on the machine that made it"
        raise InvalidInputError("recording to check", faults, fix)
    return runtimes


def _runtime_fault(where: str, word: str, label: str) -> Fault | None:
    """Why a runtime of a recording cannot be taken again, None where it can."""
    try:
        runtime(RuntimeName(word)).version()
    except ModelRefusedError as error:
        found = "; ".join(fault.found for fault in error.faults)
        return Fault(where, f"{word} is not here: {found}", f"{label}, which the recording names")
    except ValueError:
        return Fault(where, repr(word), f"one of {', '.join(known.value for known in RuntimeName)}")
    return None


def _timeline_faults(where: str, words: Sequence[str], changes: Sequence[RuntimeChange]) -> list[Fault]:
    """Whether it stands in the recording which of several runtimes ran a model at which stamp."""
    nodes = sorted({change.node for change in changes})
    if len(nodes) > 1:
        found = f"{' and then '.join(words)} in {', '.join(nodes)}"
        return [Fault(where, found, "one node that runs it, or the same runtime throughout the run")]
    if any(change.since_ns is None for change in changes):
        found = f"{' and then '.join(words)}, and not from which stamp on"
        return [Fault(where, found, "since_ns with each, or the same runtime throughout the run")]
    return []


def _check(path: Path, clock: StampClock) -> CheckReport:
    asked = recorded_looks(path)

    def eyes(policy: str) -> CameraIngest:
        camera = make_camera_ingest(policy)
        camera.asked = asked
        return camera

    recording = load_recording(path, eyes, clock)
    _require_same_config(recording)
    samples = Samples(recording)
    arbitration = _arbitration(recording)
    steps: Counter[str] = Counter()
    difference = None
    for number, episode in sorted(recording.episodes.items()):
        for step in rebuild(episode, samples, Bridging(arbitration, recording.thresholds.get(number)), clock):
            fields = _differing(step)
            if fields:
                difference = _explain(recording, samples, number, step, fields)
                break
            steps[step.stage] += 1
        if difference is not None:
            break
    first = next(iter(recording.episodes.values()))
    outputs = [o for e in recording.episodes.values() for o in e.outputs.values()]
    ran = outputs[0].runtime if outputs else "none"
    return CheckReport(
        path, first.start.policy, ran, len(recording.episodes), dict(steps), difference, recording.report
    )


def _arbitration(recording: Recording) -> Arbitration:
    """How the bridge decided; runs from before there was an arbiter do not say."""
    named = (recording.run_config or {}).get("arbiter", Arbitration.STUDENT_ALONE.value)
    try:
        return Arbitration(named)
    except ValueError:
        ways = ", ".join(way.value for way in Arbitration)
        raise InvalidInputError("recording to check", [Fault("arbiter", repr(named), f"one of {ways}")]) from None


def _require_same_config(recording: Recording) -> None:
    """Refuse a recording made with other settings: its decisions could not come out the same."""
    recorded = (recording.run_config or {}).get("settings")
    if not isinstance(recorded, dict):
        return
    start = next(iter(recording.episodes.values())).start
    faults = [
        Fault(f"settings: {key}", f"{str(recorded[key])[:12]}… in the recording", f"{value[:12]}…, the present one")
        for key, value in settings_hashes(start.task, start.profile, start.policy).items()
        if recorded.get(key, value) != value
    ]
    if faults:
        raise InvalidInputError("recording to check", faults, "check out the commit that recorded it")


def _differing(step: Step) -> tuple[str, ...]:
    """Names of the fields in which record and rebuilt message differ, bit for bit; empty where they are identical."""
    if step.missing is not None:
        return (f"missing {step.missing.stream.value} sample",)
    if encode(step.recorded) == encode(step.rebuilt):
        return ()
    return tuple(_fields(step.recorded, step.rebuilt, ""))


def _fields(a: Any, b: Any, prefix: str) -> list[str]:
    out: list[str] = []
    for name in a.__dataclass_fields__:
        x, y = getattr(a, name), getattr(b, name)
        if name in _CIRCUMSTANCES or name.startswith("__"):
            continue
        if hasattr(x, "__msgtype__"):
            out += _fields(x, y, f"{prefix}{name}.")
        elif not _same(x, y):
            out.append(prefix + name)
    return out


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray):
        return bool(np.asarray(x).tobytes() == np.asarray(y, dtype=x.dtype).tobytes())
    if isinstance(x, list) and x and hasattr(x[0], "__msgtype__"):
        return len(x) == len(y) and all(not _fields(p, q, "") for p, q in zip(x, y, strict=True))
    if isinstance(x, float):
        return bool(np.float64(x).tobytes() == np.float64(y).tobytes())
    return bool(x == y)


def _same_tokens(x: F32 | None, y: F32 | None) -> bool:
    return _same(x, y) if x is not None and y is not None else x is y


def _explain(recording: Recording, samples: Samples, episode: int, step: Step, fields: tuple[str, ...]) -> Difference:
    if step.missing is not None:
        ref = step.missing
        detail = f"its sample of {ref.stamp_ns} ns was used and is not in the bag"
        return Difference(episode, step.stage, step.number, fields, ref.stream.value, detail)
    for modality, detail in _changed_inputs(recording, samples, episode, step):
        return Difference(episode, step.stage, step.number, fields, modality, detail)
    detail = (
        f"the inputs are as recorded; code, libraries or machine compute something else{_other_versions(recording)}"
    )
    return Difference(episode, step.stage, step.number, fields, "none", detail)


def _other_versions(recording: Recording) -> str:
    recorded = (recording.run_config or {}).get("versions")
    if not isinstance(recorded, dict):
        return ""
    present = library_versions()
    other = [
        f"{name} {old} then, {present.get(name)} now" for name, old in recorded.items() if present.get(name) != old
    ]
    return f": {', '.join(other)}" if other else ""


def _changed_inputs(recording: Recording, samples: Samples, episode: int, step: Step) -> list[tuple[str, str]]:
    """Inputs of the step that are not what the stages before it recorded of them, by modality."""
    used = convert.refs_from(step.recorded.used)
    changed: list[tuple[str, str]] = []
    batches = {
        sample.ref.stamp_ns: sample
        for msg in recording.episodes[episode].batches.values()
        for sample in convert.imu_batch_from(msg).samples
    }
    for ref in used:
        at = f"sample of {ref.stamp_ns} ns differs from what ingest handed on"
        if ref.stream is Stream.IMU and ref.stamp_ns in batches:
            (raw,), kept = samples.imu([ref]), batches[ref.stamp_ns]
            same = _same(raw.angular_velocity_rad_s, kept.angular_velocity_rad_s)
            if not (same and _same(raw.linear_acceleration_m_s2, kept.linear_acceleration_m_s2)):
                changed.append((ref.stream.value, at))
        elif ref.stream is Stream.CAMERA and ref.stamp_ns in recording.features:
            (seen,) = samples.pictures([ref])
            record = convert.image_feature_from(recording.features[ref.stamp_ns])
            if not (_same(seen.detections, record.detections) and _same_tokens(seen.tokens, record.tokens)):
                changed.append((ref.stream.value, at))
    state = recording.episodes[episode].states.get(step.number) if step.stage == "fusion" else None
    if state is not None and any(name.startswith("joint") for name in _fields(step.recorded, step.rebuilt, "")):
        changed.append((Stream.JOINTS.value, "the newest joint sample differs from the one that was fused"))
    if step.stage == "policy" and not changed and any(ref.stream is Stream.TRUTH for ref in used):
        changed.append((Stream.TRUTH.value, "the fused state is as recorded, so the truth is not"))
    if step.stage == "primitive_executor" and not changed and any(ref.stream is Stream.JOINTS for ref in used):
        text = "decision and IMU are as recorded, so a joint sample is not, or this code computes something else"
        changed.append((Stream.JOINTS.value, text))
    return changed
