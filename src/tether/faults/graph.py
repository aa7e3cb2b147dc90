"""A live graph in real time with the probe in it: launch/sim.launch.xml, started as `tether sim --realtime` does."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tether.assembly import profile, robot
from tether.contracts import Mode
from tether.errors import DeadlineError, TetherError
from tether.faults.audit import RecordingAudit
from tether.faults.measure import Series
from tether.faults.probe import Probe
from tether.faults.recording import Tail
from tether.faults.wire import WIRED
from tether.launch.domain import own_domain
from tether.launch.model import LaunchPlan, ParameterValue, ProcessPlan
from tether.launch.output import Line
from tether.launch.reader import read
from tether.launch.runner import Runner
from tether.resources import resource_path
from tether.robot.roles import COMMAND_JOINTS
from tether.safety.settings import load_safety
from tether.safety.token import KEY_VARIABLE, TokenSigner
from tether.world.profile import write_profile

WIRE = "/wire"
PICTURE = (160, 120)
MOVING_RAD_S = 0.15
"""Speed of the fastest joint from which the robot counts as moving."""
_EPISODES = 1_000_000
_UP_S, _MOTION_S = 120.0, 60.0
_POLL_S = 0.05
_EPISODE_OLD_NS = 700_000_000
_KEPT_NS = 60_000_000_000


class LiveGraph:
    """One life of the graph; use as a context manager. seed: of its first episode.

    series: what was measured, the last minute of it; `pump` brings it up to date.
    """

    def __init__(self, policy: str, task: str, seed: int) -> None:
        self._policy, self._task, self._seed = policy, task, seed
        self._said: list[Line] = []
        self._stack = contextlib.ExitStack()
        self.series = Series()
        settings = load_safety(resource_path("config", "safety.yaml"))
        self._claimed = self._claimed_lost = self._unclaimed = 0
        self.audit = RecordingAudit(robot(), settings, COMMAND_JOINTS)

    def __enter__(self) -> LiveGraph:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything; what was still recorded is judged. Calling it again does nothing."""
        self._stack.close()

    def pid(self, process: str) -> int:
        """Process id of a process of the graph."""
        return self._runner.processes[process].pid

    @property
    def state_folder(self) -> Path:
        """Where the gate keeps its critical state."""
        return self._folder / "state"

    def pump(self) -> None:
        """Take what has been recorded since."""
        records = list(self._tail.new())
        self.series.add(records)
        self.audit.add(records)
        self.series.forget_before(time.monotonic_ns() - _KEPT_NS)

    def run_for(self, seconds: float) -> None:
        """Let it run."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            time.sleep(min(_POLL_S, max(end_s - time.monotonic(), 0.0)))
            self.pump()

    def claim(self, since_ns: int) -> tuple[list[str], int]:
        """What the audit has found since then and nobody has claimed yet: unsafe commands, number of lost records."""
        found, lost = self.audit.findings[self._claimed :], self.audit.lost[self._claimed_lost :]
        self._claimed, self._claimed_lost = len(self.audit.findings), len(self.audit.lost)
        claimed = [one.text for one in found if one.at_ns >= since_ns]
        self._unclaimed += len(found) - len(claimed)
        return claimed, sum(one.count for one in lost)

    @property
    def unclaimed(self) -> tuple[int, int]:
        """Unsafe commands and lost records outside every injection."""
        return (
            self._unclaimed + len(self.audit.findings) - self._claimed,
            sum(one.count for one in self.audit.lost[self._claimed_lost :]),
        )

    def await_motion(self) -> None:
        """Until the robot moves in the middle of an episode. DeadlineError where it does not."""
        end_s = time.monotonic() + _MOTION_S
        while not self._moves():
            if time.monotonic() > end_s:
                last = self.series.sets[-1] if self.series.sets else None
                raise DeadlineError("the robot moves", _MOTION_S, [f"motion; the gate's last word: {last}"])
            time.sleep(0.01)
            self.pump()

    def rearm(self, latched: bool) -> None:
        """What a person does after a stop or in safe mode. Raises TetherError where the gate refuses for long."""
        reason = "fault campaign: the cause is gone"
        signer = TokenSigner(self._folder / "key")
        for call in ("reset_stop", "arm") if latched else ("arm",):
            answer = self.probe.order(call, reason=reason, token=signer.token(call, {"reason": reason}))
            if not answer["accepted"]:
                raise TetherError(f"{call}: {answer['message']}")

    def _moves(self) -> bool:
        series, now_ns = self.series, time.monotonic_ns()
        if not (series.sets and series.motion and series.episodes):
            return False
        gate, motion = series.sets[-1], series.motion[-1]
        fresh = min(gate.at_ns, motion.at_ns) > now_ns - 100_000_000
        free = gate.mode is Mode.ACTIVE and gate.scale > 0.0
        in_the_middle = now_ns - series.episodes[-1][0] > _EPISODE_OLD_NS
        return fresh and free and in_the_middle and motion.joints_rad_s > MOVING_RAD_S

    def _start(self) -> None:
        self._folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="tether-faults-")))
        recording = self._folder / "recording"
        self._tail = Tail(recording)
        domain = self._stack.enter_context(own_domain())
        env = {**os.environ, KEY_VARIABLE: str(self._folder / "key"), "TETHER_STATE": str(self._folder / "user")}
        plan = self._plan(domain)
        self._stack.callback(self._finish_audit)
        self.probe = self._stack.enter_context(Probe(recording, {**env, **plan.processes[0].env}))
        folder, sink = self._folder, self._said.append
        runner = Runner(plan, env=env, log_dir=folder, scratch=folder, sink=sink, end_on_failure=False)
        self._runner = self._stack.enter_context(runner)
        self._await_up()

    def _finish_audit(self) -> None:
        self.pump()
        self.audit.finish()

    def _plan(self, domain: int) -> LaunchPlan:
        arguments = {
            "policy": self._policy,
            "task": self._task,
            "profile": _small_pictures(self._folder),
            "mode": "realtime",
            "episodes": str(_EPISODES),
            "seed": str(self._seed),
            "record": "false",
            "rewards": "true",  # the campaign judges by what the world measures
            "domain": str(domain),
        }
        plan = read(resource_path("launch", "sim.launch.xml"), arguments)
        extra: dict[str, dict[str, bool | str]] = {
            "lifecycle_manager": {"end_on_loss": False},  # what it would end is what is measured
            "safety_supervisor": {
                "keep_state": True,
                "state_folder": str(self.state_folder),
                "dumps": str(self._folder / "dumps"),
            },
        }
        processes = tuple(_wired(process, extra.get(process.label, {})) for process in plan.processes)
        return dataclasses.replace(plan, processes=processes)

    def _await_up(self) -> None:
        end_s = time.monotonic() + _UP_S
        while not any("lifecycle_up" in line.text for line in list(self._said)):
            dead = [name for name, process in self._runner.processes.items() if not process.is_alive()]
            if dead or time.monotonic() > end_s:
                said = "\n    ".join(str(line) for line in self._said[-12:])
                raise TetherError(f"the graph did not come up within {_UP_S:g} s, ended: {dead or 'none'}\n    {said}")
            time.sleep(_POLL_S)


def _wired(process: ProcessPlan, extra: Mapping[str, bool | str]) -> ProcessPlan:
    """The process with its outlets through wires, able to raise when it is told to."""
    parameters = [*process.parameters, *(ParameterValue(name, value) for name, value in extra.items())]
    wires = WIRED.get(process.label, ())
    if wires:  # it would wait for subscribers of the real topics, which are the probe's now
        parameters = [one for one in parameters if not (isinstance(one, ParameterValue) and one.name == "peers")]
        parameters.append(ParameterValue("wait_for_match", False))
    return dataclasses.replace(
        process,
        path=Path(sys.executable),
        arguments=("-m", "tether.faults.raiser", str(process.path), *process.arguments),
        parameters=tuple(parameters),
        remaps=(*process.remaps, *((topic.name, WIRE + topic.name) for topic in wires)),
    )


def _small_pictures(folder: Path) -> str:
    """The profile `real` with small pictures, so that rendering does not take what is to be measured."""
    real = profile("real")
    camera = dataclasses.replace(real.camera, width=PICTURE[0], height=PICTURE[1])
    small = dataclasses.replace(real, name="real, small pictures", camera=camera)
    return write_profile(folder / "profile.yaml", small)
