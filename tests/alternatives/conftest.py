"""Small alternatives, trained on decisions made by formula."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training and export need torch (extra `train`)")
pytest.importorskip("onnxruntime", reason="the alternatives run on onnxruntime")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """Folder of the models, whose successes are made up, and what training measured of them."""
    from alternative_data import decisions

    from tether.alternatives.collect import Collection
    from tether.alternatives.models import PRIMITIVES, Kind
    from tether.alternatives.networks import CodebookConfig, DiffusionConfig
    from tether.alternatives.train import Training, keep_success, train
    from tether.learning.train import single_threaded

    single_threaded()
    root = tmp_path_factory.mktemp("alternatives")
    small = Training(
        Collection(episodes=10), CodebookConfig(24, 200), DiffusionConfig(width=32, steps=400, batch=128, rate=5e-3)
    )
    figures = train(small, {primitive: decisions(primitive) for primitive in PRIMITIVES}, root, lambda name: None)
    keep_success(root, Kind.CODEBOOK, 20, 20)
    keep_success(root, Kind.DIFFUSION, 19, 20)
    return root, figures
