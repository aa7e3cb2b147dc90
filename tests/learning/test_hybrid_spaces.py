"""Hybrid action spaces: every usual form is read and answered, everything else is refused."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="learning needs the `train` extra")
from gymnasium import spaces

from tether.errors import InvalidInputError
from tether.learning.plain import space_of, space_to_plain
from tether.learning.spaces import HybridAction, HybridSpace, ObservationSpace
from tether.resources import resource_path
from tether.skills import load_skill_table

ONE = spaces.Box(-1.0, 3.0, (1,))
TWO = spaces.Box(np.array([0.0, -2.0]), np.array([1.0, 2.0]), dtype=np.float64)
NONE = spaces.Box(-1.0, 1.0, (0,))
BOXES = (ONE, TWO, NONE)
FORMS = {
    "flat tuple": spaces.Tuple((spaces.Discrete(3), *BOXES)),
    "nested tuple": spaces.Tuple((spaces.Discrete(3), spaces.Tuple(BOXES))),
    "tuple with dict": spaces.Tuple((spaces.Discrete(3), spaces.Dict({"a": ONE, "b": TWO, "c": NONE}))),
    "flat dict": spaces.Dict({"skill": spaces.Discrete(3), "a": ONE, "b": TWO, "c": NONE}),
    "nested dict": spaces.Dict({"skill": spaces.Discrete(3), "params": spaces.Tuple(BOXES)}),
    "dict in dict": spaces.Dict({"id": spaces.Discrete(3), "params": spaces.Dict({"a": ONE, "b": TWO, "c": NONE})}),
    "from 5 on": spaces.Tuple((spaces.Discrete(3, start=5), *BOXES)),
}


@pytest.mark.parametrize("name", FORMS)
def test_every_usual_form_is_read_and_gets_actions_that_it_contains(name: str) -> None:
    space = HybridSpace.of(FORMS[name])
    assert space.sizes == (1, 2, 0)
    rng = np.random.default_rng(0)
    for choice in range(3):
        z = rng.uniform(-1.0, 1.0, 3).astype(np.float32)
        raw = space.for_env(space.from_unit(choice, z))
        raw_in_own_types = _cast(FORMS[name], raw)
        assert FORMS[name].contains(raw_in_own_types), raw


def _cast(space: object, value: object) -> object:
    """Boxes of float64 want float64 from `contains`; environments take either."""
    if isinstance(space, spaces.Box):
        return np.asarray(value, dtype=space.dtype)
    if isinstance(space, spaces.Tuple):
        assert isinstance(value, tuple)
        return tuple(_cast(s, v) for s, v in zip(space.spaces, value, strict=True))
    if isinstance(space, spaces.Dict):
        assert isinstance(value, dict) and set(value) == set(space.spaces)
        return {name: _cast(space.spaces[name], v) for name, v in value.items()}
    return value


def test_params_go_to_unit_and_back() -> None:
    space = HybridSpace.of(FORMS["flat tuple"])
    z = space.to_unit(1, np.array([0.25, 1.0], dtype=np.float32))
    assert z.tolist() == [0.0, -0.5, 0.5]
    action = space.from_unit(1, z)
    assert action.choice == 1
    np.testing.assert_allclose(action.params, [0.25, 1.0])


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3),
        spaces.Box(-1.0, 1.0, (2,)),
        spaces.Tuple((ONE, ONE)),
        spaces.Tuple((spaces.Discrete(2), ONE, spaces.Discrete(2))),
        spaces.Tuple((spaces.Discrete(3), ONE, TWO)),
        spaces.Tuple((spaces.Discrete(1), spaces.Box(-np.inf, np.inf, (1,)))),
        spaces.Tuple((spaces.Discrete(1), spaces.Box(0, 9, (1,), dtype=np.int64))),
        spaces.Dict({"a": ONE, "b": TWO}),
        spaces.MultiDiscrete([3, 2]),
    ],
    ids=str,
)
def test_other_spaces_are_refused_with_found_expected_and_fix(space: spaces.Space[object]) -> None:
    with pytest.raises(InvalidInputError) as refused:
        HybridSpace.of(space)
    text = str(refused.value)
    assert "found" in text and "expected" in text and "fix:" in text


def test_nobody_can_change_which_choice_owns_a_parameter() -> None:
    space = HybridSpace.of(FORMS["flat tuple"])
    with pytest.raises(ValueError, match="read-only"):
        space.owner[0, 0] = 9.0


def test_scale_limits_bound_what_can_be_asked() -> None:
    space = HybridSpace.of(FORMS["flat tuple"], max_scale=np.array([0.5, 10.0, 0.1]))
    assert space.scale.tolist() == [0.5, 0.5, 0.1]
    widest = space.from_unit(0, np.ones(3, dtype=np.float32))
    assert widest.params.tolist() == [1.5]
    with pytest.raises(InvalidInputError, match="max_scale"):
        space.limited(np.array([0.5, -1.0, 0.1]))


def test_the_skill_table_gives_its_bounds_and_defaults() -> None:
    table = load_skill_table(resource_path("config", "skills.yaml"))
    space = HybridSpace.of_skills(table)
    assert space.names == tuple(table.primitives)
    caps = np.full(space.n_params, 0.01)
    tight = HybridSpace.of_skills(table, caps)
    defaults = np.concatenate([spec.default for spec in table.primitives.values()])
    assert np.all(tight.centre - tight.scale >= tight.low - 1e-12)
    assert np.all(tight.centre + tight.scale <= tight.high + 1e-12)
    assert np.all(np.abs(tight.centre - defaults) <= tight.scale + 1e-12)


def test_a_space_survives_being_written_down() -> None:
    space = HybridSpace.of(FORMS["dict in dict"])
    again = space_of(space_to_plain(space))
    action = HybridAction(1, np.array([0.5, 1.5], dtype=np.float32))
    assert str(again.for_env(action)) == str(space.for_env(action))
    assert space_to_plain(again) == space_to_plain(space)


def test_masks_come_in_the_observation_or_beside_it() -> None:
    box = spaces.Box(-1.0, 1.0, (2,))
    obs = np.zeros(2, dtype=np.float32)
    flat = ObservationSpace.of(box)
    assert flat.read(obs, {}, 3)[1].tolist() == [True, True, True]
    assert flat.read(obs, {"action_mask": [1, 0, 1]}, 3)[1].tolist() == [True, False, True]
    inside = ObservationSpace.of(spaces.Dict({"observation": box, "action_mask": spaces.MultiBinary(3)}))
    assert inside.read({"observation": obs, "action_mask": [0, 0, 1]}, {}, 3)[1].tolist() == [False, False, True]
    with pytest.raises(InvalidInputError, match="action_mask"):
        flat.read(obs, {"action_mask": [0, 0, 0]}, 3)
    with pytest.raises(InvalidInputError, match="not finite"):
        flat.read(np.array([0.0, np.nan]), {}, 3)
    with pytest.raises(InvalidInputError, match="observation space"):
        ObservationSpace.of(spaces.Discrete(2))
