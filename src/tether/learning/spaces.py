"""Hybrid action spaces: one Discrete, and for each of its choices one Box of continuous parameters.

Learners see a choice k in 0 … K-1 and one flat vector z in [-1, 1]^P, in which each choice owns a slice; what
belongs to other choices is 0. Environments see what their own space asks for; `HybridSpace` translates.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tether.arrays import read_only
from tether.contracts import F32, F64
from tether.errors import Fault, InvalidInputError
from tether.skills import SkillTable

Bool = NDArray[np.bool_]

_FIX = (
    "wrap the environment so that its action space is Tuple(Discrete(K), Box, …), Tuple(Discrete(K), Tuple(Box, …)) "
    "or a Dict of these, with K bounded Boxes of floats (shape (0,) for a choice without parameters)"
)


class HybridAction(NamedTuple):
    """`choice` in 0 … K-1 and `params`, that choice's parameters (n,) in the environment's units."""

    choice: int
    params: F32


class Form(Enum):
    """How an environment wants its actions."""

    FLAT_TUPLE = "Tuple(Discrete, Box, …)"
    NESTED_TUPLE = "Tuple(Discrete, Tuple(Box, …))"
    FLAT_DICT = "Dict(Discrete, Box, …)"
    NESTED_DICT = "Dict(Discrete, Tuple(Box, …))"
    NONE = "no environment"


@dataclass(frozen=True)
class HybridSpace:
    """K choices with `sizes[k]` parameters each, P in all, side by side in flat vectors.

    A parameter is `centre + scale * z`: `scale` (P,) is half the range, or less where `limited` says so.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    low: F64
    high: F64
    centre: F64
    scale: F64
    form: Form = Form.NONE
    keys: tuple[str, ...] = ()
    inner_keys: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    start: int = 0

    @staticmethod
    def of(space: spaces.Space[Any], max_scale: F64 | None = None) -> HybridSpace:
        """Read an action space; raises InvalidInputError for one that is no hybrid space, with everything wrong.

        In a Dict the boxes belong to the choices in the order in which the space holds them; Gymnasium sorts the
        keys of a plain dict. `max_scale` (P,) as in `limited`.
        """
        form, keys, discrete, boxes, inner_keys = _parts(space)
        faults = [fault for name, box in boxes for fault in _box_faults(name, box)]
        if len(boxes) != discrete.n:
            faults.insert(0, Fault("action space", f"{len(boxes)} boxes", f"{discrete.n}, one for each choice"))
        if faults:
            raise InvalidInputError("action space", faults, _FIX)
        low = _flat([box.low for _, box in boxes])
        high = _flat([box.high for _, box in boxes])
        hybrid = HybridSpace(
            names=tuple(name for name, _ in boxes),
            sizes=tuple(int(np.prod(box.shape)) for _, box in boxes),
            low=low,
            high=high,
            centre=(low + high) / 2.0,
            scale=(high - low) / 2.0,
            form=form,
            keys=keys,
            inner_keys=inner_keys,
            shapes=tuple(box.shape for _, box in boxes),
            start=int(discrete.start),
        )
        return hybrid if max_scale is None else hybrid.limited(max_scale)

    @staticmethod
    def of_skills(table: SkillTable, max_scale: F64 | None = None) -> HybridSpace:
        """The primitives of the skill table, in its order, around the parameters' defaults."""
        specs = list(table.primitives.values())
        low, high = _flat([s.low for s in specs]), _flat([s.high for s in specs])
        hybrid = HybridSpace(
            names=tuple(table.primitives),
            sizes=tuple(len(s.params) for s in specs),
            low=low,
            high=high,
            centre=(low + high) / 2.0,
            scale=(high - low) / 2.0,
        )
        return hybrid if max_scale is None else hybrid.limited(max_scale, _flat([s.default for s in specs]))

    def limited(self, max_scale: F64, around: F64 | None = None) -> HybridSpace:
        """The same space, each parameter within `max_scale` (P,) of its centre.

        The centre moves to `around` (P,), as near as the bounds allow. Raises InvalidInputError.
        """
        cap = np.asarray(max_scale, dtype=np.float64)
        if cap.shape != self.scale.shape or not np.all(np.isfinite(cap)) or np.any(cap <= 0.0):
            fault = Fault("max_scale", f"{cap.tolist()}", f"{self.n_params} finite numbers above 0")
            raise InvalidInputError("scale limits", [fault], "give one number per parameter, in the order of the space")
        scale = np.minimum(self.scale, cap)
        centre = np.clip(self.centre if around is None else around, self.low + scale, self.high - scale)
        return replace(self, scale=scale, centre=centre)

    @property
    def n_choices(self) -> int:
        """K."""
        return len(self.sizes)

    @property
    def n_params(self) -> int:
        """P, parameters of all choices together."""
        return sum(self.sizes)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """Where each choice's parameters stand in flat vectors."""
        ends = np.cumsum((0, *self.sizes))
        return tuple(slice(int(a), int(b)) for a, b in itertools.pairwise(ends))

    @cached_property
    def owner(self) -> F32:
        """(K, P) 1 where the choice owns the parameter, else 0; read-only."""
        table = np.zeros((self.n_choices, self.n_params), dtype=np.float32)
        for k, part in enumerate(self.slices):
            table[k, part] = 1.0
        return read_only(table)

    def from_unit(self, choice: int, z: F32) -> HybridAction:
        """The action of flat `z` (P,) in [-1, 1]."""
        part = self.slices[choice]
        value = self.centre[part] + self.scale[part] * z[part]
        return HybridAction(choice, np.clip(value, self.low[part], self.high[part]).astype(np.float32))

    def to_unit(self, choice: int, params: F32) -> F32:
        """Flat (P,) in [-1, 1], 0 for the other choices; values beyond the scale limits are clipped."""
        part = self.slices[choice]
        z = np.zeros(self.n_params, dtype=np.float32)
        scale = np.where(self.scale[part] > 0.0, self.scale[part], 1.0)
        z[part] = np.clip((np.asarray(params, dtype=np.float64).reshape(-1) - self.centre[part]) / scale, -1.0, 1.0)
        return z

    def for_env(self, action: HybridAction) -> Any:
        """The action in the form that the environment's own space asks for; other choices' parameters at centre."""
        boxes = [
            (action.params if k == action.choice else self.centre[part]).astype(np.float32).reshape(shape)
            for k, (part, shape) in enumerate(zip(self.slices, self.shapes, strict=True))
        ]
        choice = np.int64(action.choice + self.start)
        if self.form is Form.FLAT_TUPLE:
            return (choice, *boxes)
        inner: Any = tuple(boxes)
        if self.inner_keys:
            inner = dict(zip(self.inner_keys, boxes, strict=True))
        if self.form is Form.NESTED_TUPLE:
            return (choice, inner)
        if self.form is Form.FLAT_DICT:
            return {self.keys[0]: choice, **dict(zip(self.keys[1:], boxes, strict=True))}
        if self.form is Form.NESTED_DICT:
            return {self.keys[0]: choice, self.keys[1]: inner}
        raise InvalidInputError(
            "action", [Fault("hybrid space", "made from a skill table", "made from an action space")], "use from_unit"
        )


