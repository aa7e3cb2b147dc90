"""Collected pictures through an image encoder: the camera tokens that the student would have had."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tether.ingest.encoder import PictureEncoder
from tether.student.observation import AGE_S, TOKEN_SIZE, TOKENS
from tether.student.shards import read_shard, write_shard

_UNSEEN_S = 1.0


def encode_shards(
    source: Path, target: Path, encoder: PictureEncoder, on_shard: Callable[[], None] | None = None
) -> int:
    """Shards of `source` with tokens instead of pictures, into `target`; what is there already is left. How many."""
    missing = [path for path in sorted(source.glob("*.npz")) if not (target / path.name).exists()]
    for path in missing:
        columns, lengths, meta = read_shard(path)
        pictures, picture_ns = columns.pop("picture"), columns["picture_ns"]
        tokens = np.zeros((len(pictures), TOKENS, TOKEN_SIZE), np.float16)
        shown = np.append(True, picture_ns[1:] != picture_ns[:-1])
        for i in np.flatnonzero(picture_ns > 0):
            if shown[i] or i == 0:
                seen = encoder.look(pictures[i], None).tokens
                if seen is None:
                    raise ValueError("the encoder gives no tokens")
                tokens[i] = seen
            else:
                tokens[i] = tokens[i - 1]
        age_s = (columns["stamp_ns"] - picture_ns) * 1e-9
        fresh = ((picture_ns > 0) & (age_s <= _UNSEEN_S)).astype(np.float32)[:, None]
        columns["tokens"] = tokens * fresh[:, :, None].astype(np.float16)
        columns["tokens_age"] = (np.maximum(age_s, 0.0)[:, None] / AGE_S).astype(np.float32) * fresh
        columns["tokens_mask"] = fresh
        ends = np.cumsum(lengths)
        episodes = [
            {name: column[end - n : end] for name, column in columns.items()}
            for end, n in zip(ends.tolist(), lengths.tolist(), strict=True)
        ]
        write_shard(target / path.name, episodes, meta)
        if on_shard is not None:
            on_shard()
    return len(missing)
