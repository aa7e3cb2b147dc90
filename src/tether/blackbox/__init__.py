"""The black box: the last 30 s in memory, written to disk when something trips. See docs/integrity.md."""