def _flat(parts: Sequence[NDArray[Any]]) -> F64:
    return np.concatenate([np.zeros(0), *(np.asarray(p, dtype=np.float64).reshape(-1) for p in parts)])


_Parts = tuple[Form, tuple[str, ...], spaces.Discrete, list[tuple[str, spaces.Box]], tuple[str, ...]]


def _parts(space: spaces.Space[Any]) -> _Parts:
    """Form, keys, the Discrete, named boxes and keys of the inner Dict; refuses anything else."""
    if isinstance(space, spaces.Dict):
        items = list(space.spaces.items())
        items.sort(key=lambda item: not isinstance(item[1], spaces.Discrete))  # stable: the rest keeps its order
    elif isinstance(space, spaces.Tuple):
        items = [(f"choice_{i - 1}", part) for i, part in enumerate(space.spaces)]
    else:
        raise _refusal(space)
    if not items or not isinstance(items[0][1], spaces.Discrete):
        raise _refusal(space)
    discrete, rest = items[0][1], items[1:]
    is_dict = isinstance(space, spaces.Dict)
    inner_keys: tuple[str, ...] = ()
    nested = len(rest) == 1 and isinstance(rest[0][1], spaces.Tuple | spaces.Dict)
    outer = rest
    if nested:
        inner = rest[0][1]
        if isinstance(inner, spaces.Dict):
            rest = list(inner.spaces.items())
            inner_keys = tuple(name for name, _ in rest)
        else:
            assert isinstance(inner, spaces.Tuple)
            rest = [(f"choice_{i}", part) for i, part in enumerate(inner.spaces)]
    boxes = [(str(name), part) for name, part in rest if isinstance(part, spaces.Box)]
    if len(boxes) != len(rest):
        raise _refusal(space)
    keys = tuple(str(name) for name, _ in (items[0], *outer)) if is_dict else ()
    forms = {
        (True, True): Form.NESTED_DICT,
        (True, False): Form.FLAT_DICT,
        (False, True): Form.NESTED_TUPLE,
        (False, False): Form.FLAT_TUPLE,
    }
    return forms[is_dict, nested], keys, discrete, boxes, inner_keys


