"""The robot's description: reading it, a frozen model with forward kinematics, and a linter for anybody's
URDF.
"""
