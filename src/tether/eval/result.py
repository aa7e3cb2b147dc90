"""The result of an evaluation, as JSON for machines and as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tether.assembly import profile, skills, task
from tether.bridge.arbiter import Arbitration
from tether.contracts import EpisodeResult
from tether.eval.statistics import summarise
from tether.results import header


@dataclass(frozen=True)
class Setting:
    """What was evaluated. graph: through the live nodes instead of the core loop. realtime: those not in lockstep."""

    policy: str
    task: str
    profile: str
    graph: bool
    seed: int
    truth_age_ms: float = 0.0
    arbitration: Arbitration = Arbitration.STUDENT_ALONE
    realtime: bool = False

    def key(self) -> dict[str, Any]:
        """Everything that an episode's result depends on besides its seed."""
        return {
            "policy": self.policy,
            "task": self.task,
            "profile": self.profile,
            "graph": self.graph,
            "realtime": self.realtime,
            "truth_age_ms": self.truth_age_ms,
            "arbiter": self.arbitration.value,
            "task_sha256": task(self.task).sha256,
            "profile_sha256": profile(self.profile).sha256,
            "skills_sha256": skills().sha256,
        }


def as_json(setting: Setting, results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """See docs/results.md. Hashes of task, profile and skill table tell whether two results may be compared."""
    summary = asdict(summarise(results))
    return {
        **header("eval", setting.seed),
        **setting.key(),
        **summary,
        "per_episode": [
            {
                "seed": r.spec.seed,
                "success": r.success,
                "first_attempt_success": r.first_attempt_success,
                "attempts": r.attempts,
                "time_s": r.duration_s,
                "failure": r.failure,
            }
            for r in results
        ],
    }


def as_rows(setting: Setting, results: Sequence[EpisodeResult]) -> list[tuple[str, str]]:
    """Name and value of each figure, for people."""
    s = summarise(results)
    graph = "graph in real time" if setting.realtime else "graph in lockstep"
    way = graph if setting.graph else "core loop"
    age = f", truth {setting.truth_age_ms:g} ms old" if setting.truth_age_ms else ""
    return [
        ("setting", f"{setting.policy} on {setting.task}, profile {setting.profile}, {way}{age}{_arbiter(setting)}"),
        ("episodes", f"{s.episodes} (seeds {setting.seed} to {setting.seed + max(s.episodes - 1, 0)})"),
        ("success", f"{s.success_rate:.1%} ({s.successes}); 95 % interval {s.wilson_low:.1%} to {s.wilson_high:.1%}"),
        ("at the first attempt", f"{s.first_attempt_successes / s.episodes:.1%}" if s.episodes else "-"),
        ("retries after a failure", _figure(s.mean_retries_after_failure, "")),
        ("time to success", _figure(s.mean_time_s, " s")),
        ("failures", ", ".join(f"{count} {reason}" for reason, count in s.failures.items()) or "none"),
    ]


def as_table(setting: Setting, results: Sequence[EpisodeResult]) -> str:
    """A few lines for a terminal."""
    rows = as_rows(setting, results)
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows) + "\n"


def _arbiter(setting: Setting) -> str:
    alone = setting.arbitration is Arbitration.STUDENT_ALONE
    return "" if alone else f", arbiter {setting.arbitration.value}"


def _figure(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.2f}{unit}"
