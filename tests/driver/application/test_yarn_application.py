"""Sentences about an application in YARN."""

import pytest

from holdfast.driver.application.yarn_application import YarnReport, shorten_diagnostics

ACTIVATED = (
    "[Wed Nov 18 20:18:35 +0000 2026] Application is Activated, waiting for resources to be assigned for AM.  Details : AM "
    "Partition = <DEFAULT_PARTITION> ; Partition Resource = <memory:4096, vCores:8> ; Queue's Absolute capacity = 50.0 % ; "
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ACTIVATED, "Application is Activated, waiting for resources to be assigned for AM"),
        ("", ""),
        ("  first\n\tsecond; ", "first second"),
        ("x" * 500, "x" * 299 + "…"),
    ],
)
def test_diagnostics_are_one_short_line_that_does_not_change_with_time(text: str, expected: str) -> None:
    assert shorten_diagnostics(text) == expected


@pytest.mark.parametrize(
    ("state", "diagnostics", "expected"),
    [
        (
            "ACCEPTED",
            ACTIVATED,
            "waits for YARN: application_1_2 is ACCEPTED in the queue root.narrow (Application is Activated, waiting for "
            "resources to be assigned for AM)",
        ),
        ("NEW", "", "waits for YARN: application_1_2 is NEW in the queue root.narrow"),
        ("RUNNING", ACTIVATED, ""),
        ("FINISHED", "", ""),
        ("KILLED", "by admin", "YARN ended application_1_2: it is KILLED (by admin)"),
        (
            "FORGOTTEN",
            "",
            "YARN's ResourceManager no longer knows application_1_2: it has restarted without recovery",
        ),
    ],
)
def test_note_says_what_an_application_waits_for_or_why_it_ended(state: str, diagnostics: str, expected: str) -> None:
    assert YarnReport("application_1_2", state, "root.narrow", diagnostics).note() == expected
