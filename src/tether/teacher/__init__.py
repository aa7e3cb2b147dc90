"""The teacher: a policy on privileged state, trained in the ideal world under the servos' real lag."""
