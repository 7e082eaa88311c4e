"""Spark settings of a job on YARN, in addition to its own."""

from collections.abc import Mapping

from holdfast.driver_protocol.application_tags import attempt_tags

TAGS = "spark.yarn.tags"
DEFAULTS = (
    # Without a period, the failures of months add up, and the third lost executor ends the application.
    ("spark.executor.failuresValidityInterval", "1h"),
    ("spark.yarn.am.attemptFailuresValidityInterval", "1h"),
)
_OLDER_NAMES = {"spark.executor.failuresValidityInterval": "spark.yarn.executor.failuresValidityInterval"}


def yarn_conf(job_conf: Mapping[str, str], job: str, attempt: int) -> dict[str, str]:
    """Return the settings to add: none if the job does not name YARN as its master. The job's own settings take precedence."""
    if job_conf.get("spark.master") != "yarn":
        return {}
    own_tags = filter(None, (tag.strip() for tag in job_conf.get(TAGS, "").split(",")))
    defaults = {
        name: value for name, value in DEFAULTS if name not in job_conf and _OLDER_NAMES.get(name, name) not in job_conf
    }
    return {**defaults, TAGS: ",".join((*own_tags, *attempt_tags(job, attempt)))}
