"""All servos on one bus: taken up, judged, isolated, lost and found again."""

from __future__ import annotations

import pytest

from tether.assembly import robot
from tether.errors import InvalidInputError
from tether.hardware.calibration import load_calibration, write_calibration
from tether.hardware.feetech import Register
from tether.hardware.servo import ServoState
from tether.hardware.servos import within_speed
from tether.hardware.settings import load_robot_settings
from tether.robot.roles import COMMAND_JOINTS, WHEEL_JOINTS

ZERO = [0.0] * len(COMMAND_JOINTS)


def test_torque_comes_on_with_the_goal_at_where_each_servo_stands(rig):
    rig.emulator.servos[2].set(Register.PRESENT_POSITION, 2200)
    reading = rig.cycle()
    assert reading is not None
    assert rig.servos.ready
    assert rig.emulator.servos[2].get(Register.GOAL_POSITION) == 2200
    assert all(servo.torque for servo in rig.emulator.servos.values())
    assert reading.position[1] == pytest.approx((2200 - 2048) * 2 * 3.14159265 / 4096, abs=1e-6)


def test_goals_are_steps_of_the_calibration(rig):
    rig.cycle()
    rig.cycle([0.5, 0.0, 0.0, 0.0, 0.0, 0.010], (1.0, 0.0, -1.0))
    servos = rig.emulator.servos
    assert servos[1].get(Register.GOAL_POSITION) == 2048 + 326
    assert servos[6].get(Register.GOAL_POSITION) == 256 + 1304
    assert servos[7].get(Register.GOAL_VELOCITY) == 652
    assert servos[9].get(Register.GOAL_VELOCITY) == -652


def test_a_reading_one_turn_on_is_refused_and_no_old_one_given_instead(rig):
    assert rig.cycle() is not None
    rig.emulator.faults.wrapped.add(3)
    assert rig.cycle() is None
    assert "servo_reading_refused" in rig.kinds()
    rig.emulator.faults.wrapped.clear()
    assert rig.cycle() is not None


def test_a_jump_faster_than_the_servo_is_refused_and_isolates_it_when_it_stays(rig):
    rig.cycle()
    rig.emulator.servos[1].set(Register.PRESENT_POSITION, 2048 + 1200)
    refused = 0
    for _ in range(40):
        refused += rig.cycle() is None
        if rig.servos.states["shoulder_pan"] is ServoState.IMPLAUSIBLE:
            break
    assert refused >= 20
    assert not rig.servos.ready
    assert rig.servos.states["elbow_flex"] is ServoState.OK


def test_an_overloaded_servo_is_left_alone_until_its_power_was_cut(rig):
    rig.cycle()
    rig.emulator.servos[3].overload()
    rig.cycle()
    notices = rig.notices.take()
    (fault,) = [notice for notice in notices if notice.kind == "servo_faulted"]
    assert "servo 3 (elbow_flex): reports overload" in fault.text
    assert "cut the servos' power" in fault.text
    rig.cycle([0.3, 0.0, 0.3, 0.0, 0.0, 0.0])
    assert rig.emulator.servos[3].get(Register.GOAL_POSITION) == 1024
    assert rig.emulator.servos[1].get(Register.GOAL_POSITION) == 2048 + 196
    for _ in range(30):
        rig.cycle()
    assert not rig.emulator.servos[3].torque
    with rig.emulator.lock:
        rig.emulator.servos[3].power_cycle()
    rig.until_ready()
    assert "servo_back" in rig.kinds()


def test_a_silent_servo_means_no_joint_state_and_is_taken_up_when_it_answers(rig):
    rig.cycle()
    patient_s, rig.servos._bus._margin_s = rig.servos._bus._margin_s, 0.05
    rig.emulator.faults.silent.add(2)
    assert all(rig.cycle() is None for _ in range(12))
    assert rig.servos.states["shoulder_lift"] is ServoState.SILENT
    rig.emulator.faults.silent.clear()
    rig.servos._bus._margin_s = patient_s
    rig.until_ready()
    assert rig.cycle() is not None


def test_a_servo_whose_replies_were_lost_while_it_was_set_up_is_asked_again(rig):
    """Its torque may be on already: that it did not say so is no fault that lasts."""
    rig.be_impatient()
    rig.emulator.faults.lose = {(7, Register.TORQUE_ENABLE): 3}
    rig.until_ready()
    kinds = rig.kinds()
    assert kinds.index("servo_silent") < kinds.index("servo_back")
    assert "servo_faulted" not in kinds


def test_one_lost_reply_while_a_servo_is_set_up_costs_nothing(rig):
    rig.be_impatient()
    rig.emulator.faults.lose = {(1, Register.MODEL): 1, (2, Register.TORQUE_ENABLE): 2}
    rig.cycle()
    assert rig.servos.ready


