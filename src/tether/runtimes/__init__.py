"""Runtimes: libraries that run a model file, behind one small interface. See docs/runtimes.md."""
