"""Joint states are matched by name; missing, extra, ill-sized and non-finite ones are refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from tether.contracts import JointSample, SampleRef, Stream
from tether.errors import InvalidInputError
from tether.ingest.joints import ExtraNames, JointConfig, JointIngest, JointReading, MissingVelocity
from tether.ingest.rejection import Reason

MS = 1_000_000
NAMES = ("shoulder", "elbow", "wrist")
NAN = float("nan")


def reading(i: int = 0, **fields: object) -> JointReading:
    base: dict[str, object] = {
        "stamp_ns": i * 10 * MS,
        "names": NAMES,
        "position": (0.1, 0.2, 0.3),
        "velocity": (1.0, 2.0, 3.0),
    }
    return JointReading(**{**base, **fields})  # type: ignore[arg-type]


def one_reason(config: JointConfig | None = None, **fields: object) -> tuple[Reason | None, str]:
    result = JointIngest(config or JointConfig(NAMES)).ingest(reading(**fields), MS)
    return (None, "") if result.rejection is None else (result.rejection.reason, result.rejection.detail)


def test_joints_come_out_in_the_robots_order_whatever_the_order_of_the_message() -> None:
    shuffled = reading(names=("wrist", "shoulder", "elbow"), position=(3.0, 1.0, 2.0), velocity=(30.0, 10.0, 20.0))
    sample = JointIngest(JointConfig(NAMES)).ingest(shuffled, MS).sample
    assert sample is not None and sample.names == NAMES
    assert sample.position.tolist() == [1.0, 2.0, 3.0] and sample.velocity.tolist() == [10.0, 20.0, 30.0]


def test_missing_joint_is_refused_by_name() -> None:
    reason, detail = one_reason(names=("wrist", "shoulder"), position=(1.0, 2.0), velocity=())
    assert reason is Reason.NAMES_MISSING and "elbow" in detail


def test_extra_joint_is_refused_by_name_or_left_out_where_so_configured() -> None:
    fields = {"names": (*NAMES, "tail"), "position": (0.1, 0.2, 0.3, 9.0), "velocity": (1.0, 2.0, 3.0, 9.0)}
    reason, detail = one_reason(**fields)
    assert reason is Reason.NAMES_EXTRA and "tail" in detail
    assert one_reason(JointConfig(NAMES, extra_names=ExtraNames.IGNORE), **fields)[0] is None


def test_joint_given_twice_is_refused_by_name() -> None:
    reason, detail = one_reason(names=("elbow", "wrist", "elbow"))
    assert reason is Reason.NAMES_REPEATED and "elbow" in detail


@pytest.mark.parametrize(
    ("field", "values"),
    [("position", ()), ("position", (0.1,)), ("velocity", (1.0, 2.0)), ("effort", (1.0,) * 4)],
)
def test_array_of_another_length_is_refused_with_both_lengths(field: str, values: tuple[float, ...]) -> None:
    reason, detail = one_reason(**{field: values})
    assert reason is Reason.BAD_LENGTH and f"{field} has {len(values)}" in detail and "3" in detail


@pytest.mark.parametrize("bad", [NAN, float("inf"), float("-inf")])
@pytest.mark.parametrize("field", ["position", "velocity", "effort"])
def test_number_that_is_not_finite_is_refused_with_field_and_joint(field: str, bad: float) -> None:
    reason, detail = one_reason(**{field: (0.0, bad, 0.0)})
    assert reason is Reason.NOT_FINITE and f"{field}[elbow]" in detail


def test_absent_velocity_is_refused_unless_the_rule_says_otherwise() -> None:
    assert one_reason(velocity=())[0] is Reason.VELOCITY_MISSING


def test_absent_velocity_is_differenced_from_the_second_sample_on() -> None:
    ingest = JointIngest(JointConfig(NAMES, missing_velocity=MissingVelocity.DIFFERENCE))
    first = ingest.ingest(reading(0, velocity=()), MS)
    second = ingest.ingest(reading(1, velocity=(), position=(0.2, 0.2, 0.0)), 11 * MS)
    assert first.rejection is not None and first.rejection.reason is Reason.VELOCITY_MISSING
    assert second.sample is not None
    np.testing.assert_allclose(second.sample.velocity, [10.0, 0.0, -30.0])


def test_velocity_is_not_differenced_across_a_drop_out() -> None:
    ingest = JointIngest(JointConfig(NAMES, missing_velocity=MissingVelocity.DIFFERENCE))
    for i in range(3):
        ingest.ingest(reading(i, velocity=()), i * 10 * MS)
    assert ingest.ingest(reading(100, velocity=()), 1001 * MS).sample is None
    assert ingest.ingest(reading(101, velocity=()), 1011 * MS).sample is not None


def test_absent_effort_is_allowed() -> None:
    assert one_reason(effort=())[0] is None


def test_stamps_are_judged_as_for_every_stream() -> None:
    ingest = JointIngest(JointConfig(NAMES))
    ingest.ingest(reading(10), 101 * MS)
    equal = ingest.ingest(reading(10), 102 * MS)
    assert equal.rejection is not None and equal.rejection.reason is Reason.EQUAL_STAMP
    assert equal.ref == SampleRef(Stream.JOINTS, 100 * MS, 1)
    assert ingest.rejected == {Reason.EQUAL_STAMP: 1}


def test_world_sample_passes_unchanged() -> None:
    sample = JointSample(SampleRef(Stream.JOINTS, 5, 8), NAMES, np.array([0.1, 0.2, 0.3]), np.array([1.0, 2.0, 3.0]))
    result = JointIngest(JointConfig(NAMES)).ingest(JointReading.of(sample), 6, sample.ref.sequence)
    assert result.sample is not None and result.sample.ref == sample.ref
    assert result.sample.position.tobytes() == sample.position.tobytes()


@pytest.mark.parametrize("names", [(), ("a", "a")])
def test_robot_without_joints_or_with_one_twice_is_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInputError, match="names"):
        JointConfig(names)


@pytest.mark.parametrize("field", ["position", "velocity", "effort"])
def test_value_that_no_joint_has_is_refused_by_name(field: str) -> None:
    reason, detail = one_reason(**{field: (0.0, -1e300, 0.0)})
    assert reason is Reason.OUT_OF_RANGE and f"{field}[elbow]" in detail


def test_difference_of_positions_beyond_all_joints_is_refused() -> None:
    ingest = JointIngest(JointConfig(NAMES, missing_velocity=MissingVelocity.DIFFERENCE))
    ingest.ingest(reading(1, velocity=()), 10 * MS)
    jumped = ingest.ingest(reading(2, velocity=(), position=(0.1, 9e5, 0.3)), 20 * MS).rejection
    assert jumped is not None and jumped.reason is Reason.OUT_OF_RANGE and "elbow" in jumped.detail
