"""`tether latency`, a command of its own beside `tether calibrate`."""

from tether.calibrate.cli import add_latency_parser as add_parser

__all__ = ["add_parser"]
