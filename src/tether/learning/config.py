"""What a training run may be told; the one place of its defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tether.config import bounded
from tether.errors import Fault, InvalidInputError


class ChoiceGradient(Enum):
    """How the actor's gradient passes the discrete choice.

    GUMBEL: one choice drawn per state by straight-through Gumbel-Softmax (Jang et al. 2017, arXiv 1611.01144).
    EXACT: the expectation over all choices (Christodoulou 2019, arXiv 1910.07207).
    """

    GUMBEL = "gumbel"
    EXACT = "exact"


class Normalise(Enum):
    """What is done to observations before the networks. BOUNDS needs finite bounds in the observation space.

    WARMUP takes mean and deviation of the warm-up's observations and keeps them.
    """

    NONE = "none"
    BOUNDS = "bounds"
    WARMUP = "warmup"


class Exploration(Enum):
    """What is added to the policy's own randomness.

    HOLD: random actions held for a while, whose lengths follow a zeta law (Dabney et al. 2020, arXiv 2006.01782).
    """

    POLICY = "policy"
    HOLD = "hold"


class KlConstraint(Enum):
    """Whether parameters of all choices are held near the previous policy's."""

    ON = "on"
    OFF = "off"


@dataclass(frozen=True)
class SacConfig:
    """The learner: networks, targets, temperatures, KL constraint."""

    choice_gradient: ChoiceGradient = ChoiceGradient.EXACT
    gumbel_temperature: float = bounded(0.05, 10.0, default=1.0)
    hidden: tuple[int, ...] = bounded(8, 4096, default=(256, 256), doc="widths of the actor's layers")
    critic_hidden: tuple[int, ...] = bounded(8, 4096, default=(256,), doc="widths before the choices' branches")
    branch_width: int = bounded(8, 1024, default=96, doc="two layers of this width for each choice, in each critic")
    layer_norm: bool = bounded(default=True, doc="in the critics, as RLPD (Ball et al. 2023, arXiv 2302.02948)")
    critics: int = bounded(2, 16, default=2, doc="the smallest of their values is used")
    actor_rate: float = bounded(1e-6, 1e-1, default=3e-4)
    critic_rate: float = bounded(1e-6, 1e-1, default=5e-4)
    temperature_rate: float = bounded(1e-6, 1e-1, default=3e-4)
    discount: float = bounded(0.0, 1.0, default=0.99)
    polyak: float = bounded(1e-4, 1.0, default=0.005, doc="share of the critic that its target takes at an update")
    actor_period: int = bounded(1, 16, default=1, doc="critic updates for each of the actor")
    max_grad_norm: float = bounded(1e-3, 1e6, default=10.0)
    normalise: Normalise = Normalise.NONE
    reward_scale: float = bounded(1e-9, 1e9, default=1.0)
    temperature_init: float = bounded(1e-8, 10.0, default=0.05)
    temperature_max: float = bounded(1e-8, 100.0, default=1.0)
    choice_entropy: tuple[float, float] = bounded(
        0.0, 1.0, default=(0.4, 0.05), doc="target at start and end, as a share of log(number of valid choices)"
    )
    param_entropy: tuple[float, float] = bounded(
        -6.0, 0.69, default=(-0.5, -2.0), unit="nat", doc="target per parameter in [-1, 1], at start and end"
    )
    param_spread: float = bounded(
        0.0,
        1.0,
        default=0.0,
        doc="share of the parameters' gradient spread evenly over the valid choices; the rest goes by their weights",
    )
    kl_constraint: KlConstraint = KlConstraint.ON
    kl_limit: float = bounded(1e-6, 1e3, default=0.05, unit="nat", doc="mean over choices, against the previous policy")
    kl_period: int = bounded(1, 100000, default=100, doc="actor updates after which a policy becomes the previous one")
    kl_rate: float = bounded(1e-4, 1.0, default=0.05, doc="rate of the constraint's multiplier")


@dataclass(frozen=True)
class TrainConfig:
    """A run: how many steps, how much replay, when to look."""

    sac: SacConfig = field(default_factory=SacConfig)
    steps: int = bounded(1, 1_000_000_000, default=100_000, doc="decisions in the environment")
    warmup_steps: int = bounded(1, 10_000_000, default=1000, doc="random decisions before the first update")
    updates_per_step: float = bounded(0.01, 64.0, default=1.0)
    batch: int = bounded(8, 65536, default=128)
    replay: int = bounded(100, 100_000_000, default=100_000, doc="transitions kept")
    n_step: int = bounded(1, 64, default=1, doc="rewards summed before bootstrapping")
    demo_share: float = bounded(
        0.05, 0.95, default=0.5, doc="share of a batch from demonstrations, where there are any"
    )
    exploration: Exploration = Exploration.POLICY
    hold_probability: tuple[float, float] = bounded(0.0, 1.0, default=(0.1, 0.0), doc="at a decision, start and end")
    hold_exponent: float = bounded(1.05, 10.0, default=2.0, doc="of the zeta law")
    hold_max: int = bounded(1, 10000, default=50, unit="decisions")
    anneal_steps: int = bounded(1, 1_000_000_000, default=50_000, doc="from the start values to the end values")
    evaluate_every: int = bounded(1, 1_000_000_000, default=5000, unit="steps")
    evaluate_episodes: int = bounded(1, 100_000, default=50)
    checkpoint_every: int = bounded(1, 1_000_000_000, default=20_000, unit="steps")

    def __post_init__(self) -> None:
        if not self.n_step <= self.warmup_steps <= self.replay:
            expected = f"from n_step ({self.n_step}) to replay ({self.replay})"
            raise InvalidInputError("training", [Fault("warmup_steps", str(self.warmup_steps), expected)])
