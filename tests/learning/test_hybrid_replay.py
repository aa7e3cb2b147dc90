"""Replay: n-step returns are exact, demonstrations keep their share, files carry everything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="learning needs the `train` extra")

from tether.errors import InvalidInputError
from tether.learning import arrays as files
from tether.learning.replay import EpisodeWriter, Replay, require_same_shape, sample

ALL = np.ones(2, dtype=np.bool_)


def _write(replay: Replay, rewards: list[float], terminated: bool, discount: float = 0.5, n_step: int = 3) -> None:
    """An episode whose observation is the step's number."""
    writer = EpisodeWriter(replay, discount, n_step)
    for i, reward in enumerate(rewards):
        last = i == len(rewards) - 1
        obs, after = np.array([i], dtype=np.float32), np.array([i + 1], dtype=np.float32)
        z = np.array([0.1 * i], dtype=np.float32)
        writer.add(obs, ALL, i % 2, z, reward, after, ALL, last and terminated, last and not terminated)


def _all(replay: Replay) -> list[tuple[float, float, float, float]]:
    """(observation, reward, discount, next observation) of each transition."""
    batch = replay.batch(replay.state()["table"])
    columns = (batch.obs[:, 0], batch.reward, batch.discount, batch.next_obs[:, 0])
    return [tuple(round(float(v), 5) for v in row) for row in zip(*columns, strict=True)]  # type: ignore[misc]


def test_n_step_returns_end_with_the_episode() -> None:
    replay = Replay(10, 1, 2, 1)
    _write(replay, [1.0, 2.0, 4.0, 8.0], terminated=True)
    assert _all(replay) == [
        (0.0, 1.0 + 1.0 + 1.0, 0.125, 3.0),
        (1.0, 2.0 + 2.0 + 2.0, 0.0, 4.0),
        (2.0, 4.0 + 4.0, 0.0, 4.0),
        (3.0, 8.0, 0.0, 4.0),
    ]


def test_a_truncated_episode_bootstraps_from_its_last_state() -> None:
    replay = Replay(10, 1, 2, 1)
    _write(replay, [1.0, 2.0], terminated=False)
    assert _all(replay) == [(0.0, 2.0, 0.25, 2.0), (1.0, 2.0, 0.5, 2.0)]


def test_the_oldest_goes_first() -> None:
    replay = Replay(3, 1, 2, 1)
    _write(replay, [0.0, 1.0, 2.0, 3.0, 4.0], terminated=True, n_step=1)
    assert len(replay) == 3
    assert sorted(row[0] for row in _all(replay)) == [2.0, 3.0, 4.0]


def test_demonstrations_have_their_share_of_every_batch() -> None:
    own, demos = Replay(10, 1, 2, 1), Replay(10, 1, 2, 1)
    _write(own, [0.0] * 5, terminated=True, n_step=1)
    _write(demos, [1.0] * 5, terminated=True, n_step=1)
    batch = sample(own, np.random.default_rng(0), 40, demos, 0.25)
    assert float(batch.reward.sum()) == 10.0


def test_demonstrations_of_another_shape_or_none_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="demos"):
        require_same_shape(Replay(10, 1, 2, 1), Replay(10, 2, 2, 1))
    with pytest.raises(InvalidInputError, match="at least one"):
        require_same_shape(Replay(10, 1, 2, 1), Replay(10, 1, 2, 1))


def test_a_replay_survives_its_file(tmp_path: Path) -> None:
    replay = Replay(4, 1, 2, 1)
    _write(replay, [1.0, 2.0, 3.0, 4.0, 5.0], terminated=True)
    replay.save(tmp_path / "replay.npz")
    again = Replay.load(tmp_path / "replay.npz")
    assert _all(again) == _all(replay)
    _write(replay, [7.0], terminated=True)
    _write(again, [7.0], terminated=True)
    assert _all(again) == _all(replay)
    assert [p.name for p in tmp_path.iterdir()] == ["replay.npz"]


def test_a_file_that_is_none_of_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "noise.npz").write_bytes(b"noise")
    with pytest.raises(InvalidInputError, match=r"noise\.npz"):
        Replay.load(tmp_path / "noise.npz")
    files.save(tmp_path / "other.npz", {}, {"kind": "other"})
    with pytest.raises(InvalidInputError, match="kind"):
        Replay.load(tmp_path / "other.npz")


def test_a_reward_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="reward"):
        _write(Replay(4, 1, 2, 1), [float("nan")], terminated=True)
