"""What a run shows while it trains: progress line, TensorBoard, history.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tether.files import replaced
from tether.learning.evaluate import Scores
from tether.learning.sac import UpdateInfo
from tether.progress import Progress


class Report:
    """Writes into `out_dir`; `progress` also a line with rate and time left to standard error."""

    def __init__(self, out_dir: Path, steps: int, done: int, progress: bool) -> None:
        from torch.utils.tensorboard import SummaryWriter  # seconds to import, and not needed to act

        out_dir.mkdir(parents=True, exist_ok=True)
        self._out_dir = out_dir
        self._board: Any = SummaryWriter(log_dir=str(out_dir), purge_step=done)
        self._progress = Progress(steps - done, "decisions") if progress and steps > done else None
        self._left = steps - done
        self._note = ""

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._board.close()

    def step(self) -> None:
        """One decision was made. The last episode may go beyond the run's steps; those are not counted."""
        if self._progress is not None and self._left > 0:
            self._left -= 1
            self._progress.step(self._note)

    def episode(self, step: int, total: float, info: Mapping[str, Any], update: UpdateInfo | None) -> None:
        """An episode ended."""
        self._board.add_scalar("episode/return", total, step)
        if "is_success" in info:
            self._board.add_scalar("episode/success", float(info["is_success"]), step)
        if update is not None:
            for name, value in update._asdict().items():
                self._board.add_scalar(f"learner/{name}", float(value), step)

    def evaluation(self, step: int, scores: Scores, history: Sequence[Mapping[str, float]]) -> None:
        """An evaluation ended; `history` is all of them."""
        self._board.add_scalar("evaluation/return", scores.mean_return, step)
        if scores.success_rate is not None:
            self._board.add_scalar("evaluation/success", scores.success_rate, step)
        self._note = f"(evaluation {scores.figure:.3f})"
        with replaced(self._out_dir / "history.json") as file:
            file.write((json.dumps(list(history), indent=1) + "\n").encode())
