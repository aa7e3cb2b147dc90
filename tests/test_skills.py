"""The primitive table is a contract: order, bounds and hash."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tether.assembly import skills
from tether.contracts import Primitive
from tether.errors import InvalidInputError
from tether.skills import Param, PrimitiveSpec, SkillTable

anything = st.floats(allow_nan=False, allow_infinity=False)


def with_param(**changes: Any) -> SkillTable:
    """The shipped table with the first parameter of the first primitive that has one changed."""
    primitives = dict(skills().primitives)
    owner = next(key for key, spec in primitives.items() if spec.params)
    first, *rest = primitives[owner].params
    primitives[owner] = dataclasses.replace(primitives[owner], params=(dataclasses.replace(first, **changes), *rest))
    return SkillTable(primitives)


def test_table_has_every_primitive_in_order() -> None:
    assert list(skills().primitives) == [p.name.lower() for p in Primitive]


def test_table_in_another_order_or_with_one_missing_is_refused() -> None:
    primitives = skills().primitives
    with pytest.raises(InvalidInputError, match="order"):
        SkillTable(dict(reversed(primitives.items())))
    with pytest.raises(InvalidInputError, match="order"):
        SkillTable({name: spec for name, spec in primitives.items() if name != "look"})


def test_default_outside_its_bounds_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="within"):
        Param("speed", 0.0, 1.0, 2.0)


def test_hash_follows_everything_but_the_documentation() -> None:
    shipped = skills().sha256
    assert with_param(doc="other words").sha256 == shipped
    first = next(spec.params[0] for spec in skills().primitives.values() if spec.params)
    changes: list[dict[str, Any]] = [
        {"name": "other"},
        {"high": first.high + 1.0},
        {"low": first.low - 1.0},
        {"unit": "furlong"},
    ]
    for change in changes:
        assert with_param(**change).sha256 != shipped, change


@given(data=st.data(), primitive=st.sampled_from(Primitive))
def test_clipped_parameters_always_pass_the_check(data: st.DataObject, primitive: Primitive) -> None:
    names = [p.name for p in skills()[primitive].params]
    values = {name: data.draw(anything) for name in names if data.draw(st.booleans())}
    params = skills().clipped(primitive, **values)
    assert np.array_equal(skills().checked(primitive, params), params)
    for name in set(names) - set(values):
        at = skills()[primitive].index(name)
        assert params[at] == skills()[primitive].default[at]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_clipping_refuses_what_is_not_finite(bad: float) -> None:
    primitive, spec = next((p, skills()[p]) for p in Primitive if skills()[p].params)
    with pytest.raises(InvalidInputError, match="finite"):
        skills().clipped(primitive, **{spec.params[0].name: bad})


def test_nobody_can_change_the_table_for_all_by_writing_into_what_it_gives() -> None:
    spec = skills()[Primitive.GRASP]
    for given_out in (spec.low, spec.high, spec.default):
        before = given_out.copy()
        with pytest.raises(ValueError, match="read-only"):
            given_out[0] = 9.0
        assert np.array_equal(given_out, before)


def test_unknown_parameter_is_named_with_those_there_are() -> None:
    spec: PrimitiveSpec = skills()[Primitive.TRACK]
    with pytest.raises(KeyError, match=spec.params[0].name):
        spec.index("nonsense")


def test_every_fault_of_an_action_is_reported_together() -> None:
    primitive = max(Primitive, key=lambda p: len(skills()[p].params))
    spec = skills()[primitive]
    with pytest.raises(InvalidInputError) as caught:
        skills().checked(primitive, spec.high + 1.0)
    assert len(caught.value.faults) == len(spec.params)
