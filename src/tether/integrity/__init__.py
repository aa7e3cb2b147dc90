"""Integrity of state that decisions depend on: what is read is what was written, and the newest.

See docs/integrity.md.
"""
