"""Tags that the runner gives to an application in YARN, so that the driver finds it, and those of earlier attempts."""

from collections.abc import Iterable

JOB_TAG, ATTEMPT_TAG = "holdfast-job-", "holdfast-attempt-"


def attempt_tags(job: str, attempt: int) -> tuple[str, str]:
    return f"{JOB_TAG}{job}".lower(), f"{ATTEMPT_TAG}{attempt}"  # YARN changes tags to lower case


def belongs_to_earlier_attempt(tags: Iterable[str], own_tags: Iterable[str]) -> bool:
    """Return True if tags name the same job as one's own tags, and an earlier attempt."""
    job, attempt = _parse_tags(own_tags)
    other_job, other_attempt = _parse_tags(tags)
    return bool(job) and job == other_job and attempt is not None and other_attempt is not None and other_attempt < attempt


def _parse_tags(tags: Iterable[str]) -> tuple[str, int | None]:
    job, attempt = "", None
    for tag in tags:
        if tag.startswith(JOB_TAG):
            job = tag.removeprefix(JOB_TAG)
        elif (number := tag.removeprefix(ATTEMPT_TAG)) != tag and number.isdecimal():
            attempt = int(number)
    return job, attempt
