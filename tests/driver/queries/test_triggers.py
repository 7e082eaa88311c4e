"""Trigger of a query from the arguments of `trigger`, and intervals as Spark spells them."""

from typing import Any

import pytest

from holdfast.driver.queries.triggers import REAL_TIME_BATCH_S, Trigger, interval_s, trigger_of


@pytest.mark.parametrize(
    ("arguments", "trigger"),
    [
        ({"realTime": "5 minutes"}, Trigger("real-time", 300.0)),
        ({"realTime": "not an interval"}, Trigger("real-time", REAL_TIME_BATCH_S)),
        ({"continuous": "1 second"}, Trigger("continuous")),
        ({"processingTime": "10 minutes"}, Trigger()),
        ({"availableNow": True}, Trigger()),
        ({}, Trigger()),
    ],
)
def test_trigger_tells_how_long_a_batch_lasts(arguments: dict[str, Any], trigger: Trigger) -> None:
    assert trigger_of(arguments) == trigger


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5 minutes", 300.0),
        ("  1 minute 30 seconds ", 90.0),
        ("interval 1.5 hours", 5400.0),
        ("INTERVAL 10 SECONDS", 10.0),
        ("1 day 1 millisecond", 86400.001),
        ("5minutes", None),
        ("1 month", None),
        ("1 minute and a bit", None),
        ("", None),
    ],
)
def test_interval_is_converted_to_seconds(text: str, seconds: float | None) -> None:
    assert interval_s(text) == (pytest.approx(seconds) if seconds is not None else None)
