"""The safety gate between every policy and every motor: a pure core, ticked at 100 Hz, input or no input.

Inputs arrive through `propose`, `on_joints`, `on_imu`, `on_stream`, `on_servos`, `on_executed`, `on_decision`
and `on_event`; they are judged and kept, and never raise, whatever they hold. `tick` answers each time with a
command that keeps every limit: the asked one, as much of it as is admissible, or a controlled stop. Only one
time enters: the steady clock of the caller (the world's time in lockstep).
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections import deque
from collections.abc import Sequence

import numpy as np

from tether.contracts import TICK_NS, Command, GateOutput, Mode, Source, Stream, Verdict
from tether.errors import Fault, InvalidInputError
from tether.safety import checks, machine
from tether.safety.gate_model import GateModel
from tether.safety.inbox import Inbox, unreadable
from tether.safety.inputs import Proposal, is_time
from tether.safety.machine import Change, Event
from tether.safety.motion import ArmMotion, BaseMotion
from tether.safety.settings import Check, SafetySettings

_LOG = logging.getLogger(__name__)
_CHANGES_KEPT = 256
_REASON_MAX = 300
_EARLY_NS = TICK_NS // 10
"""How much earlier than 10 ms after the one before a tick may come and still move the set-points."""
_ANCHORING = frozenset({Check.ANCHOR.value, Check.WATCHDOG.value})
_MEASURED_MAX_NS = 50_000_000
"""Age up to which a joint sample says where the joints are now."""
_LATCHING = frozenset({Check.TILT.value, Check.SHOCK.value, Check.FREE_FALL.value})


class Supervisor(Inbox):
    """The gate. One instance per robot; `restart` makes it as new (a new episode).

    model: limits, kinematics and settings, from `GateModel.build`. Memory is bounded. Same inputs, same
    outputs, bit for bit. Not thread-safe: one thread calls it. Before the first joint sample it knows of no
    set-point that would mean "stay": its command then has no joints (joint_names is empty) and must not reach
    the motors.
    """

    def __init__(self, model: GateModel) -> None:
        super().__init__(model)
        self._announce()
        self.restart()

    def restart(self) -> None:
        """Forget everything, as a new process would: mode INIT, no set-points, no inputs."""
        self._forget_all()
        self._arm = ArmMotion(self._model.axes, self._model.workspace, self._model.gripper)
        self._base = BaseMotion(self._settings.base)
        self._mode = Mode.INIT
        self._last_ns: int | None = None
        self._credit_ns = 0
        self._arming: str | None = None
        self._arming_until_ns: int | None = None
        self._stop_reason = ""
        self._changes: deque[Change] = deque(maxlen=_CHANGES_KEPT)

    @property
    def settings(self) -> SafetySettings:
        """What the gate was built with."""
        return self._settings

    @property
    def mode(self) -> Mode:
        """The present mode."""
        return self._mode

    def changes(self) -> list[Change]:
        """Changes of mode since the last call (the newest 256)."""
        out = list(self._changes)
        self._changes.clear()
        return out

    # Requests of people and of other parts: these raise on bad use, and then change nothing.

    def arm(self, reason: str) -> None:
        """Ask to arm. Takes effect once the self-check passes, or lapses after arm_wait_max_ms.

        Raises InvalidInputError without a reason, or in a mode that cannot be armed (only INIT and SAFE can).
        """
        faults = _reason_faults(reason)
        if machine.target(self._mode, Event.ARM) is None:
            faults.append(Fault("mode", self._mode.name, "INIT or SAFE"))
        if faults:
            raise InvalidInputError("arm", faults, "say why; a latched stop needs reset_stop first")
        self._arming, self._arming_until_ns = _short(reason), None
        self._repeats.restart()

    def reset_stop(self, reason: str) -> None:
        """Leave a latched stop for INIT. Arming is a second, separate step.

        Raises InvalidInputError without a reason, in another mode, or while set-points still move.
        """
        faults = _reason_faults(reason)
        if self._mode is not Mode.STOP:
            faults.append(Fault("mode", self._mode.name, "STOP"))
        if not (self._arm.standstill() and self._base.standstill()):
            faults.append(Fault("set-points", "still braking", "standstill"))
        if faults:
            raise InvalidInputError("reset_stop", faults, "wait for standstill and say why the cause is gone")
        self._change(Event.RESET, _short(reason))
        self._stop_reason = ""
        self._last_ns, self._credit_ns = None, 0
        self._arming = None
        self._forget_command()

    def emergency_stop(self, reason: str) -> None:
        """Stop now and latch. Works with any reason, even none: nobody is refused a stop."""
        self._latch((_short(reason) if isinstance(reason, str) else "") or "emergency stop")

    def on_event(self, event: Event, reason: str) -> bool:
        """Take a request: DEGRADE, SLOW, RESTORE, SAFE, DISARM or STOP. True if the mode changed.

        Events that need more than a request (ARM, RESET) or that the gate makes itself do nothing.
        """
        if event is Event.STOP:
            self.emergency_stop(reason)
            return True
        if not isinstance(event, Event) or event in machine.AUTOMATIC or event in (Event.ARM, Event.RESET):
            return False
        return self._change(event, reason if isinstance(reason, str) else "")

    # The tick.

    def tick(self, now_ns: int, others: Sequence[Verdict] = ()) -> GateOutput:
        """The command for this tick and why. Never raises; a fault inside the gate is a latched stop.

        others: what guards around the gate found, each below 1.
        """
        try:
            return self._tick(now_ns, others)
        except Exception as error:  # noqa: BLE001 - the gate answers whatever happens, and with a stop
            _LOG.critical("gate: fault inside the tick", exc_info=True)
            verdict = unreadable("tick", error, Check.INTERNAL)
            self._latch(verdict.reason)
            self._stop_after_fault()
            return self._output([verdict], None, False)

    def _tick(self, now_ns: int, others: Sequence[Verdict]) -> GateOutput:
        advance, verdicts = self._clock(now_ns)
        now_ns = self._last_ns or 0
        verdicts += self._resume()
        sensors = [*self._judge_sensors(now_ns), *self._judge_repeats()]
        for verdict in sensors:
            if verdict.check in _LATCHING and not verdict.scale > 0.0:
                self._latch(verdict.reason)
        verdicts += self._try_arm(now_ns, sensors)
        command_age_ns = None if self._proposal is None else max(now_ns - self._proposal.received_ns, 0)
        # ARMED becomes ACTIVE at this very tick if all is well, so ACTIVE's rules hold there.
        mode = Mode.ACTIVE if self._mode is Mode.ARMED else self._mode
        verdicts += sensors
        verdicts += others
        verdicts += self._judge_command(now_ns, command_age_ns, mode)
        verdicts += self._judge_mode(verdicts)
        share = self._share(verdicts)
        moves = advance and share > 0.0 and self._proposal is not None and bool(self._arm.states)
        if moves and self._proposal is not None:
            verdicts += self._move(self._proposal, share)
        elif any(verdict.check in _ANCHORING for verdict in verdicts):
            self._base.stop()
        elif advance:
            self._arm.stop(self._measured(now_ns))
            self._base.stop()
        else:
            verdicts.append(checks.refuse(Check.EARLY_TICK, "set-points repeated"))
        return self._output(verdicts, command_age_ns, moves)

    def _move(self, proposal: Proposal, share: float) -> list[Verdict]:
        """One tick towards the proposal; the verdicts that restricted it."""
        grip = self._judge_grip()
        arm = self._arm.advance(proposal.position, proposal.velocity, share, not grip)
        return [*grip, *arm, *self._base.advance(proposal.twist, share)]

    def _judge_repeats(self) -> list[Verdict]:
        """A verdict if joint states stay the same while the arm is told to move."""
        if not self._settings.checks(Check.SENSOR_REPEATS):
            return []
        verdict = self._repeats.judge([state[0] for state in self._arm.states])
        return [] if verdict is None else [verdict]

    def _measured(self, now_ns: int) -> tuple[float, ...] | None:
        """Where the joints are, if that is known well enough to hold them there."""
        watch = self._streams[Stream.JOINTS]
        fresh = watch.origin_ns is not None and now_ns - watch.origin_ns <= _MEASURED_MAX_NS
        return self._joints if fresh and watch.refused is None and not self._repeats.dead else None

    def _stop_after_fault(self) -> None:
        try:
            self._arm.brake()
            self._base.stop()
        except Exception:  # noqa: BLE001 - then the last set-points are held, which is a stop too
            _LOG.critical("gate: cannot brake; holding", exc_info=True)

    def _clock(self, now_ns: int) -> tuple[bool, list[Verdict]]:
        """Take the time. True if the set-points may move at this tick; a clock going back is a stop."""
        if not is_time(now_ns) or (self._last_ns is not None and now_ns < self._last_ns):
            text = f"steady clock reads {now_ns!r} after {self._last_ns}: expected integer ns, never less"
            self._latch(text)
            return True, [checks.refuse(Check.CLOCK, text)]
        elapsed_ns = TICK_NS if self._last_ns is None else now_ns - self._last_ns
        self._last_ns = now_ns
        verdicts: list[Verdict] = []
        if elapsed_ns > self._settings.ages.tick_gap_max_ms * 1e6:
            limit = self._settings.ages.tick_gap_max_ms
            text = f"{elapsed_ns * 1e-6:.1f} ms since the last tick, limit {limit:g} ms"
            verdicts.append(checks.refuse(Check.TICK_GAP, text))
            if self._arm.states:
                self._arm.settle()
        # The time base of the limits is the tick: a pause is not saved up, early ticks move nothing faster.
        self._credit_ns = min(self._credit_ns + elapsed_ns, 2 * TICK_NS)
        if self._credit_ns < TICK_NS - _EARLY_NS:
            return False, verdicts
        self._credit_ns -= TICK_NS
        return True, verdicts

    def _resume(self) -> list[Verdict]:
        """Find the set-points: where the joints are at first, later where the driver's watchdog put them."""
        executed, self._executed_stop = self._executed_stop, None
        if not self._arm.states and self._joints is not None:
            self._arm.anchor(self._joints)
            return [checks.refuse(Check.ANCHOR, "set-points start where the joints are")]
        if executed is None:
            return []
        if isinstance(executed, Verdict):
            return [executed]
        before = [state[0] for state in self._arm.states]
        self._arm.anchor(executed.position)
        self._repeats.shift(before, [state[0] for state in self._arm.states])
        self._base.anchor(executed.twist)
        return [checks.refuse(Check.WATCHDOG, "the driver's own watchdog stopped the robot")]

    def _try_arm(self, now_ns: int, sensors: list[Verdict]) -> list[Verdict]:
        """Arm if asked to and the self-check passes: joints known, set-points still, sensors good."""
        if self._arming is None:
            return []
        if self._arming_until_ns is None:
            self._arming_until_ns = now_ns + round(self._settings.ages.arm_wait_max_ms * 1e6)
        blocking = checks.most_restrictive(sensors)
        still = self._arm.standstill() and self._base.standstill()
        if self._joints is not None and still and (blocking is None or blocking.scale > 0.0):
            was_init = self._mode is Mode.INIT
            self._change(Event.ARM, self._arming)
            self._arming = None
            if was_init:
                # Between stop and arming the joints may have been moved by hand: hold them where they are.
                self._repeats.restart()
                self._arm.anchor(self._joints)
                return [checks.refuse(Check.ANCHOR, "set-points start where the joints are")]
        elif now_ns > self._arming_until_ns:
            why = "no joint sample" if blocking is None else blocking.reason
            _LOG.warning("gate: arming lapsed: %s", why)
            self._arming = None
        return []

    def _judge_mode(self, verdicts: list[Verdict]) -> list[Verdict]:
        """Let the mode follow what the checks said, and say what the mode lets pass."""
        limit = checks.most_restrictive(verdicts)
        flows = limit is None or limit.scale > 0.0
        self._change(Event.FLOW if flows else Event.HOLD, "" if limit is None else f"{limit.check}: {limit.reason}")
        if self._settings.modes.of(self._mode) is not None:
            return []
        why = {Mode.STOP: f"latched stop: {self._stop_reason}", Mode.INIT: "not armed"}.get(self._mode, "holding")
        if self._arming is not None and self._mode is Mode.INIT:
            why = f"arming ({self._arming}): waits for its self-check"
        return [checks.refuse(Check.MODE, why)]

    def _share(self, verdicts: list[Verdict]) -> float:
        """Share of full speed at this tick: the smaller of what checks and mode allow."""
        rules = self._settings.modes.of(self._mode)
        if rules is None:
            return 0.0
        limit = checks.most_restrictive(verdicts)
        return rules.speed_share if limit is None else min(rules.speed_share, max(limit.scale, 0.0))

    def _change(self, event: Event, reason: str) -> bool:
        target = machine.target(self._mode, event)
        if target is None:
            return False
        change = Change(self._last_ns or 0, self._mode, event, target, reason)
        self._changes.append(change)
        self._mode = target
        return True

    def _latch(self, reason: str) -> None:
        if self._change(Event.STOP, reason):
            self._stop_reason = reason
            _LOG.error("gate: latched stop: %s", reason)
        self._arming = None

    def _output(self, verdicts: list[Verdict], command_age_ns: int | None, moved: bool) -> GateOutput:
        now_ns = self._last_ns or 0
        limit = checks.most_restrictive(verdicts)
        proposal, states = self._proposal, self._arm.states
        command = Command(
            tick=now_ns // TICK_NS,
            stamp_ns=now_ns,
            decision_id=0 if proposal is None else proposal.decision_id,
            source=Source.FALLBACK if proposal is None or not moved else proposal.source,
            joint_names=self._model.joint_names if states else (),
            position=np.array([state[0] for state in states]),
            velocity=np.array(self._arm.feed_forward),
            base_twist=np.array(self._base.twist),
        )
        scale = 1.0 if limit is None else limit.scale
        return GateOutput(command, self._mode, scale, tuple(verdicts), command_age_ns)

    def _announce(self) -> None:
        """Say loudly what this gate does not watch."""
        lacking = ", ".join(h.value for h in self._settings.not_fitted)
        disabled = ", ".join(c.value for c in self._settings.disabled_checks)
        if lacking:
            _say_once(f"gate: NOT FITTED, and so not watched: {lacking}")
        if disabled:
            _say_once(f"gate: CHECKS DISABLED by safety settings: {disabled}")

    def state_hash(self) -> str:
        """Hex digest of everything that future outputs depend on besides settings and future inputs."""
        motion = (*self._arm.state(), self._base.twist)
        clock = (self._last_ns, self._credit_ns, self._arming_until_ns)
        mode = (self._mode, self._arming, self._stop_reason)
        # repr of a float is exact: it reads back as the same bits.
        return hashlib.sha256(repr((motion, clock, mode, self._inbox_state())).encode()).hexdigest()


def _short(reason: str) -> str:
    """A reason as it is kept, in events and verdicts of every tick: nobody fills them with a book."""
    return reason.strip()[:_REASON_MAX]


def _reason_faults(reason: str) -> list[Fault]:
    if isinstance(reason, str) and reason.strip():
        return []
    return [Fault("reason", repr(reason), "a text that says why")]


@functools.cache
def _say_once(text: str) -> None:
    """Warn; once in a process, however many gates it makes."""
    _LOG.warning("%s", text)
