"""Studies: cells that grow together, on the same seeds, and go on where they stopped."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tether.assembly import profile
from tether.cli import main
from tether.contracts import EpisodeResult
from tether.errors import InvalidInputError
from tether.eval.result import Setting
from tether.eval.runner import evaluate
from tether.eval.studies import ablation_cells, curve_cells, delayed, draw_curve, unseen_cells, widened
from tether.eval.study import Cell, Study, cells_of, episodes_left, run_study, study_json, study_table
from tether.student.profiles import Spread
from tether.world.profile import write_profile

CELLS = (
    Cell("a", "ideal", "scripted", ("ideal",)),
    Cell("b", "two profiles", "scripted", ("ideal", "real"), per_profile=2),
)
STUDY = Study("test", "pick", CELLS, episodes=3, seed=7, chunk=2)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[Cell, list[EpisodeResult]]]:
    folder = tmp_path_factory.mktemp("study")
    return folder, {cell: list(results) for cell, results in run_study(STUDY, folder).items()}


def test_a_cell_has_the_episodes_that_an_evaluation_has(done: tuple[Path, dict[Cell, list[EpisodeResult]]]) -> None:
    _, results = done
    assert results[CELLS[0]] == evaluate(Setting("scripted", "pick", "ideal", False, 7), 3)
    real = evaluate(Setting("scripted", "pick", "real", False, 9), 1)
    assert results[CELLS[1]] == [*results[CELLS[0]][:2], *real]


def test_a_study_goes_on_from_its_journals(done: tuple[Path, dict[Cell, list[EpisodeResult]]]) -> None:
    folder, results = done
    ran: list[EpisodeResult] = []
    again = run_study(STUDY, folder, ran.append)
    assert episodes_left(STUDY, folder) == 0 and episodes_left(replace(STUDY, episodes=4), folder) == 2
    assert ran == [] and {cell: list(episodes) for cell, episodes in again.items()} == results
    grown = run_study(replace(STUDY, episodes=4, cells=CELLS[:1]), folder, ran.append)
    assert [result.spec.seed for result in ran] == [10] and len(grown[CELLS[0]]) == 4


def test_all_cells_grow_together(tmp_path: Path) -> None:
    sizes: list[list[int]] = []
    study = replace(STUDY, cells=tuple(Cell(row, "c", "scripted", ("ideal",)) for row in "ab"), episodes=2, chunk=1)
    run_study(study, tmp_path, on_chunk=lambda results: sizes.append([len(r) for r in results.values()]))
    assert sizes == [[1, 0], [1, 1], [2, 1], [2, 2]]


def test_json_and_table_say_what_was_counted(done: tuple[Path, dict[Cell, list[EpisodeResult]]]) -> None:
    _, results = done
    record = study_json(STUDY, results)
    assert record["tool"] == "study test" and record["seed"] == 7
    assert [cell["episodes"] for cell in record["cells"]] == [3, 3]
    assert record["cells"][1]["profiles_sha256"] == [profile("ideal").sha256, profile("real").sha256]
    json.dumps(record, allow_nan=False)
    lines = study_table(results).splitlines()
    assert "two profiles" in lines[0] and lines[1].startswith("a") and "3/3" in lines[1]


def test_a_computed_profile_reads_back_to_the_same_numbers(tmp_path: Path) -> None:
    made = delayed("real", 180.0)
    assert made.camera.delay.latency_s == 0.18 and made.camera.delay.jitter_s == 0.02
    assert delayed("real", 0.0).camera.delay.jitter_s == 0.0
    assert delayed("real", 120.0).sha256 == profile("real").sha256
    assert profile(write_profile(tmp_path / "p.yaml", made)).sha256 == made.sha256


def test_cells_of_a_curve_differ_in_the_cameras_delay_alone(tmp_path: Path) -> None:
    cells = curve_cells({"x": "classic", "y": "scripted"}, "real", [0.0, 120.0], tmp_path)
    assert [(cell.row, cell.column) for cell in cells] == [
        ("x", "0 ms"),
        ("y", "0 ms"),
        ("x", "120 ms"),
        ("y", "120 ms"),
    ]
    assert replace(profile(cells[0].profiles[0]), camera=profile("real").camera).sha256 == profile("real").sha256


def test_profiles_never_seen_are_drawn_anew_for_each_seed_and_lie_in_their_ranges(tmp_path: Path) -> None:
    cells = unseen_cells({"x": "classic"}, "real", 12, 2, 5, tmp_path / "a")
    again = unseen_cells({"x": "classic"}, "real", 12, 2, 5, tmp_path / "b")
    other = unseen_cells({"x": "classic"}, "real", 12, 2, 6, tmp_path / "c")
    hashes = [[profile(name).sha256 for cell in some for name in cell.profiles] for some in (cells, again, other)]
    assert hashes[0] == hashes[1] != hashes[2] and len(set(hashes[0])) == 25
    spread = Spread()
    for cell, ranges in zip(cells[1:], (spread, widened(spread)), strict=True):
        low, high = ranges.camera_latency_s
        assert all(low <= profile(name).camera.delay.latency_s <= high for name in cell.profiles)


def test_ranges_widen_by_a_quarter_of_their_width_and_stay_possible() -> None:
    spread = widened(Spread())
    assert spread.camera_latency_s == pytest.approx((0.0, 0.325))
    assert spread.friction_scale == pytest.approx((0.55, 1.45))
    assert spread.exact == Spread().exact


def test_an_ablation_masks_one_modality_at_a_time() -> None:
    policies = [cell.policy for cell in ablation_cells("student@x", "real", ("imu", "camera"))]
    assert policies == ["student@x", "student@x-imu", "student@x-camera"]


def test_the_command_writes_json_table_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "curve", "--out", str(tmp_path), "--policies", "oracle=scripted", "--task", "pick"]
    words += ["--episodes", "1", "--delays-ms", "0", "240", "--json", str(tmp_path / "f.json")]
    assert main([*words, "--picture", str(tmp_path / "f.svg")]) == 0
    assert "oracle" in capsys.readouterr().out
    assert [cell["column"] for cell in json.loads((tmp_path / "f.json").read_text())["cells"]] == ["0 ms", "240 ms"]
    assert "<svg" in (tmp_path / "f.svg").read_text()


def test_two_rows_of_one_name_are_refused(tmp_path: Path) -> None:
    assert main(["study", "curve", "--out", str(tmp_path), "--policies", "a=classic", "a=scripted"]) == 2


def test_a_curve_without_an_episode_yet_can_be_drawn(tmp_path: Path) -> None:
    cells = curve_cells({"x": "classic"}, "real", [0.0], tmp_path)
    study = Study("curve", "pick", cells, episodes=1)
    draw_curve(tmp_path / "empty.svg", "title", study_json(study, {cells[0]: []})["cells"])
    assert (tmp_path / "empty.svg").exists()


def test_cells_measured_apart_stand_beside_with_the_code_they_were_measured_on(
    done: tuple[Path, dict[Cell, list[EpisodeResult]]], tmp_path: Path
) -> None:
    _, results = done
    path = tmp_path / "apart.json"
    path.write_text(json.dumps({**study_json(replace(STUDY, commit="abc"), results), "commit": "abc"}))
    other = replace(STUDY, cells=(Cell("c", "ideal", "scripted", ("ideal",)),), commit="def")
    record = study_json(other, {other.cells[0]: results[CELLS[0]]}, cells_of(other, path))
    assert [(cell["row"], cell["commit"]) for cell in record["cells"]] == [("c", "def"), ("a", "abc"), ("b", "abc")]


def test_cells_of_another_study_and_rows_of_ones_own_are_refused_beside(
    done: tuple[Path, dict[Cell, list[EpisodeResult]]], tmp_path: Path
) -> None:
    _, results = done
    path = tmp_path / "apart.json"
    path.write_text(json.dumps(study_json(STUDY, results)))
    with pytest.raises(InvalidInputError, match="a at ideal"):
        cells_of(STUDY, path)
    with pytest.raises(InvalidInputError, match="seed"):
        cells_of(replace(STUDY, seed=8, cells=()), path)
    path.write_text("[]")
    with pytest.raises(InvalidInputError, match="a result of `tether study`"):
        cells_of(STUDY, path)


def test_an_unknown_policy_is_refused_before_anything_runs(tmp_path: Path) -> None:
    assert main(["study", "unseen", "--out", str(tmp_path / "o"), "--policies", "nobody"]) == 2
    with pytest.raises(InvalidInputError):
        profile("nothing")
