"""Public keys of the releases, in PEM, part of the installed package: written by `tether sign --add-release-key`."""

from __future__ import annotations

RELEASE_KEYS: tuple[str, ...] = ()
"""Empty until a team issues one; docs/integrity.md says how, and what a clone trusts."""
