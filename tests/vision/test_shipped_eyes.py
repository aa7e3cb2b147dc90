"""The eyes in models/: what their manifest says of them is so, and they see the cube where it is."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mujoco", reason="needs the extra `sim`")
pytest.importorskip("onnxruntime", reason="needs the extra `sim`")

from tether.assembly import skills
from tether.contracts import Primitive
from tether.ingest.detector import ColourDetector
from tether.ingest.encoder import DetectorEncoder
from tether.models.manifest import read_manifest
from tether.resources import resource_path
from tether.vision.eyes import EyesConfig, LearnedEyes
from tether.vision.frames import FramesConfig, make_frames
from tether.vision.release import scores_of_model
from tether.vision.rollouts import scores_on_rollouts


def test_shipped_eyes_hold_their_scores_on_frames_of_a_new_seed(tmp_path: Path) -> None:
    config = FramesConfig(frames=60, episodes=1, seed=77, shard=60, first_world_seed=14_000_000)
    folder = resource_path("models", "eyes")
    scores = scores_of_model(folder, make_frames(tmp_path, config))
    claimed = read_manifest(folder).scores
    assert claimed["map50"] >= 0.95
    # 60 frames tell no more than this.
    assert scores["map50"] >= 0.93
    assert scores["centre_error_px_p50"] <= 2.0 * claimed["centre_error_px_p50"]


def test_shipped_eyes_find_the_cube_in_the_pictures_of_an_episode() -> None:
    eyes = LearnedEyes.load(resource_path("models", "eyes"))
    encoders = {"eyes": eyes, "colour": DetectorEncoder(ColourDetector())}
    scores = scores_on_rollouts(encoders, "real", episodes=1, first_seed=14_000_000)
    assert scores["eyes"]["found"] >= 0.98
    # In the gripper the fingers hide part of the cube, and the truth is the box of all of it: both are off there.
    for figure in ("centre_error_px_p50", "centre_error_px_p95"):
        assert scores["eyes"][figure] <= scores["colour"][figure]


def test_a_picture_without_the_cube_gives_no_detection() -> None:
    eyes = LearnedEyes.load(resource_path("models", "eyes"))
    grey = np.full((240, 320, 3), 120, np.uint8)
    assert len(eyes.look(grey, None).detections) == 0


def test_how_hard_to_look_has_the_bounds_that_a_skill_may_set() -> None:
    of_skill = {p.name: (p.low, p.high) for p in skills()[Primitive.LOOK].params}
    own = {f.name: (f.metadata["low"], f.metadata["high"]) for f in fields(EyesConfig) if f.name in of_skill}
    assert own == {name: of_skill[name] for name in ("confidence", "iou")}
