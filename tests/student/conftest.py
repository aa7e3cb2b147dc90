"""What the tests of the student share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="training and export need torch (extra `train`)")
pytest.importorskip("onnxruntime", reason="the student runs on onnxruntime")
sys.path.insert(0, str(Path(__file__).parent))
