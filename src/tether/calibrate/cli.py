"""`tether calibrate` and `tether latency`."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tether.arguments import not_negative
from tether.config import plain
from tether.errors import Fault, InvalidInputError
from tether.results import header, write_json

if TYPE_CHECKING:
    from tether.calibrate.bench import Bench, Operator
    from tether.calibrate.measured import Delays
    from tether.hardware.calibration import RobotCalibration
    from tether.hardware.settings import RobotSettings
    from tether.world.profile import Profile

STEPS = ("zero", "rest", "delays", "camera", "mounting")


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "calibrate",
        help="measure one robot: servo zeros, IMU, delays, camera; writes its calibration and profile",
        description="Writes OUT/<robot>.calibration.yaml (with its hash) and OUT/<robot>.profile.yaml, a profile like "
        "config/profiles/real.yaml with what was measured in place of what was assumed; OUT/calibrate.json has every "
        "figure. Steps that were done before, in the same OUT, are kept. docs/calibration.md says how each is done.",
    )
    parser.add_argument(
        "steps", nargs="+", choices=(*STEPS, "board"), metavar="STEP", help=f"{', '.join(STEPS)}; board"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the files go")
    parser.add_argument("--pose", default="pick", metavar="TASK", help="zero: task in whose start pose the arm stands")
    parser.add_argument("--views-s", type=float, default=60.0, metavar="S", help="camera: time to show the board")
    _common(parser)
    parser.set_defaults(run=run)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--robot", default="emulated", help="name or file of the robot (default: %(default)s)")
    parser.add_argument(
        "--profile", default="real", help="template, and what an emulated robot is (default: %(default)s)"
    )
    parser.add_argument("--task", default="pick", help="emulated: what stands around (default: %(default)s)")
    parser.add_argument("--seed", type=not_negative, default=0, metavar="S", help="emulated: which robot it is")
    parser.add_argument("--joint", default="shoulder_pan", help="delays: joint that is wiggled (default: %(default)s)")
    parser.add_argument("--amplitude-rad", type=float, default=0.08, metavar="A", help="default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="S", help="delays: how long (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Calibrate. 0 when every step was done; what was done before one failed is written."""
    from tether.assembly import profile
    from tether.calibrate.bench import Operator
    from tether.calibrate.stand import stand
    from tether.hardware.calibration import load_calibration
    from tether.hardware.settings import load_robot_settings

    a = arguments
    _check(a)
    a.out.mkdir(parents=True, exist_ok=True)
    settings = load_robot_settings(a.robot)
    files = Files(a.out, settings.name)
    calibration = files.calibration() or load_calibration(settings.calibration)
    measured = files.profile() or dataclasses.replace(profile(a.profile), name=f"{settings.name}_measured")
    for step in a.steps:
        if step == "board":
            _write_board(a.out / "board.svg")
        elif step == "zero":
            calibration = _zero(a, settings, calibration)
            files.keep(calibration, measured, {"zero_steps": {n: s.zero_step for n, s in calibration.servos.items()}})
        else:
            with stand(settings, a.robot, a.task, a.profile, a.seed, calibration) as bench:
                operator = Operator(bench)
                operator.get_ready()
                calibration, measured, figures = _step(step, a, settings, bench, operator, calibration, measured)
            files.keep(calibration, measured, {step: figures})
    return 0


def _step(
    step: str,
    a: argparse.Namespace,
    settings: RobotSettings,
    bench: Bench,
    operator: Operator,
    calibration: RobotCalibration,
    profile: Profile,
) -> tuple[RobotCalibration, Profile, Any]:
    from tether.calibrate import measured as m

    if step == "rest":
        rest = m.at_rest(operator, calibration)
        return dataclasses.replace(calibration, imu=rest.imu), m.with_rest(profile, rest), dataclasses.asdict(rest)
    if step == "delays":
        late = m.delays(bench, operator, a.joint, a.amplitude_rad, a.seconds, settings.camera.rate_hz)
        return calibration, m.with_delays(profile, late), dataclasses.asdict(late)
    from tether.calibrate import views  # needs OpenCV

    if step == "camera":
        lens = views.measure_lens(bench, operator, a.views_s)
        optics = dataclasses.replace(profile.camera, fovy_rad=views.fovy_rad(lens.camera))
        result = dataclasses.replace(calibration, camera=lens.camera), dataclasses.replace(profile, camera=optics)
        return *result, dataclasses.asdict(lens)
    place = views.measure_mounting(bench, operator, calibration.camera)
    return calibration, profile, views.mounting_figures(place)


