"""The gate's inputs: judged as they come, kept in bounded memory, judged for their age at every tick."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TypeVar

from tether.contracts import (
    TICK_NS,
    Command,
    ExecutedCommand,
    ImuSample,
    JointSample,
    Mode,
    Primitive,
    Sample,
    SampleRef,
    Stream,
    Verdict,
)
from tether.safety import checks
from tether.safety.gate_model import GateModel
from tether.safety.inputs import (
    Proposal,
    ServoSample,
    is_time,
    read_command,
    read_imu,
    read_joints,
    read_servos,
)
from tether.safety.sensing import ImuWatch, RepeatWatch, StreamWatch
from tether.safety.settings import Check, Hardware

_T = TypeVar("_T")
_DECISIONS_KEPT = 16
_REASON_MAX = 200


class Inbox:
    """What has come in. No method raises, whatever it is given; memory is bounded."""

    def __init__(self, model: GateModel) -> None:
        self._model = model
        self._settings = model.settings
        self._forget_all()

    def _forget_all(self) -> None:
        """As new."""
        ages = self._settings.ages
        future_ns = round(ages.future_max_ms * 1e6)
        self._streams = {s: StreamWatch(s, ages.of(s), future_ns) for s in self._model.streams}
        self._servos: ServoSample | None = None
        self._servos_ns = 0
        self._servos_refused: Verdict | None = None
        self._primitives: dict[int, Primitive] = {}
        self._joints: tuple[float, ...] | None = None
        self._repeats = RepeatWatch(self._settings.repeats, self._model.joint_names, self._model.gripper)
        self._executed_stop: Proposal | Verdict | None = None
        self._forget_command()

    def _forget_command(self) -> None:
        """Drop the command and what the IMU remembers: after a reset only what comes anew counts."""
        self._proposal: Proposal | None = None
        self._refused: Verdict | None = None
        self._imu = ImuWatch(self._settings.imu)

    def propose(self, command: Command, received_ns: int) -> Verdict | None:
        """Take a command received at `received_ns`. Returns the verdict that refused it, or None.

        A refused command is not merely dropped: the gate stops until an acceptable one comes.
        """
        names = self._model.joint_names
        try:
            proposal = read_command(command, received_ns, names)
        except Exception as error:  # noqa: BLE001 - whatever came in becomes a verdict and a stop
            proposal = unreadable("command", error)
        if isinstance(proposal, Verdict):
            self._refused = proposal
            return proposal
        self._proposal, self._refused = proposal, None
        return None

    def on_joints(self, sample: JointSample, received_ns: int, age_ns: int | None = None) -> Verdict | None:
        """Take a joint sample. age_ns: its age when received; default received_ns - stamp (one common
        clock).
        """
        verdict, position = self._sample(
            Stream.JOINTS, sample, received_ns, age_ns, lambda: read_joints(sample, self._model.joint_names)
        )
        if position is not None:
            self._joints = position
            content = sample.position.tobytes() + sample.velocity.tobytes()
            self._repeats.add(content, dict(zip(sample.names, sample.velocity.tolist(), strict=True)), received_ns)
        return verdict

    def on_imu(self, sample: ImuSample, received_ns: int, age_ns: int | None = None) -> Verdict | None:
        """Take an IMU sample. age_ns: as in `on_joints`."""
        verdict, accel = self._sample(Stream.IMU, sample, received_ns, age_ns, lambda: read_imu(sample))
        if accel is not None:
            self._imu.add(accel, received_ns)
        return verdict

    def on_stream(self, ref: SampleRef | None, received_ns: int, age_ns: int | None = None) -> Verdict | None:
        """Note that a sample of a stream came whose content the gate does not look at (the camera)."""
        stream = ref.stream if isinstance(ref, SampleRef) else None
        if stream not in self._streams:
            return None
        return self._times(self._streams[stream], ref, received_ns, age_ns)

    def on_refused(self, stream: Stream, reason: str) -> None:
        """Note that ingest refused a sample: it counts for nothing, but says why there is silence."""
        watch = self._streams.get(stream) if isinstance(stream, Stream) else None
        if watch is not None:
            watch.why = str(reason)[:_REASON_MAX]

    def on_samples(self, samples: Iterable[Sample], received_ns: int) -> None:
        """Take what a world delivered at `received_ns` of its own time."""
        for sample in samples:
            if isinstance(sample, JointSample):
                self.on_joints(sample, received_ns)
            elif isinstance(sample, ImuSample):
                self.on_imu(sample, received_ns)
            else:
                self.on_stream(getattr(sample, "ref", None), received_ns)

    def on_servos(self, sample: ServoSample, received_ns: int) -> Verdict | None:
        """Take the servos' health."""
        try:
            result = read_servos(sample, self._model.joint_names)
            if not isinstance(result, Verdict) and not is_time(received_ns):
                result = checks.refuse(Check.MALFORMED, f"received_ns is {received_ns!r}, expected nanoseconds")
        except Exception as error:  # noqa: BLE001 - whatever came in becomes a verdict and a stop
            result = unreadable("servo sample", error)
        if isinstance(result, Verdict):
            self._servos_refused = result
            return result
        self._servos, self._servos_ns, self._servos_refused = result, received_ns, None
        return None

    def on_executed(self, executed: ExecutedCommand) -> None:
        """Take what was really applied. After a stop by the driver's watchdog the gate goes on from there."""
        try:
            if executed.watchdog_stop:
                # The standard messages do not carry the decision a command goes back to; here it does not matter.
                command = dataclasses.replace(executed.command, decision_id=0)
                self._executed_stop = read_command(command, 0, self._model.joint_names)
        except Exception as error:  # noqa: BLE001 - whatever came in becomes a verdict and a stop
            self._executed_stop = unreadable("executed command", error)

    def on_decision(self, decision_id: int, primitive: Primitive) -> None:
        """Learn which primitive the commands of a decision belong to (the last 16 decisions are kept)."""
        if is_time(decision_id) and isinstance(primitive, Primitive):
            self._primitives[decision_id] = primitive
            while len(self._primitives) > _DECISIONS_KEPT:
                del self._primitives[next(iter(self._primitives))]

    def _judge_sensors(self, now_ns: int) -> list[Verdict]:
        """Verdicts below 1 on everything that was sensed."""
        verdicts: list[Verdict] = []
        model = self._model
        for watch in self._streams.values():
            verdicts += watch.judge(now_ns, model.check_silence, model.check_stamps)
        if Stream.IMU in self._streams:
            for check, verdict in self._imu.take():
                if not verdict.scale >= 1.0 and self._settings.checks(check):
                    verdicts.append(verdict)
        if model.servo_hardware:
            verdicts += self._judge_servos(now_ns)
        return verdicts

    def _judge_servos(self, now_ns: int) -> list[Verdict]:
        if self._servos_refused is not None:
            return [self._servos_refused]
        limits, servos = self._settings.servos, self._servos
        if servos is None:
            return [checks.refuse(Check.SENSOR_SILENCE, "servos: no sample has come")]
        if now_ns - self._servos_ns > limits.silence_max_ms * 1e6:
            silent_ms = (now_ns - self._servos_ns) * 1e-6
            text = f"servos: nothing for {silent_ms:.1f} ms, limit {limits.silence_max_ms:g} ms"
            return [checks.refuse(Check.SENSOR_SILENCE, text)]
        verdicts = []
        for hardware, values, judge in (
            (Hardware.SERVO_TEMPERATURE, servos.temperature_c, checks.servo_temperature),
            (Hardware.SERVO_CURRENT, servos.current_a, checks.servo_current),
            (Hardware.SERVO_VOLTAGE, servos.voltage_v, checks.servo_voltage),
        ):
            if hardware not in self._model.servo_hardware:
                continue
            if values is None:
                text = f"{hardware.value} is fitted but was not told"
                verdicts.append(checks.refuse(Check.MALFORMED, text))
            else:
                verdicts.append(judge(servos.names, values, limits))
        if Hardware.GRIPPER_EFFORT in self._model.servo_hardware and servos.effort is None:
            verdicts.append(checks.refuse(Check.MALFORMED, "gripper_effort is fitted but was not told"))
        return [v for v in verdicts if not v.scale >= 1.0]

    def _judge_grip(self) -> list[Verdict]:
        """A verdict if the gripper may not close further; it restricts that one joint only."""
        fitted = Hardware.GRIPPER_EFFORT in self._model.servo_hardware
        if not fitted or self._servos is None or self._servos.effort is None:
            return []
        verdict = checks.gripper_effort(self._servos.effort[self._model.gripper], self._settings.gripper)
        return [] if verdict.scale >= 1.0 else [verdict]

    def _judge_command(self, now_ns: int, age_ns: int | None, mode: Mode) -> list[Verdict]:
        """Verdicts below 1 on the command as it stands; mode: whose rules it has to keep."""
        if self._refused is not None:
            return [self._refused]
        verdict = checks.command_age(age_ns, self._model.command_max_ns)
        verdicts = [] if verdict.scale >= 1.0 else [verdict]
        proposal = self._proposal
        if proposal is None:
            return verdicts
        if proposal.received_ns > now_ns + TICK_NS:
            ahead_ms = (proposal.received_ns - now_ns) * 1e-6
            verdicts.append(checks.refuse(Check.CLOCK, f"command was received {ahead_ms:.1f} ms in the future"))
        rules = self._settings.modes.of(mode)
        if rules is not None:
            by_source = checks.source(proposal.source, mode, rules)
            by_primitive = checks.primitive(self._primitives.get(proposal.decision_id), mode, rules)
            verdicts += [v for v in (by_source, by_primitive) if not v.scale >= 1.0]
        return verdicts

    def _sample(
        self,
        stream: Stream,
        sample: JointSample | ImuSample,
        received_ns: int,
        age_ns: int | None,
        read: Callable[[], _T | Verdict],
    ) -> tuple[Verdict | None, _T | None]:
        """Judge a sample's content, then its times. Returns (verdict, None) or (None, content)."""
        watch = self._streams.get(stream)
        if watch is None:
            return None, None
        content: _T | Verdict
        try:
            content = read()
        except Exception as error:  # noqa: BLE001 - whatever came in becomes a verdict and a stop
            content = unreadable(f"{stream.value} sample", error)
        if isinstance(content, Verdict):
            watch.bad(content)
            return content, None
        verdict = self._times(watch, sample.ref, received_ns, age_ns)
        return (verdict, None) if verdict is not None else (None, content)

    def _times(self, watch: StreamWatch, ref: object, received_ns: int, age_ns: int | None) -> Verdict | None:
        stamp_ns = ref.stamp_ns if isinstance(ref, SampleRef) else -1
        given = 0 if age_ns is None else age_ns
        timed = is_time(received_ns) and is_time(stamp_ns)
        if not (timed and isinstance(given, int) and abs(given) < 1 << 63):
            text = f"{watch.stream.value}: received {received_ns!r}, stamp {stamp_ns!r}, age {age_ns!r}"
            verdict = checks.refuse(Check.MALFORMED, f"{text}: expected integer nanoseconds")
            watch.bad(verdict)
            return verdict
        return watch.seen(received_ns, received_ns - stamp_ns if age_ns is None else age_ns)

    def _inbox_state(self) -> tuple[object, ...]:
        """Everything here that future verdicts depend on; its repr is exact."""
        watches = self._streams.values()
        streams = tuple((w.stream.value, w.received_ns, w.origin_ns, w.refused, w.why) for w in watches)
        servos = (self._servos, self._servos_ns, self._servos_refused)
        rest = (self._executed_stop, tuple(self._primitives.items()))
        sensed = (self._joints, self._repeats.state(), streams, self._imu.state(), servos)
        return (self._proposal, self._refused, sensed, rest)


def unreadable(what: str, error: Exception, check: Check = Check.MALFORMED) -> Verdict:
    """The verdict on something that broke the code that looked at it."""
    return checks.refuse(check, f"{what}: {type(error).__name__}: {error}"[:300])
