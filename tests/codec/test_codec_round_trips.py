"""Record → message → bytes → message → record loses nothing, for every record that passes between stages."""

from __future__ import annotations

from typing import Any

import contract_strategies as cs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.codec import convert, decode, encode, sensors
from tether.contracts import Command, GateOutput


@pytest.mark.parametrize("name", sorted(cs.WAYS))
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_record_comes_back_bit_for_bit(name: str, data: st.DataObject) -> None:
    way = cs.WAYS[name]
    record = data.draw(way.records)
    assert cs.same(way.back(way.into(record)), record)
    assert cs.same(way.back(through_bytes(way.into(record))), record)


@settings(max_examples=20, deadline=None)
@given(command=st.none() | cs.commands(), tick=cs.counts, stamp_ns=cs.stamps, used=cs.some_refs)
def test_proposed_command_comes_back_bit_for_bit(command: Command | None, tick: int, stamp_ns: int, used: Any) -> None:
    msg = through_bytes(convert.proposed_message(command, 3, tick, stamp_ns, used, 11))
    back = convert.proposed_from(msg)
    assert (msg.episode, msg.tick, msg.steady_ns, convert.to_ns(msg.stamp)) == (3, tick, 11, stamp_ns)
    assert convert.refs_from(msg.used) == used
    if command is None:
        assert back is None
    else:
        assert back is not None
        assert (back.tick, back.stamp_ns) == (tick, stamp_ns)  # the tick and stamp are those of the message
        assert cs.same(
            (back.decision_id, back.source, back.joint_names, back.position, back.velocity, back.base_twist),
            (
                command.decision_id,
                command.source,
                command.joint_names,
                command.position,
                command.velocity,
                command.base_twist,
            ),
        )


@settings(max_examples=20, deadline=None)
@given(output=cs.verdicts, used=cs.some_refs)
def test_verdict_says_what_the_gate_decided(output: GateOutput, used: Any) -> None:
    msg = through_bytes(convert.verdict_message(output, 3, used, 11))
    assert msg.mode == output.mode
    assert msg.scale == output.scale
    assert list(zip(msg.checks, msg.scales.tolist(), msg.reasons, strict=True)) == [
        (v.check, v.scale, v.reason) for v in output.verdicts
    ]
    assert (msg.command_age_ns if msg.has_command else None) == output.command_age_ns
    assert (msg.episode, msg.tick, msg.decision_id) == (3, output.command.tick, output.command.decision_id)
    assert convert.refs_from(msg.used) == used


@settings(max_examples=20, deadline=None)
@given(record=cs.decisions)
def test_encoding_is_a_function_of_the_record(record: Any) -> None:
    first = encode(convert.decision_message(record, 3))
    assert encode(convert.decision_message(convert.decision_from(decode(first, DECISION)), 3)) == first


@given(stamp_ns=st.integers(-(2**31) * 1_000_000_000, (2**31 - 1) * 1_000_000_000))
def test_time_keeps_every_nanosecond_of_the_range_of_its_seconds(stamp_ns: int) -> None:
    time = convert.to_time(stamp_ns)
    assert 0 <= time.nanosec < 1_000_000_000
    assert convert.to_ns(time) == stamp_ns


DECISION = "tether_msgs/msg/Decision"


def through_bytes(msg: Any) -> Any:
    return decode(encode(msg), msg.__msgtype__)


@given(sample=cs.imu_samples)
def test_writing_into_one_message_changes_no_other(sample: Any) -> None:
    msg = sensors.imu_message(sample)
    with pytest.raises(ValueError, match="read-only"):
        msg.angular_velocity_covariance[0] = 9.0
    assert list(sensors.imu_message(sample).linear_acceleration_covariance) == [0.0] * 9