class Files:
    """What a calibration leaves in its folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        self._calibration, self._profile = folder / f"{name}.calibration.yaml", folder / f"{name}.profile.yaml"
        self._figures = folder / "calibrate.json"
        self._result: dict[str, Any] = {**header("calibrate", 0), "robot": name}

    def calibration(self) -> RobotCalibration | None:
        """That of earlier steps."""
        from tether.hardware.calibration import load_calibration

        return load_calibration(self._calibration) if self._calibration.exists() else None

    def profile(self) -> Profile | None:
        """That of earlier steps."""
        from tether.world.profile import load_profile

        return load_profile(self._profile) if self._profile.exists() else None

    def keep(self, calibration: RobotCalibration, profile: Profile, figures: dict[str, Any]) -> None:
        """Write all three files, and read back what a robot will read."""
        from tether.hardware.calibration import write_calibration
        from tether.world.profile import load_profile, write_profile

        done = time.strftime("%Y-%m-%d", time.gmtime())
        calibration = dataclasses.replace(calibration, robot=self._name, measured=f"tether calibrate, {done}")
        write_calibration(self._calibration, calibration)
        profile = dataclasses.replace(profile, doc=f"Measured on the robot {self._name}, {done}; see calibrate.json.")
        write_profile(self._profile, profile, durable=True)
        self._result |= plain(figures)
        write_json(self._figures, self._result)
        load_profile(self._profile)
        sys.stdout.write(yaml.safe_dump(plain(figures), sort_keys=False))


def _check(a: argparse.Namespace) -> None:
    from tether.robot.roles import ARM_JOINTS

    faults = []
    if a.joint not in ARM_JOINTS:
        faults.append(Fault("--joint", a.joint, f"one of {', '.join(ARM_JOINTS)}"))
    if not 0.005 <= a.amplitude_rad <= 0.15:
        faults.append(Fault("--amplitude-rad", f"{a.amplitude_rad:g}", "0.005 to 0.15"))
    if not 3.0 <= a.seconds <= 60.0:
        faults.append(Fault("--seconds", f"{a.seconds:g}", "3 to 60"))
    if faults:
        raise InvalidInputError("calibrate", faults)


def _write_board(path: Path) -> None:
    from tether.calibrate.board import Board

    path.write_text(Board().svg(), encoding="utf-8")
    sys.stdout.write(f"{path}: print it at 100 %, on something stiff\n")


def _zero(a: argparse.Namespace, settings: RobotSettings, calibration: RobotCalibration) -> RobotCalibration:
    from tether.assembly import task
    from tether.calibrate.measured import zeros
    from tether.hardware.serial_port import SerialPort
    from tether.hardware.servo_bus import ServoBus

    if settings.is_emulated:
        raise InvalidInputError("calibrate", [Fault("zero", "emulated devices", "a robot whose arm stands in a jig")])
    bus = ServoBus(SerialPort(settings.servos.port, settings.servos.baud), settings.servos.baud)
    try:
        return zeros(bus, calibration, task(a.pose).start)
    finally:
        bus.close()


def add_latency_parser(subparsers: Any) -> None:
    """Register `tether latency`."""
    parser = subparsers.add_parser(
        "latency",
        help="motion to photon: how late a joint follows, and how late it is seen",
        description="Wiggles a joint and correlates what was told, measured and seen. Changes no file of the robot.",
    )
    parser.add_argument("--json", type=Path, metavar="OUT", help="file of the result")
    _common(parser)
    parser.set_defaults(run=run_latency)


def run_latency(arguments: argparse.Namespace) -> int:
    """Measure. 0 when it could be measured."""
    from tether.calibrate.bench import Operator
    from tether.calibrate.measured import delays
    from tether.calibrate.stand import stand
    from tether.hardware.calibration import load_calibration
    from tether.hardware.settings import load_robot_settings

    a = arguments
    _check(a)
    settings = load_robot_settings(a.robot)
    with stand(settings, a.robot, a.task, a.profile, a.seed, load_calibration(settings.calibration)) as bench:
        measured = delays(bench, Operator(bench), a.joint, a.amplitude_rad, a.seconds, settings.camera.rate_hz)
    if a.json is not None:
        write_json(a.json, {**header("latency", a.seed), "robot": a.robot, **plain(dataclasses.asdict(measured))})
    sys.stdout.write(_table(measured))
    return 0


def _table(measured: Delays) -> str:
    lag = measured.actuator
    lines = [
        f"joint        {1e3 * lag.total_s:.0f} ms behind its command: {1e3 * lag.dead_time_s:.0f} ms dead time, "
        f"{1e3 * lag.time_constant_s:.0f} ms lag (gain {lag.gain:.3f}, {lag.rms:.4f} rad RMS left)"
    ]
    for name, one in (("imu", measured.imu), ("camera", measured.camera)):
        if one is not None:
            late = f"{1e3 * one.latency_s:.1f} ± {1e3 * one.jitter_s:.1f} ms from stamp to here"
            lines.append(f"{name:<12} {late}, {100 * one.drop:.1f} % lost (n {one.n})")
    seen = measured.seen
    if seen is not None:
        lines.append(
            f"seen         {1e3 * seen.arrival_s:.0f} ms from motion to picture; stamps {1e3 * seen.stamp_s:+.0f} ms"
        )
        lines.append(f"in all       {1e3 * (lag.total_s + seen.arrival_s):.0f} ms from command to picture")
    return "\n".join(lines) + "\n"
