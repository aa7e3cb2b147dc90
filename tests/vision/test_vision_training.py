"""Training goes on as if it had not been stopped; what is exported is what was trained; what runs it has no torch."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs the extra `train`")
pytest.importorskip("torchvision", reason="needs the extra `train`")
pytest.importorskip("onnx", reason="needs the extra `train`")

from tether.codec import convert  # noqa: E402
from tether.contracts import CameraModel, ImageSample, SampleRef, Stream  # noqa: E402
from tether.errors import InvalidInputError  # noqa: E402
from tether.ingest.camera import CameraIngest  # noqa: E402
from tether.models.errors import ModelRefusedError, Refusal  # noqa: E402
from tether.models.manifest import Manifest, Normalisation  # noqa: E402
from tether.models.onnx_header import read_header  # noqa: E402
from tether.models.store import UNSEALED, save_model  # noqa: E402
from tether.vision.contract import EYES, KIND  # noqa: E402
from tether.vision.export import IR_VERSION, OPSET, Precision, export  # noqa: E402
from tether.vision.eyes import EyesConfig, LearnedEyes  # noqa: E402
from tether.vision.frames import Frames  # noqa: E402
from tether.vision.losses import Weights, loss_of, targets_of  # noqa: E402
from tether.vision.network import ExportedEyes, EyesNetwork, Sight  # noqa: E402
from tether.vision.train import CHECKPOINT, TrainConfig, Trainer, averaged_network  # noqa: E402

CONFIG = TrainConfig(steps=4, batch=2, warmup_steps=2, bfloat16=False, checkpoint_every=2)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def frames() -> Frames:
    rng = np.random.default_rng(0)
    pictures = rng.integers(60, 120, (8, 96, 128, 3), dtype=np.uint8)
    boxes = np.zeros((8, 4), np.float32)
    for picture, box in zip(pictures, boxes, strict=True):
        x, y = rng.integers(10, 100), rng.integers(10, 70)
        picture[y : y + 10, x : x + 12] = (200, 30, 30)
        box[:] = (x, y, x + 12, y + 10)
    visible = np.array([1, 1, 1, 1, 1, 0.5, 0.15, 0.0], np.float32)
    return Frames(pictures, boxes, visible, rng.normal(size=(8, 3)).astype(np.float32), np.zeros((8, 6), np.float32))


@pytest.fixture(scope="module")
def network(frames: Frames) -> EyesNetwork:
    """Untrained, with statistics of normalisation that fit its weights."""
    torch.manual_seed(0)
    made = EyesNetwork()
    for module in made.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None
    with torch.no_grad():
        made.train()(torch.from_numpy(frames.pictures))
        made.head.bias[0] = 0.0
    return made.eval()


@pytest.fixture(scope="module")
def folder(network: EyesNetwork, frames: Frames, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("eyes")
    manifest = Manifest(
        kind=KIND,
        version="0",
        model_file="eyes.onnx",
        sha256=UNSEALED,
        opset=OPSET,
        ir_version=IR_VERSION,
        inputs=EYES.inputs,
        outputs=EYES.outputs,
        normalisation=(Normalisation("picture", (114.75,), (63.75,)),),
    )
    save_model(made, export(network, Precision.FLOAT32, frames.pictures), manifest)
    return made


def weights(trainer: Trainer) -> list[np.ndarray]:
    states = (trainer.network.state_dict(), trainer.averaged.state_dict())
    return [value.numpy().copy() for state in states for value in state.values()]


def test_training_that_was_stopped_ends_as_one_that_was_not(frames: Frames, tmp_path: Path) -> None:
    whole = Trainer(tmp_path / "whole", frames, CONFIG)
    whole.learn()
    first = Trainer(tmp_path / "parts", frames, CONFIG)

    def stop(_: EyesNetwork) -> dict[str, float]:
        raise KeyboardInterrupt

    first.config = replace(CONFIG, score_every=2)
    with pytest.raises(KeyboardInterrupt):
        first.learn(stop)
    assert first.step == 2
    again = Trainer(tmp_path / "parts", frames, CONFIG)
    assert again.step == 2
    again.learn()
    for a, b in zip(weights(whole), weights(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_other_settings_or_other_frames_do_not_go_on_from_a_checkpoint(frames: Frames, tmp_path: Path) -> None:
    Trainer(tmp_path, frames, replace(CONFIG, steps=1)).learn()
    with pytest.raises(InvalidInputError, match="rate"):
        Trainer(tmp_path, frames, replace(CONFIG, rate=1.0))
    fewer = Frames(*(getattr(frames, name)[:4] for name in vars(frames)))
    with pytest.raises(InvalidInputError, match="frames"):
        Trainer(tmp_path, fewer, CONFIG)
    assert Trainer(tmp_path, frames, replace(CONFIG, steps=9)).step == 1


def test_damaged_checkpoint_is_refused(frames: Frames, tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"PK damaged")
    with pytest.raises(InvalidInputError, match="checkpoint"):
        averaged_network(tmp_path / CHECKPOINT)


def test_perfect_sight_has_no_box_loss_and_hidden_frames_have_none(frames: Frames) -> None:
    rows = np.arange(8)
    targets = targets_of(frames, rows)
    sure = torch.where(targets.heat == 1.0, 9.0, -9.0)
    sight = Sight(torch.zeros(8, 48, 64), sure, targets.box, targets.pose)
    _, parts = loss_of(sight, targets, Weights())
    assert float(parts["box"]) == 0.0 and float(parts["pose"]) == 0.0 and float(parts["heat"]) < 0.01
    assert targets.judged.tolist() == [1, 1, 1, 1, 1, 1, 0, 1]
    assert float(targets.near[7].sum()) == 0.0 and float(targets.near[0].max()) == 1.0


def test_half_a_pixel_of_error_is_half_a_unit_of_loss(frames: Frames) -> None:
    targets = targets_of(frames, np.arange(4))
    sight = Sight(torch.zeros(4, 48, 64), targets.heat, targets.box + 0.5, targets.pose)
    assert float(loss_of(sight, targets, Weights())[1]["box"]) == pytest.approx(0.5, abs=1e-4)


def test_exported_model_is_the_trained_one(network: EyesNetwork, frames: Frames, folder: Path) -> None:
    eyes = LearnedEyes.load(folder)
    with torch.no_grad():
        tokens, confidence, box = ExportedEyes(network)(torch.from_numpy(frames.pictures[:2]))
    for i in range(2):
        out = eyes.session.run({"picture": frames.pictures[i : i + 1]})
        np.testing.assert_allclose(out["tokens"][0], tokens[i].numpy(), atol=2e-3)
        np.testing.assert_allclose(out["confidence"][0], confidence[i].numpy(), atol=2e-3)
        np.testing.assert_allclose(out["box"][0], box[i].numpy(), atol=2e-3)


def test_exported_file_names_its_versions_and_nothing_of_the_machine(folder: Path) -> None:
    data = (folder / "eyes.onnx").read_bytes()
    header = read_header(data)
    assert (header.opset, header.ir_version) == (OPSET, IR_VERSION)
    assert b"/src/tether" not in data and b"site-packages" not in data


def test_eyes_look_the_same_every_time_at_pictures_of_any_size(folder: Path) -> None:
    eyes = LearnedEyes.load(folder, EyesConfig(confidence=0.05, detections_max=3))
    rng = np.random.default_rng(1)
    for height, width in ((96, 128), (240, 320), (240, 424)):
        rgb = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        first, second = eyes.look(rgb, None), eyes.look(rgb, None)
        assert first.tokens is not None and second.tokens is not None
        assert first.tokens.shape == (48, 64) and first.tokens.dtype == np.float32
        assert first.detections.shape[1] == 6 and len(first.detections) <= 3
        np.testing.assert_array_equal(first.tokens, second.tokens)
        np.testing.assert_array_equal(first.detections, second.detections)
        assert (first.detections[:, 4] >= 0.05).all()
        assert (first.detections[:, :4] >= -0.5).all() and (first.detections[:, 2] <= width - 0.5).all()


def test_tokens_go_through_ingest_and_message_bit_for_bit(folder: Path, frames: Frames) -> None:
    camera = CameraModel(128, 96, np.eye(3))
    sample = ImageSample(SampleRef(Stream.CAMERA, 33_000_000, 1), frames.pictures[0], camera)
    result = CameraIngest(LearnedEyes.load(folder)).ingest(sample, camera, 40_000_000)
    again = convert.image_feature_from(convert.image_feature_message(result.feature, 0, {}))
    assert result.feature.tokens is not None and again.tokens is not None
    np.testing.assert_array_equal(again.tokens, result.feature.tokens)
    np.testing.assert_array_equal(again.detections, result.feature.detections)


def test_model_of_another_kind_is_no_eyes(folder: Path, tmp_path: Path) -> None:
    from tether.models.manifest import read_manifest

    other = replace(read_manifest(folder), kind="ears")
    save_model(tmp_path, (folder / "eyes.onnx").read_bytes(), other)
    with pytest.raises(ModelRefusedError) as caught:
        LearnedEyes.load(tmp_path)
    assert caught.value.refusal is Refusal.FOREIGN


def test_looking_needs_no_torch() -> None:
    code = (
        "import sys; import tether.vision.eyes, tether.vision.cli, tether.assembly; "
        "bad = {'torch', 'torchvision', 'onnx', 'mujoco'} & set(sys.modules); sys.exit(str(bad) if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
