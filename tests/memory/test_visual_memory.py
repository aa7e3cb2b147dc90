"""Visual memory: looks are found again by likeness, outlive the process, and are guarded as all else that is kept."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("faiss", reason="needs the extra agent")
pytest.importorskip("pyoxigraph", reason="needs the extra agent")

from tether.agent.domain import load_domain
from tether.cli import main
from tether.errors import InvalidInputError
from tether.memory.ledger import Ledger, MemoryRefusedError, Reason
from tether.memory.long_term import LongTermMemory
from tether.memory.recall_bench import Look, looks, text_hits
from tether.memory.visual import Aggregation, VisualMemory, sighting_body
from tether.resources import resource_path
from tether.signing.ecdsa import PrivateKey
from tether.signing.trust import Purpose, TrustedKey
from tether.vision.eyes import LearnedEyes

KEY = PrivateKey.generate()
KEYS = {KEY.public.id: TrustedKey(KEY.public, Purpose.DEVELOPMENT)}
EYES, OTHER_EYES = "a" * 64, "b" * 64
PROVENANCE = {"run": "test", "commit": "c0ffee", "stamp_ns": 1}
Open = Callable[..., LongTermMemory]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def open_it(eyes: str | None = EYES) -> LongTermMemory:
        ledger = Ledger(tmp_path / "memory", KEY, KEYS, tmp_path / "state")
        return LongTermMemory(tmp_path, load_domain(), commit="c0ffee", ledger=ledger, eyes_sha256=eyes)

    return open_it


@pytest.fixture
def memory(opened: Open) -> Iterator[LongTermMemory]:
    with opened() as one:
        yield one


def tokens(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((48, 64)).astype(np.float32)


def body(**change: Any) -> dict[str, Any]:
    return {**sighting_body(tokens(0), Aggregation.MAP, EYES, "r", 5, {"holding": False}), **change}


def packed(values: np.ndarray) -> str:
    return base64.b64encode(values.astype("<f2").tobytes()).decode()


def test_the_look_most_alike_comes_first_and_says_where_it_is_from(memory: LongTermMemory) -> None:
    for seed in range(20):
        assert memory.see(tokens(seed), f"run-{seed}", seed, {"holding": seed % 2 == 0}) == ()
    found = memory.alike(tokens(7) + 0.05 * tokens(99), 3)
    assert [len(found), found[0].run, found[0].stamp_ns, found[0].facts] == [3, "run-7", 7, {"holding": False}]
    assert found[0].distance == pytest.approx(0.05 * float(np.linalg.norm(tokens(99))), rel=0.05)
    assert found[0].distance < found[1].distance <= found[2].distance
    assert memory.ledger.entries[found[0].entry - 1].body["run"] == "run-7"


def test_looks_outlive_the_process_and_are_left_alone_by_one_without_eyes(opened: Open) -> None:
    with opened() as memory:
        memory.see(tokens(1), "run-1", 1, {})
        memory.see(tokens(2), "run-2", 2, {})
    with opened(None) as blind:
        assert blind.visual is None and len(blind.ledger.entries) == 2
        with pytest.raises(InvalidInputError, match="eyes_sha256"):
            blind.alike(tokens(1), 1)
    with opened() as memory:
        assert [sighting.run for sighting in memory.alike(tokens(2), 5)] == ["run-2", "run-1"]


def test_what_the_present_contradicts_is_passed_over(memory: LongTermMemory) -> None:
    memory.see(tokens(1), "held", 1, {"holding": True})
    memory.see(tokens(2), "free", 2, {"holding": False})
    assert [s.run for s in memory.alike(tokens(1), 1)] == ["held"]
    assert [s.run for s in memory.alike(tokens(1), 2, {"holding": False})] == ["free"]
    assert [s.run for s in memory.alike(tokens(1), 2, {"seen": True})] == ["held", "free"]


def test_of_an_empty_memory_nothing_is_alike(memory: LongTermMemory) -> None:
    assert memory.alike(tokens(0), 5) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"eyes": OTHER_EYES}, "mean something else"),
        ({"aggregation": "mean"}, "expected map"),
        ({"facts": {"flying": True}}, "no fact of the domain"),
        ({"facts": {"holding": 1}}, "true or false"),
        ({"stamp_ns": -1}, "0 or more"),
        ({"stamp_ns": 1.5}, "stamp_ns: expected int"),
        ({"descriptor": "?"}, "base64"),
        ({"descriptor": packed(np.ones(64))}, "64 numbers, expected 3072"),
        ({"descriptor": packed(np.full(3072, np.nan))}, "finite"),
        ({"descriptor": packed(np.full(3072, 2e3))}, "finite numbers up to 1000"),
        ({"descriptor": packed(np.zeros(3072))}, "not all zero"),
        ({"note": "x"}, "fields"),
    ],
)
def test_a_poisoned_look_goes_into_quarantine(
    memory: LongTermMemory, tmp_path: Path, change: dict[str, Any], why: str
) -> None:
    assert why in " ".join(memory.offer("sight", body(**change), PROVENANCE))
    assert memory.alike(tokens(0), 1) == [] and memory.ledger.entries == []
    kept = json.loads((tmp_path / "memory" / "quarantine.jsonl").read_text().splitlines()[-1])
    assert kept["kind"] == "sight" and why in " ".join(kept["why"])


def test_a_look_that_is_given_again_goes_into_quarantine(memory: LongTermMemory) -> None:
    assert memory.offer("sight", body(), PROVENANCE) == ()
    assert "replayed" in memory.offer("sight", body(), PROVENANCE)[0]
    assert memory.offer("sight", body(stamp_ns=6), PROVENANCE) == ()


def test_looks_of_other_eyes_are_not_used_after_a_model_was_changed(
    opened: Open, caplog: pytest.LogCaptureFixture
) -> None:
    with opened() as memory:
        memory.see(tokens(1), "run-1", 1, {})
    with opened(OTHER_EYES) as memory:
        assert memory.alike(tokens(1), 1) == []
        assert "entry 1 is not used: eyes" in caplog.text


def test_a_changed_descriptor_is_refused_as_forged(opened: Open, tmp_path: Path) -> None:
    with opened() as memory:
        memory.see(tokens(1), "run-1", 1, {})
    path = tmp_path / "memory" / "ledger.jsonl"
    line = json.loads(path.read_text())
    line["body"]["descriptor"] = packed(tokens(2).ravel())
    path.write_text(json.dumps(line, sort_keys=True, separators=(",", ":")) + "\n")
    with pytest.raises(MemoryRefusedError) as caught:
        opened()
    assert caught.value.reason is Reason.FORGED


@pytest.mark.parametrize("wrong", [tokens(0)[:47], np.full((48, 64), np.inf, np.float32)])
def test_what_are_no_tokens_is_refused_by_its_caller_name(memory: LongTermMemory, wrong: np.ndarray) -> None:
    for ask in (lambda: memory.see(wrong, "r", 1, {}), lambda: memory.alike(wrong, 1)):
        with pytest.raises(InvalidInputError, match="tokens"):
            ask()
    assert memory.ledger.entries == []


def test_an_entry_is_checked_once_where_it_comes_in_and_once_where_it_is_read_back(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = VisualMemory.faults
    monkeypatch.setattr(
        VisualMemory, "faults", lambda self, given: asked.append(given["stamp_ns"]) or real(self, given)
    )
    with opened() as memory:
        memory.see(tokens(1), "run-1", 1, {})
        assert asked == [1]
    with opened():
        assert asked == [1, 1]


def test_the_mean_over_the_map_does_not_say_what_stands_where() -> None:
    here, there = np.zeros((2, 48, 64), np.float32)
    here[3], there[40] = 1.0, 1.0
    assert np.array_equal(Aggregation.MEAN.of(here), Aggregation.MEAN.of(there))
    assert not np.array_equal(Aggregation.MAP.of(here), Aggregation.MAP.of(there))


# -- The measurement -------------------------------------------------------------------------------------------------


def test_among_equal_labels_recall_is_what_chance_gives() -> None:
    from collections import Counter

    same = [Look(tokens(n), {"class": Counter({"cube": 4})}) for n in range(20)]
    assert text_hits(same, same, "class") == pytest.approx(np.tile([1 / 20, 5 / 20, 10 / 20], (20, 1)))
    one = [*same[:19], Look(tokens(19), {"class": Counter({"cube": 2})})]
    assert text_hits(one, one, "class")[19] == pytest.approx([1.0, 1.0, 1.0])


def test_scenes_are_found_again_by_their_looks_more_often_than_chance() -> None:
    eyes = LearnedEyes.load(resource_path("models", "eyes"))
    kept, asked = looks(eyes, True, 12, 0)
    index = np.array([look.tokens.ravel() for look in kept])
    nearest = [int(np.argmin(((index - look.tokens.ravel()) ** 2).sum(axis=1))) for look in asked]
    assert sum(n == right for n, right in enumerate(nearest)) >= 6  # chance would give 1
    assert all(look.labels["colour"] == kept[0].labels["colour"] for look in asked)


def test_the_command_finds_pictures_that_are_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import shutil

    from PIL import Image

    from tether.signing.sign import development_key_path

    (tmp_path / "state" / "keys").mkdir(parents=True)
    shutil.copy(development_key_path(), development_key_path(tmp_path / "state"))
    monkeypatch.setenv("TETHER_STATE", str(tmp_path / "state"))
    (tmp_path / "m").mkdir()
    for number in range(3):
        picture = np.random.default_rng(number).integers(0, 256, (96, 128, 3), dtype=np.uint8)
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
        assert main(["agent", "memory", str(tmp_path / "m"), "--keep", str(tmp_path / f"{number}.png")]) == 0
    capsys.readouterr()
    assert main(["agent", "memory", str(tmp_path / "m"), "--like", str(tmp_path / "1.png")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and "1.png" in lines[0] and lines[0].startswith("0.0")
    assert main(["agent", "memory", str(tmp_path / "m"), "--like", str(tmp_path / "none.png")]) == 2
