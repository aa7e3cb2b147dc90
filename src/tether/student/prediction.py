"""The predictor's own error at run time: what it said of a stamp, against the observation of that stamp when it came.

No truth plays a part. Compared are the joints, the base's turning rate (gyro) and, while the prediction has the cube
on the ground, its place by the newest box; each as a mean square over the scale of its dimensions, then their mean.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np

from tether.contracts import DECISION_NS, F64
from tether.student.observation import ROLLED, STATE_SCALE, Observer

_AHEAD = 2
"""A stamp is compared with what was said of it at least so many periods before it."""
_KEPT = 24
_ON_GROUND_M = 0.03
_TURNING, _JOINTS = 5, slice(6, 12)
_SCALE = np.array(STATE_SCALE)


class PredictionCheck:
    """Keeps predictions until their time has come. Deterministic in the sequence of calls."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start an episode."""
        self._said: deque[tuple[int, F64]] = deque(maxlen=_KEPT)
        self._tools: deque[tuple[int, F64]] = deque(maxlen=_KEPT)
        self._compared_box_ns = -1

    def say(self, stamp_ns: int, states: F64) -> None:
        """Keep the prediction (1 + ROLLED, STATE_SIZE), scaled, made at a decision."""
        self._said.append((stamp_ns, states))

    def error(self, now_ns: int, observer: Observer) -> float | None:
        """Normalised root mean square over what the newest observations can be compared with; None without any."""
        squares = []
        joints = observer.newest_joints
        if joints is not None:
            stamp_ns, position, tool = joints
            self._tools.append((stamp_ns, tool))
            predicted = self._of(stamp_ns)
            if predicted is not None:
                squares.append(float(np.mean(((position - predicted[_JOINTS]) / _SCALE[_JOINTS]) ** 2)))
            turning = observer.turning_at(stamp_ns)
            if predicted is not None and turning is not None:
                squares.append(float(((turning - predicted[_TURNING]) / _SCALE[_TURNING]) ** 2))
        box = observer.newest_box
        if box is not None and box[0] > self._compared_box_ns:
            square = self._box_square(*box)
            self._compared_box_ns = box[0]
            if square is not None:
                squares.append(square)
        return math.sqrt(sum(squares) / len(squares)) if squares else None

    def dump(self) -> bytes:
        """The memory as bytes, for hashes."""
        said = b"".join(repr(stamp_ns).encode() + states.tobytes() for stamp_ns, states in self._said)
        tools = b"".join(repr(stamp_ns).encode() + tool.tobytes() for stamp_ns, tool in self._tools)
        return said + tools + repr(self._compared_box_ns).encode()

    def _box_square(self, stamp_ns: int, place: F64) -> float | None:
        predicted, tool = self._of(stamp_ns), self._tool_at(stamp_ns)
        if predicted is None or tool is None or predicted[2] + tool[2] > _ON_GROUND_M:
            return None
        return float(np.mean(((place - tool[:2] - predicted[:2]) / _SCALE[:2]) ** 2))

    def _of(self, stamp_ns: int) -> F64 | None:
        """What was said of a stamp at least _AHEAD periods before, in SI; None where nobody did."""
        for made_ns, states in reversed(self._said):
            ahead = (stamp_ns - made_ns) / DECISION_NS
            if ahead < _AHEAD:
                continue
            if ahead > ROLLED:
                return None
            step = min(int(ahead), ROLLED - 1)
            share = ahead - step
            said: F64 = (states[step] * (1.0 - share) + states[step + 1] * share) * _SCALE
            return said
        return None

    def _tool_at(self, stamp_ns: int) -> F64 | None:
        """The tool at a stamp, on the line between the readings around it (one reading a decision is kept)."""
        after = None
        for at_ns, tool in reversed(self._tools):
            if at_ns <= stamp_ns:
                if after is None:
                    return tool
                share = (stamp_ns - at_ns) / (after[0] - at_ns)
                between: F64 = tool * (1.0 - share) + after[1] * share
                return between
            after = (at_ns, tool)
        return None
