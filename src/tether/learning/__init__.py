"""Reinforcement learning for hybrid actions (one discrete choice, then that choice's continuous parameters).

`learn` (train.py) is the loop, `Agent` (sac.py) the soft actor-critic, `HybridSpace` (spaces.py) the action space.
Nothing here knows the robot, except `HybridSpace.of_skills`. torch is imported by the modules, not by the package.
"""
