"""`tether replay`: what is in a bag, playing it to the graph, and recomputing its decisions."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tether.bags.playable import is_topic_name, played_names
from tether.bags.player import NullSink, Pace, Player, PlayOptions, Rate, Unpaced, parse_pace
from tether.bags.reader import Bag, open_bag
from tether.errors import Fault, InvalidInputError
from tether.launch import ament
from tether.results import command_line, header, require_writable, write_json

_DESCRIPTION = """\
Read a bag, of whatever kind and however broken, and play it to the ROS graph that is running, with /clock.

BAG is a rosbag2 folder or a single .mcap, .db3 or ROS 1 .bag file, compressed or not, with or without
metadata.yaml. Everything readable is played; what was lost is counted and named. Topics that Tether's graph
itself publishes, and commands to motors above all, are left out unless --all-topics is given.
"""
_EPILOG = """\
examples:
  tether replay runs/latest/bag --info                    what is in it, what was lost
  tether replay runs/latest/bag --check                   recompute every decision, compare bit for bit
  tether replay BAG --rate 0.5 --start 10 --loop          play to the graph, slowly, from 10 s on, again and again
  tether replay BAG --remap /imu/data:=/imu/data_raw      play a topic under another name
  tether launch tether_bringup replay.launch.xml bag:=BAG play to a graph that is started for it

