"""Schedules: options, due times of an interval, and texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import Refused
from holdfast.model.codec import COMMON_SCHEMA, SCHEMA, NewerSchema, decode, encode
from holdfast.model.job import JobState, Spec
from holdfast.model.phase import Phase
from holdfast.model.schedule.due_times import CatchUp, Schedule, change_schedule, make_schedule
from holdfast.model.schedule.runs import begin_history

SPEC = Spec("words", "words.py", "0" * 64)


def test_options_make_a_schedule() -> None:
    assert make_schedule() is None
    assert make_schedule(every="10m") == Schedule(every_s=600.0)
    assert make_schedule(every=90, catch_up="all", park_after=3) == Schedule(90.0, catch_up=CatchUp.ALL, park_after=3)
    assert make_schedule(cron_text=" */5  * * * *", timezone="Europe/Berlin") == Schedule(
        cron="*/5 * * * *", timezone="Europe/Berlin"
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"every": "0s"}, "use 1s to 366d"),
        ({"every": "400d"}, "use 1s to 366d"),
        ({"every": "soon"}, "is not a duration"),
        ({"every": "1m", "cron_text": "* * * * *"}, "not both"),
        ({"cron_text": ""}, "the cron expression is empty"),
        ({"cron_text": "* * * *"}, "five fields"),
        ({"cron_text": "* * * * *", "timezone": "Mars/Olympus"}, "no time zone 'Mars/Olympus'"),
        ({"cron_text": "* * * * *", "timezone": "../../etc/passwd"}, "no time zone"),
        ({"every": "1m", "timezone": "Europe/Berlin"}, "an interval has no time zone"),
        ({"catch_up": "one"}, "add --every or --cron"),
        ({"every": "1m", "catch_up": "some"}, "use none, one, all"),
        ({"every": "1m", "park_after": -1}, "not -1"),
    ],
)
def test_invalid_options_are_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(Refused) as error:
        make_schedule(**options)  # type: ignore[arg-type]  # any options
    assert problem in str(error.value)


def test_upgrade_keeps_what_is_not_given() -> None:
    current = make_schedule(cron_text="0 3 * * *", timezone="Europe/Berlin", catch_up="none", park_after=2)
    assert current is not None
    assert change_schedule(current) == current
    assert change_schedule(current, cron_text="0 4 * * *") == Schedule(
        cron="0 4 * * *", timezone="Europe/Berlin", catch_up=CatchUp.NONE, park_after=2
    )
    assert change_schedule(current, every="1h") == Schedule(3600.0, catch_up=CatchUp.NONE, park_after=2)
    assert change_schedule(current, timezone="UTC") == Schedule(cron="0 3 * * *", catch_up=CatchUp.NONE, park_after=2)
    assert change_schedule(None, every="1h") == Schedule(3600.0)


def test_texts_name_the_interval_or_the_expression_and_its_zone() -> None:
    assert str(Schedule(5400.0)) == "every 90m, catch-up: one"
    assert str(Schedule(cron="0 3 * * *", timezone="Europe/Berlin", catch_up=CatchUp.NONE, park_after=2)) == (
        "0 3 * * * (Europe/Berlin), catch-up: none, parked after 2 failed runs in a row"
    )
    assert Schedule(60.0).format_due_time(0.0) == "1970-01-01 00:00:00 UTC"
    assert Schedule(cron="0 3 * * *", timezone="Europe/Berlin").format_due_time(0.0) == "1970-01-01 01:00:00+01:00"


@given(
    st.floats(1.0, 1e7, allow_nan=False),
    st.floats(0, 4e9),
    st.floats(0, 4e9),
)
def test_due_times_of_an_interval_are_ordered_and_one_interval_apart(every_s: float, anchor: float, at: float) -> None:
    schedule = Schedule(every_s)
    following, before = schedule.next_due_time(at, anchor), schedule.last_due_time(at, anchor)
    assert before <= at < following
    assert following - before == pytest.approx(every_s, rel=1e-3, abs=1e-3)
    assert schedule.next_due_time(before, anchor) == following
    assert schedule.last_due_time(following, anchor) == following


def test_spec_and_state_of_a_scheduled_job_are_set_aside_by_earlier_versions() -> None:
    schedule = Schedule(60.0)
    scheduled = Spec("words", "words.py", "0" * 64, schedule=schedule)
    state = JobState(Phase.SCHEDULED, "next run", runs=begin_history(schedule, 1000.0))
    for record in (scheduled, state):
        data = encode(record, schema=COMMON_SCHEMA)
        assert decode(type(record), data, where="it") == record
        with pytest.raises(NewerSchema):
            decode(type(record), data, where="it", newest=SCHEMA - 1)


def test_records_of_other_jobs_stay_readable_for_earlier_versions() -> None:
    for record in (SPEC, JobState(Phase.PENDING, "new")):
        assert decode(type(record), encode(record, schema=COMMON_SCHEMA), where="it", newest=SCHEMA - 1) == record
