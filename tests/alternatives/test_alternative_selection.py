"""Which alternative serves a call, and what names of policies may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tether.alternatives.models import Kind
from tether.alternatives.naming import has_alternatives, model_folders, parse_name
from tether.alternatives.selection import Measured, Need, choose, measured
from tether.assembly import policy_kit
from tether.contracts import Primitive
from tether.errors import InvalidInputError
from tether.models.manifest import read_manifest

FAST_AND_COARSE = Measured(error=0.05, latency_p99_us=20.0, successes=38, episodes=40)
SLOW_AND_FINE = Measured(error=0.01, latency_p99_us=200.0, successes=40, episodes=40)
OFFERS = {Kind.CODEBOOK: FAST_AND_COARSE, Kind.DIFFUSION: SLOW_AND_FINE}


def test_speed_takes_the_quickest_and_precision_the_most_exact() -> None:
    assert choose(Need.SPEED, Primitive.REACH, OFFERS).kind is Kind.CODEBOOK
    assert choose(Need.PRECISION, Primitive.REACH, OFFERS).kind is Kind.DIFFUSION


def test_what_fails_beyond_doubt_is_out_however_quick() -> None:
    offers = {**OFFERS, Kind.CODEBOOK: Measured(0.05, 20.0, successes=10, episodes=40)}
    choice = choose(Need.SPEED, Primitive.REACH, offers)
    assert choice.kind is Kind.DIFFUSION
    assert "1 out for success" in choice.reason


def test_what_was_never_tried_is_not_taken() -> None:
    offers = {**OFFERS, Kind.CODEBOOK: Measured(0.05, 20.0, successes=0, episodes=0)}
    assert choose(Need.SPEED, Primitive.REACH, offers).kind is Kind.DIFFUSION
    with pytest.raises(InvalidInputError, match="one that was tried"):
        choose(Need.SPEED, Primitive.REACH, {Kind.CODEBOOK: offers[Kind.CODEBOOK]})


def test_figures_that_were_never_measured_are_named(trained: tuple[Path, dict]) -> None:
    manifest = read_manifest(trained[0] / "codebook" / "reach")
    assert measured(manifest).successes == 20
    del manifest.scores["latency_p99_us"]
    with pytest.raises(InvalidInputError, match="no latency_p99_us"):
        measured(manifest)


def test_a_name_says_alternative_or_need_and_folder() -> None:
    assert parse_name("classic+codebook").wanted is Kind.CODEBOOK
    staged = parse_name("classic+staged@some/where")
    assert staged.folder == Path("some/where")
    assert staged.wanted == {Primitive.REACH: Need.SPEED, Primitive.GRASP: Need.PRECISION}
    assert len(model_folders(staged)) == 4
    assert not has_alternatives("classic") and not has_alternatives("student+padded")


@pytest.mark.parametrize("name", ["classic+", "classic+luck", "classic+codebook@", "classic+codebook/x"])
def test_other_names_are_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(InvalidInputError, match="codebook, diffusion, speed, precision, staged"):
        policy_kit(name)
