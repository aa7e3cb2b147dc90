"""Fusion: everything that has arrived by a decision, made into one state."""