In a terminal: space pauses and goes on, s plays one message, q stops.
exit status: 0 done (also when parts of the bag were lost); 1 the check found a difference, or playing failed;
2 the bag or an argument was refused.
"""
END_S = 5.0
"""The player gets so long to end when the command is ended."""
_NODE = ("tether_bringup", "replay_player")
_OF_A_PLAY = {
    "rate": "1",
    "start": 0.0,
    "loop": False,
    "step": False,
    "remap": [],
    "topics": None,
    "all_topics": False,
    "clock_hz": 100.0,
}
"""Arguments that say how to play, with their defaults."""
_IDLE = {
    "check": frozenset(_OF_A_PLAY),
    "info": frozenset(_OF_A_PLAY),
    "dry_run": frozenset({"loop", "step", "all_topics"}),
}
"""Those that change nothing where the bag is not played to the graph, by what is done instead."""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser(
        "replay",
        help="read a bag, play it to the graph, or recompute its decisions",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("bag", type=Path, metavar="BAG", help="folder or file")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--info", action="store_true", help="read it through, print what is in it, and leave")
    what.add_argument("--check", action="store_true", help="recompute every decision and compare bit for bit")
    what.add_argument(
        "--dry-run", action="store_true", help="play into nothing, without ROS: shows whether it keeps up"
    )
    parser.add_argument("--rate", metavar="R", help="times as fast as recorded: 0.1 to 10, or max")
    parser.add_argument("--start", type=float, metavar="S", help="skip the first S seconds")
    parser.add_argument("--loop", action="store_true", help="begin again at the end, with time going back")
    parser.add_argument("--step", action="store_true", help="begin paused; in a terminal, s plays one message")
    parser.add_argument("--remap", action="append", metavar="A:=B", help="play topic A as B; repeat for more")
    parser.add_argument("--topics", nargs="+", metavar="T", help="play only these")
    parser.add_argument(
        "--all-topics", action="store_true", help="play also what the graph publishes, commands included"
    )
    parser.add_argument("--clock-hz", type=float, metavar="HZ", help="rate of /clock (default 100)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the report for machines")
    parser.set_defaults(run=run, **_OF_A_PLAY)


def _refuse_idle(arguments: argparse.Namespace) -> None:
    """Raise InvalidInputError for every argument that would change nothing in what is asked for."""
    instead = next((mode for mode in _IDLE if getattr(arguments, mode)), None)
    if instead is None:
        return
    idle = [name for name in _OF_A_PLAY if name in _IDLE[instead] and getattr(arguments, name) != _OF_A_PLAY[name]]
    if idle:
        mode = _flag(instead)
        applies = [_flag(name) for name in _OF_A_PLAY if name not in _IDLE[instead]]
        expected = f"with {mode} only {', '.join([*applies, '--json'])}"
        faults = [Fault(_flag(name), f"with {mode}, where it changes nothing", expected) for name in idle]
        raise InvalidInputError("replay", faults, f"leave it out, or leave out {mode} to play to the graph")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def run(arguments: argparse.Namespace) -> int:
    """Run the command. A request to end (SIGTERM) ends it in order, so that what was unpacked is removed."""
    if threading.current_thread() is not threading.main_thread():
        return _run(arguments)
    before = signal.signal(signal.SIGTERM, _end)
    try:
        return _run(arguments)
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(number: int, frame: Any) -> None:
    raise SystemExit(128 + number)


def _run(arguments: argparse.Namespace) -> int:
    _refuse_idle(arguments)
    if arguments.json is not None:
        require_writable(arguments.json)
    if arguments.check:
        return _check(arguments)
    if arguments.info:
        return _info(arguments)
    options = _options(arguments)
    if arguments.dry_run:
        return _dry_run(arguments, options)
    return _play(arguments, options)


def _options(arguments: argparse.Namespace) -> PlayOptions:
    if arguments.step and not sys.stdin.isatty():
        fault = Fault("--step", "no terminal to take keys from", "a terminal")
        raise InvalidInputError("replay", [fault], "run it in a terminal, or without --step")
    return PlayOptions(
        pace=parse_pace(arguments.rate),
        start_s=arguments.start,
        loop=arguments.loop,
        step=arguments.step,
        remap=parse_remaps(arguments.remap),
        topics=None if arguments.topics is None else tuple(arguments.topics),
        clock_hz=arguments.clock_hz,
    )


def parse_remaps(words: Sequence[str]) -> dict[str, str]:
    """`a:=b` words as a mapping. Raises InvalidInputError with every word that is none."""
    pairs = [word.partition(":=") for word in words]
    faults = [
        Fault("--remap", repr(word), "RECORDED:=PLAYED, such as /imu/data:=/imu/data_raw")
        for word, (old, mark, new) in zip(words, pairs, strict=True)
        if not (old and mark and new)
    ]
    names = [old for old, _, _ in pairs]
    faults += [Fault("--remap", f"{name} twice", "once") for name in sorted({n for n in names if names.count(n) > 1})]
    if faults:
        raise InvalidInputError("replay", faults)
    return {old: new for old, _, new in pairs}


def _info(arguments: argparse.Namespace) -> int:
    with open_bag(arguments.bag) as bag:
        report = bag.read_through()
    sys.stdout.write(report.table() + "\n")
    if arguments.json is not None:
        write_json(arguments.json, {**header("replay --info", 0), **report.to_json()})
    return 0


def _check(arguments: argparse.Namespace) -> int:
    report = importlib.import_module("tether.check").check_bag(arguments.bag)
    sys.stdout.write(report.as_table().rstrip("\n") + "\n")
    if arguments.json is not None:
        write_json(arguments.json, report.as_json())
    return 0 if report.identical else 1


def _dry_run(arguments: argparse.Namespace, options: PlayOptions) -> int:
    with open_bag(arguments.bag) as bag:
        result = Player(bag, NullSink(), options).play()
        sys.stdout.write(result.report.table() + "\n")
    late = f"p50 {result.late_ms_p50:.3f} ms, p99 {result.late_ms_p99:.3f} ms, max {result.late_ms_max:.3f} ms"
    late = "" if isinstance(options.pace, Unpaced) else f"; late by {late}"
    sys.stdout.write(f"played {result.messages} messages in {result.wall_s:.3f} s{late}\n")
    if result.left_out:
        sys.stdout.write(f"{result.left_out} messages were left out: /clock or ROS topic names cannot carry them\n")
    if arguments.json is not None:
        played = {name: value for name, value in vars(result).items() if name != "report"}
        head = header("replay --dry-run", 0)
        write_json(arguments.json, {**head, **result.report.to_json(), "played": played})
    return 0


def _play(arguments: argparse.Namespace, options: PlayOptions) -> int:
    """Check everything that can be checked here, then hand over to the node, which has the terminal."""
    with open_bag(arguments.bag) as bag:
        Player(bag, NullSink(), options)
        options = replace(options, topics=_playable(bag, options))
        sys.stderr.write(f"tether replay: {_span(bag, options.pace)}\n")
    command = [str(ament.find_executable(*_NODE, os.environ)), "--ros-args"]
    for name, value in _parameters(arguments, options).items():
        command += ["-p", f"{name}:={json.dumps(value)}"]
    status = _run_to_its_end(command)
    if status:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        sys.stderr.write(f"tether replay: the player, {command[0]}, {how} on {arguments.bag}; its own lines say why\n")
    return status


def _span(bag: Bag, pace: Pace) -> str:
    """How long the bag is and, at this pace, how long it takes to play from its start to its end, gaps included."""
    if bag.start_ns is None or bag.end_ns is None:
        return f"{bag.path} has no messages"
    span_s = (bag.end_ns - bag.start_ns) / 1e9
    match pace:
        case Rate(factor):
            return (
                f"{bag.path} spans {span_s:.1f} s, gaps included; at rate {factor:g} that takes {span_s / factor:.1f} s"
            )
        case Unpaced():
            return f"{bag.path} spans {span_s:.1f} s, played as fast as subscribers take it"


def _run_to_its_end(command: Sequence[str]) -> int:
    """Exit status of the command, which is ended, too, when this process is asked to end."""
    with subprocess.Popen(command) as child:
        try:
            return child.wait()
        except BaseException:
            child.terminate()
            try:
                child.wait(timeout=END_S)
            except subprocess.TimeoutExpired:
                child.kill()
            raise


def _playable(bag: Bag, options: PlayOptions) -> tuple[str, ...] | None:
    """The topics to play, those left out whose names ROS does not allow; None for all."""
    names = options.topics or tuple(bag.topics)
    played = played_names(bag.topics, options.remap)
    refused = [name for name in names if not is_topic_name(played[name])]
    for name in refused:
        sys.stderr.write(f"tether replay: {name!r} is left out: it is no topic name in ROS; --remap gives it one\n")
    if len(refused) == len(names) and refused:
        faults = [Fault("topic", repr(name), "a topic name such as /imu/data_raw") for name in refused]
        raise InvalidInputError("replay", faults, "play it under another name with --remap")
    return tuple(name for name in names if name not in refused) if refused else options.topics


def _parameters(arguments: argparse.Namespace, options: PlayOptions) -> dict[str, Any]:
    parameters: dict[str, Any] = {
        "bag": str(arguments.bag.absolute()),
        **_pace_parameters(options.pace),
        "start_s": float(options.start_s),
        "loop": options.loop,
        "step": options.step,
        "all_topics": bool(arguments.all_topics),
        "clock_hz": float(options.clock_hz),
        "autostart": True,
        "report": "" if arguments.json is None else str(arguments.json.absolute()),
        "command": command_line(),
    }
    if options.remap:
        parameters["remap"] = [f"{old}:={new}" for old, new in options.remap.items()]
    if options.topics:
        parameters["topics"] = list(options.topics)
    return parameters


def _pace_parameters(pace: Pace) -> dict[str, Any]:
    match pace:
        case Rate(factor):
            return {"rate": float(factor), "unpaced": False}
        case Unpaced():
            return {"rate": 1.0, "unpaced": True}
