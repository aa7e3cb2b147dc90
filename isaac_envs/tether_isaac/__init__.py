"""Tether's robot, tasks, observations and rewards in Isaac Lab.

Importing the package registers `Tether-Pick-v0` and `Tether-Pick-Moving-v0` with Gymnasium, as Isaac Lab's training
scripts expect; nothing of Isaac Lab is loaded before one of them is made.
"""

from __future__ import annotations

import gymnasium

TASKS = {"Tether-Pick-v0": "PickDefaultCfg", "Tether-Pick-Moving-v0": "PickMovingDefaultCfg"}
"""Gymnasium's name of each task, and its configuration."""

for _name, _cfg in TASKS.items():
    if _name not in gymnasium.registry:
        gymnasium.register(
            id=_name,
            entry_point="tether_isaac.env:PickEnv",
            disable_env_checker=True,
            kwargs={
                "env_cfg_entry_point": f"tether_isaac.env_cfg:{_cfg}",
                "rsl_rl_cfg_entry_point": "tether_isaac.agents:TeacherPpoCfg",
                "default_agent": "rsl_rl",
            },
        )
