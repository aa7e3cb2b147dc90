"""The safety gate: see docs/safety.md."""
