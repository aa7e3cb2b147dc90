"""The student on the boxes of a YOLO model: its name, what is said where there is none, and a cube picked by them.

The model is no YOLO, and its weights are none of Ultralytics': it has the same border and finds what is red.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from student_tools import save_tiny
from torch import Tensor, nn
from torch.nn import functional

from tether.assembly import make_camera_ingest, policy_kit, require_settings, settings_hashes
from tether.cli import main
from tether.errors import InvalidInputError
from tether.ingest.detector import ColourDetector
from tether.models.manifest import Manifest, read_manifest
from tether.models.store import UNSEALED, save_model
from tether.models.torch_export import IR_VERSION, OPSET, to_onnx
from tether.signing.artefacts import signed_artefacts
from tether.student.naming import YOLO_FOLDER, DetectorName, StudentName, parse_name, with_detector
from tether.vision.yolo import KIND, OUTPUT, YOLO


class _Red(nn.Module):
    """One box around what is red, from how much of each row and column is; its centre's offset in px is `shift`."""

    def __init__(self, shift: float = 0.0) -> None:
        super().__init__()
        self._shift = shift

    def forward(self, images: Tensor) -> Tensor:
        colour = (images[:, 0] - torch.maximum(images[:, 1], images[:, 2])).clamp(min=0.0)[:, None]
        own = (images[:, :1] > 0.55 * images.sum(dim=1, keepdim=True) + 0.02).float()
        full = functional.max_pool2d(own * colour, 5, 1, 2)  # faces differ in brightness
        share = functional.max_pool2d(own, 3, 1, 1) * (colour / full.clamp(min=1e-3)).clamp(max=1.0)
        red = (share * (share > 0.12))[:, 0]
        columns, rows = red.amax(dim=1), red.amax(dim=2)
        x, y = (torch.arange(0.5, n.shape[1]) for n in (columns, rows))
        width, height = columns.sum(), rows.sum()
        centre_x = (columns * x).sum() / width.clamp(min=1e-3) + self._shift
        centre_y = (rows * y).sum() / height.clamp(min=1e-3)
        found = (width * height > 9.0).float()
        row = torch.stack((centre_x, centre_y, width, height, 0.9 * found))
        return functional.pad(row[None, :, None], (0, OUTPUT.shape[2] - 1))


@pytest.fixture(scope="module")
def yolo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_yolo(tmp_path_factory.mktemp("yolo-model"))


def save_yolo(folder: Path, shift: float = 0.0) -> Path:
    manifest = Manifest(KIND, "0", "yolo.onnx", UNSEALED, OPSET, IR_VERSION, YOLO.inputs, YOLO.outputs)
    save_model(folder, to_onnx(_Red(shift).eval(), YOLO.inputs, YOLO.outputs), manifest)
    return folder


def test_the_detector_is_part_of_a_students_name() -> None:
    assert parse_name("student~yolo") == StudentName(None, yolo=YOLO_FOLDER)
    assert parse_name("student@a~b-imu~yolo:c-imu/d") == StudentName(Path("a~b"), ("imu",), None, Path("c-imu/d"))
    assert with_detector("student-imu", DetectorName.YOLO, Path("y")) == "student-imu~yolo:y"
    assert with_detector("classic", DetectorName.OWN) == "classic"
    assert parse_name("student@runs/~yolov8").folder == Path("runs/~yolov8")


@pytest.mark.parametrize("policy", ["classic", "scripted", "student~yolo"])
def test_yolo_is_refused_where_nobody_can_choose_it(policy: str) -> None:
    with pytest.raises(InvalidInputError, match="a student that names no detector itself"):
        with_detector(policy, DetectorName.YOLO)


def test_a_missing_model_is_said_with_the_command_that_trains_one(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "none"
    name = f"student~yolo:{folder}"
    command = f"tether train detector --kind yolo --models {folder}"
    for refused in (make_camera_ingest, lambda policy: settings_hashes("pick", "ideal", policy)):
        with pytest.raises(InvalidInputError, match="no model") as caught:
            refused(name)
        assert command in str(caught.value)
    words = ["eval", "--policy", "student", "--profile", "ideal", "--episodes", "1", "--detector", "yolo", "--yolo"]
    assert main([*words, str(folder)]) != 0
    assert command in capfd.readouterr().err


def test_results_and_signatures_name_the_detector(yolo: Path) -> None:
    name = f"student~yolo:{yolo}"
    require_settings(name, "pick", "ideal")
    assert settings_hashes("pick", "ideal", name)["yolo"] == read_manifest(yolo).sha256
    assert "yolo" not in settings_hashes("pick", "ideal", "student")
    assert yolo / "manifest.json" in signed_artefacts(name)


def test_boxes_are_yolos_and_tokens_those_of_the_eyes(yolo: Path, tmp_path: Path) -> None:
    rgb = np.full((240, 320, 3), 90, np.uint8)
    rgb[100:130, 150:180] = (200, 20, 20)
    moved = save_yolo(tmp_path / "moved", shift=4.0)
    own, as_found, shifted = (
        policy_kit(name).make_encoder().look(rgb, None)
        for name in ("student", f"student~yolo:{yolo}", f"student~yolo:{moved}")
    )
    assert own.tokens is not None and as_found.tokens is not None
    np.testing.assert_array_equal(as_found.tokens, own.tokens)
    np.testing.assert_allclose(as_found.detections[0, :4], (149.5, 99.5, 179.5, 129.5), atol=2.6)
    np.testing.assert_allclose(shifted.detections[0, :4] - as_found.detections[0, :4], (10.0, 0, 10.0, 0), atol=1e-3)


def test_a_student_without_eyes_gets_yolos_boxes_alone(yolo: Path, tmp_path: Path) -> None:
    save_tiny(tmp_path)
    rgb = np.full((240, 320, 3), 90, np.uint8)
    rgb[100:130, 150:180] = (200, 20, 20)
    seen = policy_kit(f"student@{tmp_path}~yolo:{yolo}").make_encoder().look(rgb, None)
    colour = ColourDetector().detect(rgb, None)
    assert seen.tokens is None and len(seen.detections) == len(colour) == 1
    assert np.abs(seen.detections[0, :4] - colour[0, :4]).max() < 3.0


def test_the_shipped_student_picks_the_cube_by_other_boxes(yolo: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    words = ["eval", "--policy", "student", "--task", "pick", "--profile", "ideal", "--episodes", "1"]
    words += ["--detector", "yolo", "--yolo", str(yolo), "--workers", "1", "--json", str(out)]
    assert main(words) == 0
    result = json.loads(out.read_text())
    assert result["policy"] == f"student~yolo:{yolo}"
    assert result["successes"] == 1
