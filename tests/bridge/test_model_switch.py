"""Swapping and taking back: between decisions, only what fits, and without the trainer's or the disk's help."""

from __future__ import annotations

import contextlib
import shutil
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest
from tiny_models import TinyPolicy, open_tiny, write_tiny

from tether.bridge.guard import GuardConfig, VersionGuard
from tether.bridge.swap import Loaded, ModelSwitch, SwapKind, VersionWatcher
from tether.bridge.versions import publish
from tether.models.errors import ModelRefusedError, Refusal

CONFIG = GuardConfig(decisions=20, least_decisions=10, episodes=20, least_episodes=6)


@dataclass
class Rig:
    """A policy with a switch, and decisions to be made with it."""

    policy: TinyPolicy
    switch: ModelSwitch
    folder: Path

    def decide(self, error: float | None = 0.05, n: int = 1) -> list[SwapKind]:
        """n decisions, as the policy's node makes them; what happened to the versions."""
        happened = []
        for _ in range(n):
            event = self.switch.before_decision()
            if event is not None:
                happened.append(event.kind)
            self.switch.saw(error)
        return happened


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    session = open_tiny(write_tiny(tmp_path / "first", 1.0))
    policy = TinyPolicy(session)
    switch = ModelSwitch(policy, Loaded("first", session), open_tiny, VersionGuard(CONFIG))
    return Rig(policy, switch, tmp_path)


def test_version_runs_from_the_next_decision_on_and_not_before(rig: Rig) -> None:
    rig.decide(n=10)
    rig.switch.offer(write_tiny(rig.folder / "v2", 2.0))
    assert rig.policy.factor() == 1.0
    assert rig.decide() == [SwapKind.SWAPPED]
    assert rig.policy.factor() == 2.0
    assert rig.switch.running.version == "v2"


def test_newest_of_several_offers_is_taken(rig: Rig) -> None:
    rig.decide(n=10)
    for factor in (2.0, 3.0, 4.0):
        rig.switch.offer(write_tiny(rig.folder / f"v{factor:g}", factor))
    assert rig.decide(n=3) == [SwapKind.SWAPPED]
    assert rig.policy.factor() == 4.0


def test_version_that_does_worse_is_taken_back_by_itself_and_never_again(rig: Rig) -> None:
    rig.decide(n=20)
    worse = write_tiny(rig.folder / "v2", 2.0)
    rig.switch.offer(worse)
    assert rig.decide(0.5, n=12) == [SwapKind.SWAPPED, SwapKind.ROLLED_BACK]
    assert rig.policy.factor() == 1.0
    with pytest.raises(ModelRefusedError, match="taken back"):
        rig.switch.offer(worse)


def test_version_whose_episodes_fail_is_taken_back(rig: Rig) -> None:
    for _ in range(10):
        rig.switch.ended(True)
    rig.decide(n=20)
    rig.switch.offer(write_tiny(rig.folder / "v2", 2.0))
    rig.decide()
    for _ in range(6):
        rig.switch.ended(False)
    assert rig.decide() == [SwapKind.ROLLED_BACK]
    assert rig.policy.factor() == 1.0


def test_going_back_needs_no_disk(rig: Rig) -> None:
    rig.decide(n=20)
    rig.switch.offer(write_tiny(rig.folder / "v2", 2.0))
    rig.decide()
    for name in ("first", "v2"):
        shutil.rmtree(rig.folder / name)
    assert rig.decide(0.5, n=12) == [SwapKind.ROLLED_BACK]
    assert rig.policy.factor() == 1.0


def test_version_on_probation_is_not_replaced_before_it_is_confirmed(rig: Rig) -> None:
    rig.decide(n=20)
    rig.switch.offer(write_tiny(rig.folder / "v2", 2.0))
    rig.decide()
    rig.switch.offer(write_tiny(rig.folder / "v3", 3.0))
    assert rig.decide(n=30) == []
    for _ in range(6):
        rig.switch.ended(True)
    assert rig.decide(n=3) == [SwapKind.CONFIRMED, SwapKind.SWAPPED]
    assert rig.policy.factor() == 3.0


def refusal(rig: Rig, folder: Path, sha256: str | None = None) -> Refusal:
    with pytest.raises(ModelRefusedError) as caught:
        rig.switch.offer(folder, sha256)
    assert rig.decide(n=20) == []
    assert rig.policy.factor() == 1.0
    return caught.value.refusal


def test_model_that_is_not_its_manifests_is_refused(rig: Rig) -> None:
    folder = write_tiny(rig.folder / "v2", 2.0)
    (folder / "model.onnx").write_bytes((write_tiny(rig.folder / "v3", 3.0) / "model.onnx").read_bytes())
    assert refusal(rig, folder) is Refusal.HASH


def test_model_with_another_hash_than_asked_for_is_refused(rig: Rig) -> None:
    assert refusal(rig, write_tiny(rig.folder / "v2", 2.0), "0" * 64) is Refusal.HASH


def test_model_of_another_kind_is_refused(rig: Rig) -> None:
    assert refusal(rig, write_tiny(rig.folder / "v2", 2.0, kind="other")) is Refusal.FOREIGN


def test_folder_that_is_not_there_is_refused(rig: Rig) -> None:
    assert refusal(rig, rig.folder / "nothing") is Refusal.MISSING


def test_truncated_model_is_refused(rig: Rig) -> None:
    folder = write_tiny(rig.folder / "v2", 2.0)
    path = folder / "model.onnx"
    path.write_bytes(path.read_bytes()[:-8])
    assert refusal(rig, folder) in (Refusal.HASH, Refusal.DAMAGED)


def test_watcher_takes_what_is_published_and_says_what_it_refused(rig: Rig) -> None:
    versions = rig.folder / "versions"
    publish(versions, lambda folder: write_tiny(folder, 5.0))
    watcher = VersionWatcher(versions, rig.switch)  # the version of another time is not taken
    rig.decide(n=20)
    watcher.look()
    assert rig.decide() == []
    publish(versions, lambda folder: write_tiny(folder, 2.0))
    watcher.look()
    assert rig.decide() == [SwapKind.SWAPPED]
    publish(versions, lambda folder: write_tiny(folder, 3.0, kind="other"))
    watcher.look()
    watcher.look()
    assert [(event.kind, event.version) for event in watcher.refused()] == [(SwapKind.REFUSED, "v000003")]
    assert watcher.refused() == []
    assert rig.policy.factor() == 2.0


def test_decisions_and_offers_from_another_thread_never_meet_a_half_swapped_model(rig: Rig) -> None:
    folders = [write_tiny(rig.folder / f"v{n}", float(n)) for n in range(2, 12)]
    stop = threading.Event()

    def offer() -> None:
        while not stop.is_set():
            for folder in folders:
                with contextlib.suppress(ModelRefusedError):  # the one that runs already
                    rig.switch.offer(folder)

    thread = threading.Thread(target=offer)
    thread.start()
    try:
        for _ in range(300):
            rig.decide()
            assert rig.policy.factor() == float(rig.switch.running.version.removeprefix("v").replace("first", "1"))
            rig.switch.ended(True)
    finally:
        stop.set()
        thread.join()
