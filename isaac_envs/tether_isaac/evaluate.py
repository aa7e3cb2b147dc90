"""`tether eval` in Isaac Lab: success of a policy on a task under a profile, the same seeds, the same figures.

    .venv-isaac/bin/python -m tether_isaac.evaluate --policy teacher --task pick --episodes 20 --json OUT

Run again after an interrupt, it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tether.arguments import not_negative, positive
from tether.assembly import require_settings
from tether.errors import TetherError
from tether.eval.journal import Journal
from tether.eval.result import Setting, as_json, as_table
from tether.progress import Progress
from tether.results import header, require_writable, write_json


def parser() -> argparse.ArgumentParser:
    """Arguments as those of `tether eval`."""
    made = argparse.ArgumentParser(prog="python -m tether_isaac.evaluate", description=__doc__)
    made.add_argument("--policy", required=True, help="student, classic, or an oracle: scripted, teacher")
    made.add_argument("--task", default="pick", help="name in config/tasks or a YAML file (default: %(default)s)")
    made.add_argument("--profile", default="ideal_lagged", help="name or YAML file (default: %(default)s)")
    made.add_argument("--episodes", type=positive, default=20, metavar="N", help="default: %(default)s")
    made.add_argument("--seed", type=not_negative, default=0, metavar="S", help="seed of the first episode")
    made.add_argument("--envs", type=positive, default=8, metavar="N", help="episodes at once (default: %(default)s)")
    made.add_argument("--device", default="cpu", help="what physics runs on: cpu, cuda:0, … (default: %(default)s)")
    made.add_argument("--json", type=Path, required=True, metavar="OUT", help="write the result for machines")
    return made


def main() -> int:
    """Entry point. 0 when all episodes ran, whatever their success."""
    a = parser().parse_args()
    try:
        require_settings(a.policy, a.task, a.profile)
        require_writable(a.json)
        setting = Setting(a.policy, a.task, a.profile, False, a.seed)
        return _run(a, setting)
    except TetherError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _run(a: argparse.Namespace, setting: Setting) -> int:
    world = {"world": "isaac", "device": a.device}
    key = {**setting.key(), **world, "commit": header("eval", a.seed)["commit"]}
    journal = Journal(a.json.with_name(f"{a.json.name}.journal"), key)
    done = journal.read()
    wanted = range(a.seed, a.seed + a.episodes)
    missing = [seed for seed in wanted if seed not in done]
    progress = Progress(a.episodes, "episodes")
    if missing:
        from tether_isaac.rollout import play  # loads Isaac Lab
        from tether_isaac.world import open_batch

        batch = open_batch(a.task, a.profile, num_envs=min(a.envs, len(missing)), device=a.device)
        try:
            for result in play(batch, a.policy, a.task, a.profile, missing):
                done[result.spec.seed] = result
                journal.append(result)
                progress.step(result.failure or "picked")
        finally:
            batch.close()
    results = [done[seed] for seed in wanted]
    sys.stdout.write(as_table(setting, results))
    write_json(a.json, {**as_json(setting, results), **world})
    journal.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
