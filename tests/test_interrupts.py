"""Ctrl-C where something must be written or brought down first."""

from __future__ import annotations

import signal

import pytest

from tether.interrupts import STOPS, KeptInterrupt, held_interrupts, raising_stops


def test_what_comes_meanwhile_is_noted_and_afterwards_it_interrupts_again() -> None:
    calls: list[int] = []
    with held_interrupts(lambda: calls.append(1)) as came:
        signal.raise_signal(signal.SIGINT)
        assert (came, calls) == ([signal.SIGINT], [1])
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("number", STOPS)
def test_every_request_to_stop_is_held_and_its_handler_is_back_afterwards(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with held_interrupts() as came:
        signal.raise_signal(number)
    assert came == [number]
    assert signal.getsignal(number) is before


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup
    try:
        with held_interrupts() as came:
            signal.raise_signal(signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert came == []
    finally:
        signal.signal(signal.SIGHUP, before)


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


@pytest.mark.parametrize("number", STOPS[1:])
def test_requests_to_end_are_raised_by_their_number_and_only_meanwhile(number: signal.Signals) -> None:
    assert signal.getsignal(number) is signal.SIG_DFL
    with raising_stops(), pytest.raises(KeptInterrupt) as caught:
        signal.raise_signal(number)
    assert caught.value.number == number
    assert signal.getsignal(number) is signal.SIG_DFL


def test_what_is_ignored_is_not_raised() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with raising_stops():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
