"""The robot's description: reading it, a frozen model with kinematics, and a linter for anybody's URDF."""
