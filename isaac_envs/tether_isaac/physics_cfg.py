"""Physics: Newton with the MuJoCo solver, under the options of the MuJoCo world."""

from __future__ import annotations

from isaaclab.sim import SimulationCfg
from isaaclab_newton.physics import MJWarpSolverCfg, NewtonCfg, NewtonShapeCfg

from tether.contracts import TICKS_PER_DECISION
from tether.errors import Fault, InvalidInputError
from tether.world.model import SUBSTEP_NS, SUBSTEPS_PER_TICK

GRAVITY_M_S2 = 9.81


def simulation_cfg(device: str, substeps: int) -> SimulationCfg:
    """Physics of `substeps` steps a tick of 10 ms on `device` (cpu, cuda:0, …); the MuJoCo world takes 8.

    Steps are explicit (Euler), as there. MuJoCo's implicit integrators before 4.0, and `mujoco_warp` 3.12 after them,
    linearise the damping of a drive also while the joint's effort limit cuts its force off: they skip a drive that its
    own `forcerange` clamps, but not one that the joint's `actfrcrange` does. A servo that asks for more than it has
    then gains speed too slowly, by a fifth at 2.5 ms.
    """
    if SUBSTEPS_PER_TICK % substeps:
        fault = Fault("substeps", str(substeps), f"a divisor of {SUBSTEPS_PER_TICK}")
        raise InvalidInputError("physics", [fault])
    return SimulationCfg(
        dt=SUBSTEP_NS * 1e-9 * (SUBSTEPS_PER_TICK // substeps),
        render_interval=substeps * TICKS_PER_DECISION,
        device=device,
        gravity=(0.0, 0.0, -GRAVITY_M_S2),
        physics=NewtonCfg(
            solver_cfg=MJWarpSolverCfg(
                njmax=160,
                nconmax=40,
                cone="elliptic",
                impratio=10.0,
                iterations=20,
                ls_iterations=50,
                integrator="euler",
            ),
            # No gap: MuJoCo's world has none, and one of 10 mm would make the fingers grip through the air.
            default_shape_cfg=NewtonShapeCfg(gap=0.0, margin=0.0),
        ),
    )
