"""Ctrl-C where something must be written or brought down first."""

from __future__ import annotations

import signal

import pytest

from tether.interrupts import held_interrupts


def test_what_comes_meanwhile_is_noted_and_afterwards_it_interrupts_again() -> None:
    calls: list[int] = []
    with held_interrupts(lambda: calls.append(1)) as came:
        signal.raise_signal(signal.SIGINT)
        assert (came, calls) == ([signal.SIGINT], [1])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_what_came_before_there_was_anything_to_stop_stops_it_as_soon_as_there_is() -> None:
    calls: list[int] = []
    with held_interrupts() as outer:
        with held_interrupts(lambda: calls.append(1)) as unasked:
            assert (unasked, calls) == ([], [])
        signal.raise_signal(signal.SIGINT)
        with held_interrupts(lambda: calls.append(1)) as came:
            assert (came, calls) == ([signal.SIGINT], [1])
        assert outer == [signal.SIGINT]
    with held_interrupts(lambda: calls.append(1)) as afresh:
        assert (afresh, calls) == ([], [1])
