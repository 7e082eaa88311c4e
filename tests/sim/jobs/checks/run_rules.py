"""Invariant 25: rules for the runs of scheduled jobs, checked at each commit independently of the leader's intention."""

from collections.abc import Callable
from typing import Any

from holdfast.model.identifiers import JobId
from tests.sim.jobs.checks.committed_records import Commit, CommittedRecords, JobRecord
from tests.sim.jobs.cluster.drivers import DriverEnd
from tests.sim.jobs.cluster.shared_storage import SharedStorage
from tests.sim.world import World

OVERDUE_S_MAX = 5.0
"""Time after which a run that is due must be opened, while nothing disturbs the cluster."""


class RunRules:
    def __init__(
        self,
        world: World,
        records: CommittedRecords,
        storage: SharedStorage,
        report_violation: Callable[[str], None],
    ) -> None:
        self._world = world
        self._records = records
        self._storage = storage
        self._report_violation = report_violation
        self._runs: dict[JobId, dict[int, dict[str, Any]]] = {}
        """Every run that was opened, by job and number, as it was first committed."""
        self._attempts: dict[JobId, dict[int, int]] = {}
        """Number of the run of each attempt."""
        records.on_part_written.append(self._check_state)

    def _check_state(self, part: str, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        if part != "state" or not commit.by_agent or after.tampered or not after.is_scheduled or after.state is None:
            return
        runs = after.state["runs"]
        run = runs["run"] if runs is not None else None
        if run is not None:
            self._check_open_run(after, run)
        if after.phase == "STARTING" and (run is None or not run["attempts"]):
            self._report_violation(f"attempt {after.state['attempt']} of {after.id} was assigned without a run")
        if before.state is not None and before.state["runs"] is not None:
            self._check_position(before.state["runs"], runs, after.id)

    def _check_open_run(self, record: JobRecord, run: dict[str, Any]) -> None:
        """Check that a new run has the next number and a due time of its own, and that an attempt belongs to one run."""
        assert record.state is not None
        known = self._runs.setdefault(record.id, {})
        if run["number"] not in known:
            if run["number"] != len(known) + 1:
                self._report_violation(f"run {run['number']} of {record.id} was opened after run {len(known)}")
            due = [each["due"] for each in known.values() if not each["requested"]]
            if not run["requested"] and due and run["due"] <= due[-1]:
                self._report_violation(f"run {run['number']} of {record.id} is due at {run['due']}, after one due at {due[-1]}")
            known[run["number"]] = run
        if known[run["number"]]["due"] != run["due"]:
            self._report_violation(f"run {run['number']} of {record.id} changed its due time")
        if record.phase == "STARTING":
            self._attempts.setdefault(record.id, {}).setdefault(record.state["attempt"], run["number"])
            self._check_not_finished(record, run)

    def _check_not_finished(self, record: JobRecord, run: dict[str, Any]) -> None:
        """No run is repeated to success, unless the success was never reported: then the next attempt finds it."""
        assert record.state is not None
        report = record.report
        if report is None or report["outcome"] is None or report["attempt"] >= record.state["attempt"]:
            return
        number = self._attempts.get(record.id, {}).get(report["attempt"])
        if number == run["number"] and report["outcome"]["ending"] == DriverEnd.FINISHED:
            self._report_violation(
                f"run {number} of {record.id} was repeated after attempt {report['attempt']} had finished it"
            )

    def _check_position(self, before: dict[str, Any], after: dict[str, Any] | None, job: JobId) -> None:
        if after is None or after["position"] < before["position"] or after["number"] < before["number"]:
            self._report_violation(f"{job} went back in its schedule")
            return
        was_open, is_open = before["run"], after["run"]
        if was_open is not None and (is_open is None or is_open["number"] != was_open["number"]):
            ended = [run for run in after["ended"] if run["number"] == was_open["number"]]
            if not ended or ended[0]["outcome"] is None:
                self._report_violation(f"run {was_open['number']} of {job} vanished without an outcome")

    def first_attempt_of_open_run(self, job: JobId) -> int:
        """Return the first attempt of the open run of a scheduled job; 0 for any other job."""
        record = self._records.get(job)
        runs = record.state["runs"] if record.state is not None and record.is_scheduled else None
        return int(runs["run"]["first_attempt"]) if runs is not None and runs["run"] is not None else 0

    def health_problem(self, record: JobRecord) -> str:
        """Return why a scheduled job is not as expected after all faults are healed; empty if it is."""
        assert record.state is not None
        if record.phase not in ("SCHEDULED", "STARTING", "RUNNING", "BACKOFF"):
            return f"{record.id} is {record.phase}: {record.state['reason']}"
        overdue_s = self._world.wall_s() - record.state["not_before"]
        if record.phase == "SCHEDULED" and overdue_s > OVERDUE_S_MAX:
            return f"{record.id} has waited for {overdue_s:.1f} s after its run was due"
        return ""
