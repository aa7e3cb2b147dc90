"""A base that takes twists without a stamp stands still once gated commands stop."""

from __future__ import annotations

import numpy as np
import pytest

from tether.errors import InvalidInputError
from tether.world.unstamped import UnstampedTwist

TIMEOUT_NS = 100_000_000


def test_newest_twist_is_handed_on_until_commands_have_stopped_for_the_timeout() -> None:
    relay = UnstampedTwist(TIMEOUT_NS)
    assert relay.at(5) == (pytest.approx([0.0, 0.0, 0.0]), False), "nothing has moved yet, so nothing is stopped"
    relay.feed(np.array([0.1, 0.0, 0.0]), 1_000)
    relay.feed(np.array([0.2, -0.1, 0.3]), 2_000)
    twist, stopped = relay.at(2_000 + TIMEOUT_NS)
    assert (twist.tolist(), stopped) == ([0.2, -0.1, 0.3], False)
    twist, stopped = relay.at(2_001 + TIMEOUT_NS)
    assert (twist.tolist(), stopped) == ([0.0, 0.0, 0.0], True)
    relay.feed(np.array([0.1, 0.0, 0.0]), 3_000 + TIMEOUT_NS)
    assert relay.at(3_000 + TIMEOUT_NS)[1] is False, "a command that comes again ends the stop"


@pytest.mark.parametrize("twist", [[np.nan, 0.0, 0.0], [0.0, np.inf, 0.0], [0.0, 0.0]])
def test_what_is_no_twist_is_refused_and_does_not_feed_the_watchdog(twist: list[float]) -> None:
    relay = UnstampedTwist(TIMEOUT_NS)
    relay.feed(np.array([0.1, 0.0, 0.0]), 0)
    with pytest.raises(InvalidInputError, match="finite"):
        relay.feed(np.array(twist), TIMEOUT_NS)
    assert relay.at(TIMEOUT_NS + 1)[1] is True


def test_it_cannot_be_switched_off() -> None:
    with pytest.raises(InvalidInputError, match="more than 0"):
        UnstampedTwist(0)
