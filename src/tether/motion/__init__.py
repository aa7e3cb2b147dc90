"""Closed-loop motion at 100 Hz: arm kinematics, the primitives of the skill table, and the executor that runs them."""