def _refusal(space: spaces.Space[Any]) -> InvalidInputError:
    fault = Fault("action space", str(space), "one Discrete and one Box for each of its choices")
    return InvalidInputError("action space", [fault], _FIX)


def _box_faults(name: str, box: spaces.Box) -> list[Fault]:
    faults = []
    if not np.issubdtype(box.dtype, np.floating):
        faults.append(Fault(name, f"a Box of {box.dtype}", "a Box of floats"))
    if not (np.all(np.isfinite(box.low)) and np.all(np.isfinite(box.high))):
        faults.append(Fault(name, f"bounds {box.low.tolist()} … {box.high.tolist()}", "finite bounds"))
    return faults


@dataclass(frozen=True)
class ObservationSpace:
    """Flat observations of `size` numbers, with bounds (size,), perhaps beside a mask of the valid choices.

    Environments give a one-dimensional Box, or a Dict with the key `observation` and, if they have it, `action_mask`.
    A mask may come as `info["action_mask"]` instead. Without one every choice is valid.
    """

    size: int
    low: F64
    high: F64
    in_dict: bool

    @staticmethod
    def of(space: spaces.Space[Any]) -> ObservationSpace:
        """Read an observation space; raises InvalidInputError."""
        in_dict = isinstance(space, spaces.Dict)
        box = space.spaces.get("observation") if isinstance(space, spaces.Dict) else space
        if not isinstance(box, spaces.Box) or len(box.shape) != 1:
            fault = Fault("observation space", str(space), "Box(n,), or Dict with 'observation': Box(n,)")
            raise InvalidInputError("observation space", [fault], "flatten it (gymnasium.wrappers.FlattenObservation)")
        low, high = box.low.astype(np.float64), box.high.astype(np.float64)
        return ObservationSpace(box.shape[0], low, high, in_dict)

    def read(self, raw: Any, info: Mapping[str, Any], n_choices: int) -> tuple[F32, Bool]:
        """Observation (size,) and mask (K,), True where a choice is valid; raises InvalidInputError.

        Non-finite observations and masks that leave no choice are refused.
        """
        vector = np.asarray(raw["observation"] if self.in_dict else raw, dtype=np.float32)
        if vector.shape != (self.size,) or not np.all(np.isfinite(vector)):
            found = f"shape {vector.shape}" if vector.shape != (self.size,) else "a number that is not finite"
            raise InvalidInputError("observation", [Fault("observation", found, f"({self.size},) finite numbers")])
        given = raw.get("action_mask") if self.in_dict else None
        given = info.get("action_mask") if given is None else given
        mask = np.ones(n_choices, dtype=np.bool_) if given is None else np.asarray(given, dtype=np.bool_)
        if mask.shape != (n_choices,) or not mask.any():
            fault = Fault("action_mask", f"{mask.tolist()}", f"({n_choices},) with at least one valid choice")
            raise InvalidInputError("observation", [fault])
        return vector, mask
