"""YOLO's outputs to boxes, its training data, and what is said where Ultralytics is not installed. No training here."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

onnx = pytest.importorskip("onnx", reason="needs the extra `train`")
pytest.importorskip("onnxruntime", reason="needs the extra `sim`")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from PIL import Image  # noqa: E402

from tether.contracts import F32, U8, CameraModel  # noqa: E402
from tether.errors import InvalidInputError  # noqa: E402
from tether.ingest.encoder import Seen  # noqa: E402
from tether.models.manifest import Manifest  # noqa: E402
from tether.models.store import UNSEALED, save_model  # noqa: E402
from tether.vision.eyes import EyesConfig  # noqa: E402
from tether.vision.frames import Frames  # noqa: E402
from tether.vision.yolo import KIND, OUTPUT, PICTURES, YOLO, DetectorBesideEyes, YoloDetector  # noqa: E402
from tether_yolo.data import write_dataset  # noqa: E402
from tether_yolo.train import YoloTraining, train  # noqa: E402

Row = tuple[float, float, float, float, float]


def model_saying(*rows: Row) -> bytes:
    """An ONNX model with YOLO's border that says these rows (cx, cy, width, height, confidence) of any picture."""
    said = np.zeros(OUTPUT.shape, np.float32)
    for cell, row in enumerate(rows):
        said[0, :, 7 * cell] = row
    nodes = [
        helper.make_node("ReduceMax", [PICTURES.name], ["brightest"], keepdims=0),
        helper.make_node("Mul", ["brightest", "nothing"], ["none"]),
        helper.make_node("Add", ["said", "none"], [OUTPUT.name]),
    ]
    graph = helper.make_graph(
        nodes,
        "yolo",
        [helper.make_tensor_value_info(PICTURES.name, TensorProto.FLOAT, PICTURES.shape)],
        [helper.make_tensor_value_info(OUTPUT.name, TensorProto.FLOAT, OUTPUT.shape)],
        [numpy_helper.from_array(said, "said"), numpy_helper.from_array(np.float32(0.0), "nothing")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return bytes(made.SerializeToString())


def detector(
    folder: Path, *rows: tuple[float, float, float, float, float], config: EyesConfig | None = None
) -> YoloDetector:
    manifest = Manifest(KIND, "0", "yolo.onnx", UNSEALED, 18, 10, YOLO.inputs, YOLO.outputs)
    save_model(folder, model_saying(*rows), manifest)
    return YoloDetector.load(folder, config)


RGB = np.zeros((240, 320, 3), np.uint8)


def test_boxes_come_best_first_in_the_pixels_of_the_picture(tmp_path: Path) -> None:
    found = detector(tmp_path, (20, 20, 10, 8, 0.5), (64, 48, 12, 12, 0.9)).detect(RGB, None)
    np.testing.assert_allclose(found[:, 4], [0.9, 0.5])
    np.testing.assert_allclose(found[0, :4], np.array([58, 42, 70, 54]) * 2.5 - 0.5)
    assert found.dtype == np.float32 and found.shape == (2, 6)


def test_thresholds_and_the_cap_are_held(tmp_path: Path) -> None:
    rows = ((20, 20, 10, 10, 0.9), (21, 20, 10, 10, 0.8), (90, 60, 10, 10, 0.7), (60, 20, 10, 10, 0.2))
    assert len(detector(tmp_path, *rows).detect(RGB, None)) == 2
    assert len(detector(tmp_path, *rows, config=EyesConfig(iou=0.9)).detect(RGB, None)) == 3
    assert len(detector(tmp_path, *rows, config=EyesConfig(confidence=0.05)).detect(RGB, None)) == 3
    assert len(detector(tmp_path, *rows, config=EyesConfig(detections_max=1)).detect(RGB, None)) == 1


def test_nothing_found_is_an_empty_table(tmp_path: Path) -> None:
    assert detector(tmp_path).detect(RGB, None).shape == (0, 6)


def test_beside_eyes_boxes_are_yolos_and_tokens_the_eyes(tmp_path: Path) -> None:
    class Eyes:
        def look(self, rgb: U8, camera: CameraModel | None) -> Seen:
            tokens: F32 = np.full((48, 64), 3.0, np.float32)
            return Seen(np.zeros((0, 6), np.float32), tokens)

    seen = DetectorBesideEyes(detector(tmp_path, (20, 20, 10, 8, 0.5)), Eyes()).look(RGB, None)
    assert len(seen.detections) == 1 and seen.tokens is not None and float(seen.tokens[0, 0]) == 3.0


def frames() -> Frames:
    boxes = np.tile(np.array([10, 20, 22, 32], np.float32), (3, 1))
    visible = np.array([1.0, 0.15, 0.0], np.float32)
    pictures = np.random.default_rng(0).integers(0, 256, (3, 96, 128, 3), dtype=np.uint8)
    return Frames(pictures, boxes, visible, np.zeros((3, 3), np.float32), np.zeros((3, 6), np.float32))


def test_training_data_holds_pictures_and_boxes_and_leaves_out_what_is_half_hidden(tmp_path: Path) -> None:
    described = yaml.safe_load(write_dataset(tmp_path, frames(), frames()).read_text())
    assert described["names"] == {0: "cube"}
    names = sorted(path.name for path in (tmp_path / "labels" / "train").iterdir())
    assert names == ["000000.txt", "000002.txt"]
    label = [float(v) for v in (tmp_path / "labels" / "train" / "000000.txt").read_text().split()]
    np.testing.assert_allclose(label, [0, 16 / 128, 26 / 96, 12 / 128, 12 / 96], atol=1e-6)
    assert (tmp_path / "labels" / "train" / "000002.txt").read_text() == ""
    with Image.open(tmp_path / "images" / "val" / "000000.png") as picture:
        np.testing.assert_array_equal(np.asarray(picture), frames().pictures[0])


def test_missing_ultralytics_is_said_with_its_licence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ultralytics", None)
    with pytest.raises(InvalidInputError, match=r"detect.*AGPL"):
        train(frames(), frames(), tmp_path, tmp_path / "model", YoloTraining())
    assert not (tmp_path / "data").exists()