def test_a_servo_that_is_back_is_found_beside_one_that_stays_silent(rig):
    rig.cycle()
    rig.servos._bus._margin_s = 0.05
    rig.emulator.faults.silent |= {2, 5}
    while ServoState.SILENT not in (rig.servos.states["shoulder_lift"], rig.servos.states["wrist_roll"]):
        rig.cycle()
    for back, name in ((5, "wrist_roll"), (2, "shoulder_lift")):
        rig.emulator.faults.silent ^= {back}
        for _ in range(400):
            rig.cycle()
            if rig.servos.states[name] is ServoState.OK:
                break
        assert rig.servos.states[name] is ServoState.OK, rig.servos.states
        rig.emulator.faults.silent |= {2, 5} - {back}


def test_a_bus_that_was_unplugged_is_found_again(rig):
    rig.cycle([0.2, 0.0, 0.0, 0.0, 0.0, 0.0])
    before = rig.servos.taken_up
    rig.emulator.unplug()
    assert rig.cycle() is None
    assert not rig.servos.connected
    rig.emulator.plug()
    rig.until_ready()
    assert rig.cycle() is not None
    assert rig.servos.taken_up == before + 9
    assert {"servo_bus_lost", "servo_bus_ready"} <= set(rig.kinds())


def test_a_wheel_that_cannot_be_heard_is_told_to_stop_all_the_same(rig):
    rig.cycle()
    rig.cycle(ZERO, (2.0, 2.0, 2.0))
    turning = rig.emulator.servos[8].get(Register.GOAL_VELOCITY)
    rig.servos._bus._margin_s = 0.05
    rig.emulator.faults.mute.add(8)
    while rig.servos.states[WHEEL_JOINTS[1]] is ServoState.OK:
        rig.cycle(ZERO, (2.0, 2.0, 2.0))
    assert rig.emulator.servos[8].get(Register.GOAL_VELOCITY) == turning
    rig.cycle()
    assert rig.emulator.servos[8].get(Register.GOAL_VELOCITY) == 0


def test_a_bus_that_comes_back_stops_the_wheels_first_also_where_a_servo_is_missing(rig):
    rig.be_impatient(0.05)
    rig.cycle()
    rig.emulator.unplug()
    assert rig.cycle() is None
    rig.emulator.servos[7].set(Register.GOAL_VELOCITY, 300)
    rig.emulator.faults.silent.add(2)
    rig.emulator.plug()
    for _ in range(400):
        rig.cycle()
        if rig.emulator.servos[7].get(Register.GOAL_VELOCITY) == 0:
            break
    assert rig.emulator.servos[7].get(Register.GOAL_VELOCITY) == 0
    assert not rig.servos.connected


def test_closing_stops_the_wheels_and_holds_the_arm(rig):
    rig.cycle()
    rig.cycle(ZERO, (2.0, 2.0, 2.0))
    rig.servos.close()
    assert [rig.emulator.servos[i].torque for i in range(1, 10)] == [True] * 6 + [False] * 3
    assert rig.emulator.servos[8].get(Register.GOAL_VELOCITY) == 0


def test_wheels_beyond_their_speed_are_slowed_together():
    assert within_speed([6.0, -3.0, 0.0], 4.5) == [4.5, -2.25, 0.0]
    assert within_speed([1.0, 1.0, 1.0], 4.5) == [1.0, 1.0, 1.0]


def test_health_has_temperature_voltage_current_and_load(rig):
    rig.emulator.servos[5].set(Register.PRESENT_TEMPERATURE, 61)
    rig.emulator.servos[5].set(Register.PRESENT_LOAD, -250)
    rig.cycle()
    health = {one.name: one for one in rig.servos.health}
    assert health["wrist_roll"].temperature_c == 61.0
    assert health["wrist_roll"].load_share == pytest.approx(-0.25)
    assert health["gripper"].voltage_v == pytest.approx(12.0)


def test_a_calibration_that_was_changed_by_hand_is_refused(tmp_path):
    calibration = load_calibration(load_robot_settings("emulated").calibration)
    path = tmp_path / "robot.yaml"
    write_calibration(path, calibration)
    assert load_calibration(path).digest == calibration.digest
    path.write_text(path.read_text().replace("zero_step: 1024", "zero_step: 1025"))
    with pytest.raises(InvalidInputError, match="the hash of the content"):
        load_calibration(path)


def test_the_calibration_reaches_every_limit_of_every_joint_within_one_turn():
    calibration = load_calibration(load_robot_settings("tether_rover").calibration)
    for name in COMMAND_JOINTS:
        limits = robot().limits(name)
        for value in (limits.lower, limits.upper):
            assert 0 <= calibration.servos[name].to_steps(value) < 4096, name
