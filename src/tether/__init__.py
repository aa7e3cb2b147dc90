"""Tether: takes a policy from simulation to a small robot and keeps the two tied together."""

__version__ = "0.1.0"
