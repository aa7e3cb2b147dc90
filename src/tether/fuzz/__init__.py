"""Damaged messages and files into everything that the gate reads: `tether fuzz gate`."""
