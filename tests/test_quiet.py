"""Loggers are quiet within, and as before afterwards, also after an exception."""

from __future__ import annotations

import logging

import pytest

from tether.quiet import at_least


def test_levels_are_given_back(caplog: pytest.LogCaptureFixture) -> None:
    name = "tether.test.quiet"
    logger = logging.getLogger(name)
    with caplog.at_level(logging.INFO), pytest.raises(LookupError), at_least(logging.ERROR, name):
        logger.warning("unheard")
        logger.error("heard")
        raise LookupError
    assert logger.level == logging.NOTSET
    logger.warning("heard again")
    assert [record.getMessage() for record in caplog.records] == ["heard", "heard again"]


def test_a_logger_that_says_less_already_stays_so() -> None:
    logger = logging.getLogger("tether.test.silent")
    logger.setLevel(logging.CRITICAL)
    with at_least(logging.WARNING, logger.name):
        assert logger.level == logging.CRITICAL
    assert logger.level == logging.CRITICAL
