"""Replay's check: recompute every decision of a recording from the samples it names, and compare bit for bit."""

from tether.check.run import CheckReport, Difference, check_bag

__all__ = ["CheckReport", "Difference", "check_bag"]
