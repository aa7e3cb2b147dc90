"""What a result says of how it came about."""

from __future__ import annotations

import pytest

from tether.contracts import EpisodeResult, EpisodeSpec
from tether.eval.result import Setting, as_json, as_table

PICKED = EpisodeResult(EpisodeSpec("pick", "real", 0), True, True, 1, 2.5, None)


@pytest.mark.parametrize(
    ("graph", "realtime", "way"),
    [(False, False, "core loop"), (True, False, "graph in lockstep"), (True, True, "graph in real time")],
)
def test_a_result_says_whether_it_is_of_the_loop_or_the_graph_and_of_lockstep_or_real_time(
    graph: bool, realtime: bool, way: str
) -> None:
    setting = Setting("classic", "pick", "real", graph, 0, realtime=realtime)
    assert f"profile real, {way}\n" in as_table(setting, [PICKED])
    written = as_json(setting, [PICKED])
    assert (written["graph"], written["realtime"]) == (graph, realtime)
