"""The small hybrid environment, and torch with one thread."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="learning needs the `train` extra")
pytest.importorskip("gymnasium", reason="learning needs the `train` extra")


def _aim() -> ModuleType:
    name = "tether_test_aim_env"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("aim_env.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def make_aim() -> Callable[..., Any]:
    """AimEnv's class."""
    return _aim().AimEnv
