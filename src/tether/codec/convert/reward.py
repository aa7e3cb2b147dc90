"""Rewards to messages and back."""

from __future__ import annotations

import math
from typing import Any

from tether.codec.convert.basics import to_ns, to_time
from tether.codec.store import message
from tether.rewards.config import Subgoal
from tether.rewards.ledger import Payment
from tether.rewards.server import Reward

REWARD = "reward"
"""What a reward's token is for."""


def reward_message(reward: Reward) -> Any:
    """tether_msgs/Reward, without a token."""
    payment = reward.payment
    return message("tether_msgs/msg/Reward")(
        to_time(payment.stamp_ns),
        to_time(reward.delivered_ns),
        reward.episode,
        payment.subgoal.value,
        payment.value,
        payment.task_return,
        "",
    )


def reward_fields(msg: Any) -> dict[str, str | int]:
    """All that a reward says, to the last bit, for its token."""
    return {
        "stamp": to_ns(msg.stamp),
        "delivered": to_ns(msg.delivered),
        "episode": int(msg.episode),
        "subgoal": str(msg.subgoal),
        "value": float(msg.value).hex(),
        "task_return": float(msg.task_return).hex(),
    }


def reward_from(msg: Any) -> Reward:
    """From tether_msgs/Reward; ValueError for an unknown subgoal or a number that is not finite."""
    for name in ("value", "task_return"):
        if not math.isfinite(getattr(msg, name)):
            raise ValueError(f"{name}: {getattr(msg, name)}, expected a finite number")
    payment = Payment(Subgoal(msg.subgoal), float(msg.value), to_ns(msg.stamp), float(msg.task_return))
    return Reward(payment, int(msg.episode), to_ns(msg.delivered))
