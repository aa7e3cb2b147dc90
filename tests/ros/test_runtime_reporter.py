"""What a node says of its models' runtimes: at every episode, after a fallback, and never twice the same."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tether_ros.node import StageNode
from tether_ros.runtimes import RuntimeReporter

from tether.codec import sensors
from tether.event_kinds import MODEL_RUNTIMES

pytestmark = pytest.mark.ros

GPU, CPU = {"5" * 64: "tensorrt 10.3.0 Some GPU"}, {"5" * 64: "onnxruntime 1.20.0 cpu"}


class Stage:
    """The node and its stage: what runs, and the events that were published."""

    def __init__(self, runtimes: dict[str, str]) -> None:
        self.runtimes = runtimes
        self.said: list[tuple[int, str, dict[str, str]]] = []
        self.since: list[int] = []
        self.reporter = RuntimeReporter(cast(StageNode, self), lambda: self.runtimes)

    def event(self, severity: int, kind: str, text: str, data: dict[str, Any]) -> None:
        self.said.append((severity, kind, data["runtimes"]))
        self.since.append(data["since_ns"])


def test_each_episode_says_what_runs_its_models_once() -> None:
    stage = Stage(GPU)
    for _ in range(2):
        stage.reporter.begin(100)
        stage.reporter.look(150)
    assert stage.said == [(sensors.Severity.INFO, MODEL_RUNTIMES, GPU)] * 2


def test_a_fallback_is_said_as_a_warning_after_the_step_that_fell_back() -> None:
    stage = Stage(GPU)
    stage.reporter.begin(100)
    stage.runtimes = CPU
    stage.reporter.look(150)
    stage.reporter.look(200)
    assert stage.said[1:] == [(sensors.Severity.WARN, MODEL_RUNTIMES, CPU)]
    assert stage.since == [100, 150]


def test_a_stage_without_models_says_nothing() -> None:
    stage = Stage({})
    stage.reporter.begin(100)
    stage.reporter.look(150)
    assert stage.said == []
