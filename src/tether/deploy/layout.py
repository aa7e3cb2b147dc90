"""Where versions lie on the robot, and which one holds.

versions/<id>/{models,config,signing}/…, deploy.json    complete versions, never changed
current, previous                               links to them; `current` is replaced in one step
trial.json                                      there while a new version is being tried: what to go back to
incoming/                                       what is arriving
lock                                            held by whoever changes any of this
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tether.deploy.bundle import LISTING, LISTING_MAX, Bundle
from tether.deploy.errors import DeployError, Reason
from tether.signing.files import read_regular, sync_folder, write_whole

_TRIAL = "trial.json"


@dataclass(frozen=True)
class Trial:
    """A version being tried. before: the one to go back to; None where there was none."""

    before: str | None
    new: str


class Place:
    """The folder of versions on a robot. Raises OSError where it cannot be read or written."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Change things. DeployError (BUSY) where somebody else does. The kernel frees it when its holder dies."""
        (self.root / "versions").mkdir(parents=True, exist_ok=True)
        fd = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = f"another deployment into {self.root} is under way"
                raise DeployError(Reason.BUSY, text, "wait for it to end") from None
            yield
        finally:
            os.close(fd)

    def folder(self, version: str) -> Path:
        """Where a version lies."""
        return self.root / "versions" / version

    def linked(self, name: str) -> str | None:
        """Version that the link `current` or `previous` names; None where it names none that is there."""
        try:
            version = Path(os.readlink(self.root / name)).name
        except OSError:
            return None
        return version if self.folder(version).is_dir() else None

    def versions(self) -> list[str]:
        """All that are there, oldest first."""
        folders = (self.root / "versions").glob("*")
        return [path.name for path in sorted(folders, key=lambda path: path.stat().st_mtime_ns)]

    def listing(self, version: str) -> Bundle:
        """What a version holds. Also raises InvalidInputError."""
        return Bundle.from_json(read_regular(self.folder(version) / LISTING, LISTING_MAX))

    def switch(self, name: str, version: str | None) -> None:
        """Point a link at a version in one step, on the disk; None removes it."""
        link = self.root / name
        if version is None:
            link.unlink(missing_ok=True)
        else:
            fresh = self.root / f".{name}.new"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(Path("versions") / version)
            os.replace(fresh, link)
        sync_folder(self.root)

    def begin_trial(self, trial: Trial) -> None:
        """From now until `end_trial`, whoever comes next after a crash goes back to `before`."""
        write_whole(self.root / _TRIAL, json.dumps({"before": trial.before, "new": trial.new}).encode())

    def end_trial(self) -> None:
        """What `current` names holds."""
        (self.root / _TRIAL).unlink(missing_ok=True)
        sync_folder(self.root)

    def unfinished(self) -> Trial | None:
        """A trial that was never ended. A journal that cannot be read is one that was never begun."""
        try:
            fields = json.loads(read_regular(self.root / _TRIAL, 4096))
            return Trial(fields["before"], fields["new"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError, RecursionError):
            return Trial(self.linked("previous"), self.linked("current") or "")

    def go_back(self, trial: Trial) -> None:
        """Undo a trial."""
        before = trial.before if trial.before is not None and self.folder(trial.before).is_dir() else None
        self.switch("current", before)
        self.end_trial()

    def settle(self) -> Trial | None:
        """Undo the trial that a crash or power cut left, if there is one; to be called under the lock."""
        trial = self.unfinished()
        if trial is not None:
            self.go_back(trial)
        self.clear_incoming()
        return trial

    def clear_incoming(self) -> None:
        """Remove what arrived and did not become a version."""
        shutil.rmtree(self.root / "incoming", ignore_errors=True)

    def prune(self, keep: int) -> list[str]:
        """Remove the oldest versions beyond `keep`, never those that a link names; returns them."""
        named = {self.linked("current"), self.linked("previous")}
        spare = [version for version in self.versions() if version not in named]
        gone = spare[: max(0, len(spare) + len(named - {None}) - keep)]
        for version in gone:
            shutil.rmtree(self.folder(version))
        return gone
