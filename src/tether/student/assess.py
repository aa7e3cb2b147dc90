"""How good a net is on held-out episodes, without running it: errors of the estimate and of the prediction, agreement.

The decisions that count for the estimate are those before a grasp: cube on the ground, fingers open. On episodes in
which `classic` acted its own estimate of the same decisions stands beside.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from tether.student.data import Episodes
from tether.student.network import StudentNet
from tether.student.observation import STATE_SCALE

_ON_GROUND_M = 0.016
_OPEN_M = 0.038


def assess(net: StudentNet, episodes: Episodes, numbers: Sequence[int] | None = None) -> dict[str, float]:
    """Figures by name. numbers: episodes to use, all where None."""
    c = episodes.columns
    rows: list[NDArray[np.int64]] = []
    p, primitives, states, sigma = [], [], [], []
    net.eval()
    with torch.no_grad():
        for number in range(len(episodes.lengths)) if numbers is None else numbers:
            batch = episodes.whole(number)
            fused, logits, _ = net(batch.obs, batch.memory, episodes.has_tokens)
            rows.append(np.arange(episodes.starts[number], episodes.ends[number]))
            p.append(fused.p.numpy())
            sigma.append(torch.exp(fused.log_sigma[:, 0]).numpy())
            primitives.append(logits.argmax(dim=-1).numpy())
            off = (fused.states - batch.states).abs() * torch.tensor(STATE_SCALE)
            states.append((off * batch.state_mask[:, :, None])[:, 3].numpy())
    row = np.concatenate(rows)
    true, seen = c["true_cube"][row], c["coasted_mask"][row, 0] > 0
    before = seen & (true[:, 2] < _ON_GROUND_M) & (c["tool"][row, 3] > _OPEN_M)
    error = np.linalg.norm(np.concatenate(p) - true[:, :3], axis=1) * 1e3
    anchor = np.linalg.norm(c["carried"][row, :2] - true[:, :2], axis=1) * 1e3
    ahead = np.linalg.norm(np.concatenate(states)[:, :3], axis=1) * 1e3
    out = {
        **_percentiles("position_error_mm", error[before]),
        **_percentiles("carried_boxes_error_mm", anchor[before & (c["carried_mask"][row, 0] > 0)]),
        **_percentiles("predicted_150_ms_error_mm", ahead[before]),
        "sigma_mm_p50": float(np.median(np.concatenate(sigma)[before]) * 1e3),
        "primitive_agreement": float(np.mean(np.concatenate(primitives) == c["label_probability"][row].argmax(axis=1))),
        "decisions": float(len(row)),
    }
    actor = np.array([record["actor"] for record in episodes.meta])[episodes.episode[row]]
    classic = before & (actor == "classic") & (c["acted_valid"][row] > 0)
    if classic.any():
        acted = np.linalg.norm(c["acted_estimate"][row, :3] - true[:, :3], axis=1) * 1e3
        out |= _percentiles("classic_position_error_mm", acted[classic])
        out |= _percentiles("position_error_beside_classic_mm", error[classic])
    return out


def _percentiles(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    if len(values) == 0:
        return {}
    return {f"{name}_p50": float(np.percentile(values, 50)), f"{name}_p95": float(np.percentile(values, 95))}
