"""Application of this driver in YARN, through Hadoop's client in the driver's own JVM.

Spark itself waits silently until YARN has started the application master: for hours, if the queue is full. The runner tags
the application with its job and its attempt, so it is found before Spark reports its id.
"""

import re
from dataclasses import dataclass
from typing import Any

from holdfast.driver_protocol.application_status import APPLICATION_FAILED, APPLICATION_FORGOTTEN
from holdfast.driver_protocol.application_tags import ATTEMPT_TAG, JOB_TAG, belongs_to_earlier_attempt

WAITING_STATES = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED")
LIVE_STATES = (*WAITING_STATES, "RUNNING")
TAGS_SETTING = "spark.yarn.tags"
DIAGNOSTICS_MAX = 300
_TIME = re.compile(r"^\[[^\]]*\]\s*")
_DETAILS = re.compile(r"\s*Details\s*:.*", re.DOTALL)
# A ResourceManager that is away must not block this thread for a quarter of an hour.
_CLIENT_SETTINGS = {
    "yarn.resourcemanager.connect.max-wait.ms": 1000,
    "yarn.resourcemanager.connect.retry-interval.ms": 500,
    "ipc.client.connect.max.retries": 0,
    "ipc.client.connect.timeout": 3000,
    "ipc.client.connect.max.retries.on.timeouts": 0,
}


@dataclass(frozen=True, slots=True)
class YarnReport:
    id: str
    state: str
    queue: str
    diagnostics: str

    def note(self) -> str:
        """Return why the application waits for its first container, or why YARN ended it; otherwise an empty string."""
        reason = shorten_diagnostics(self.diagnostics)
        because = f" ({reason})" if reason else ""
        if self.state in WAITING_STATES:
            return f"waits for YARN: {self.id} is {self.state} in the queue {self.queue}{because}"
        if self.state == APPLICATION_FORGOTTEN:
            return f"YARN's ResourceManager no longer knows {self.id}: it has restarted without recovery"
        return f"YARN ended {self.id}: it is {self.state}{because}" if self.state in APPLICATION_FAILED else ""


def shorten_diagnostics(text: str) -> str:
    """Return YARN's diagnostics on one line, without the time stamp and the list of figures."""
    line = " ".join(_DETAILS.sub("", _TIME.sub("", text.strip())).split()).rstrip(" .;")
    return line if len(line) <= DIAGNOSTICS_MAX else line[: DIAGNOSTICS_MAX - 1] + "…"


class YarnClient:
    """Client of the ResourceManager. Every method raises py4j errors, after a few seconds if no ResourceManager answers."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        conf = jvm.org.apache.spark.deploy.SparkHadoopUtil.get().newConfiguration(jvm.org.apache.spark.SparkConf())
        configuration = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration(conf)
        for name, value in _CLIENT_SETTINGS.items():
            configuration.setInt(name, value)
        tags = conf.get(TAGS_SETTING) or jvm.java.lang.System.getProperty(TAGS_SETTING) or ""
        self.own_tags = tuple(tag.strip() for tag in str(tags).split(",") if tag.strip())
        self._client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
        self._client.init(configuration)
        self._client.start()

    def own_application(self) -> YarnReport | None:
        """Return the application with the tags of this attempt, or None before Spark has submitted it."""
        own = {tag for tag in self.own_tags if tag.startswith((JOB_TAG, ATTEMPT_TAG))}
        found = [
            report for report in self._list_tagged_reports() if own and own <= {str(tag) for tag in report.getApplicationTags()}
        ]
        return _to_report(found[-1]) if found else None

    def report(self, application_id: str) -> YarnReport:
        from py4j.protocol import Py4JJavaError

        id_class = self._jvm.org.apache.hadoop.yarn.api.records.ApplicationId
        try:
            return _to_report(self._client.getApplicationReport(id_class.fromString(application_id)))
        except Py4JJavaError as error:
            if not error.java_exception.getClass().getName().endswith(".ApplicationNotFoundException"):
                raise
            return YarnReport(application_id, APPLICATION_FORGOTTEN, "", "")

    def kill_earlier_attempts(self) -> list[str]:
        """Kill applications of earlier attempts of this job. Return their ids.

        A killed driver cannot withdraw its application, which may still wait in the queue.
        """
        killed = []
        for report in self._list_tagged_reports():
            tags = [str(tag) for tag in report.getApplicationTags()]
            if report.getYarnApplicationState().toString() in LIVE_STATES and belongs_to_earlier_attempt(tags, self.own_tags):
                self._client.killApplication(report.getApplicationId())
                killed.append(str(report.getApplicationId()))
        return killed

    def _list_tagged_reports(self) -> list[Any]:
        """Return the reports of all applications of this job."""
        job_tags = [tag for tag in self.own_tags if tag.startswith(JOB_TAG)]
        if not job_tags:
            return []
        request = self._jvm.org.apache.hadoop.yarn.api.protocolrecords.GetApplicationsRequest.newInstance()
        tags = self._jvm.java.util.HashSet()
        tags.add(job_tags[0])
        request.setApplicationTags(tags)
        return list(self._client.getApplications(request))


def _to_report(report: Any) -> YarnReport:
    # An application master that gives up finishes regularly. Only the final status says that it failed.
    state, final = report.getYarnApplicationState().toString(), report.getFinalApplicationStatus().toString()
    return YarnReport(
        id=report.getApplicationId().toString(),
        state=final if final in APPLICATION_FAILED else state,
        queue=str(report.getQueue()),
        diagnostics=str(report.getDiagnostics() or ""),
    )
