"""Status of a Spark application between driver and runner, and the tags of its application in YARN."""

import pytest

from holdfast.driver_protocol.application_status import ApplicationStatus, parse_application_status
from holdfast.driver_protocol.application_tags import attempt_tags, belongs_to_earlier_attempt


def test_status_survives_the_control_file() -> None:
    status = ApplicationStatus("application_1_2", "RUNNING", 2, 1, 3, "Worker lost", "waits")
    assert parse_application_status(status.to_json()) == status


@pytest.mark.parametrize(
    "fields", [{}, {"id": 1, "executors": -1, "lost": True, "decommissioned": 2**40, "note": None}, {"executors": "2"}]
)
def test_invalid_parts_of_a_status_are_left_empty(fields: dict[str, object]) -> None:
    assert parse_application_status(fields) == ApplicationStatus()


def test_text_of_a_status_is_one_printable_line() -> None:
    assert parse_application_status({"note": "a\n\x1b[31mb"}).note == "a [31mb"


@pytest.mark.parametrize(
    ("tags", "earlier"),
    [
        (attempt_tags("j1", 2), True),
        (("theirs", *attempt_tags("j1", 1)), True),
        (attempt_tags("j1", 3), False),
        (attempt_tags("j1", 4), False),
        (attempt_tags("j2", 1), False),
        (("holdfast-job-j1",), False),
        (("holdfast-job-j1", "holdfast-attempt-x"), False),
        ((), False),
    ],
)
def test_only_earlier_attempts_of_the_same_job_are_recognized(tags: tuple[str, ...], earlier: bool) -> None:
    assert belongs_to_earlier_attempt(tags, ("own", *attempt_tags("j1", 3))) is earlier
    assert not belongs_to_earlier_attempt(tags, ()), "an application without tags has no earlier attempts"
