"""Rules for committed transactions about a job, checked independently of the writer's intention.

Rule numbers refer to the rules for writes in docs/architecture.md.
"""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from holdfast.model.identifiers import JobId, NodeId
from holdfast.plan.ended_attempt import FAILURES_WITHOUT_PROGRESS_MAX
from holdfast.zk.session.client import Create, Operation
from tests.sim.jobs.checks.committed_records import Commit, CommittedRecords, Fields, JobRecord
from tests.sim.jobs.cluster.drivers import DriverEnd, DriverRegistry
from tests.sim.jobs.cluster.job_node import LEADER_TIMING
from tests.sim.leadership.agent_node import PATHS
from tests.sim.world import World

if TYPE_CHECKING:
    from tests.sim.jobs.checks.job_oracles import JobOracles

WALL_CLOCK_SKEW_S_MAX = 1.1
"""Maximum difference between the wall clocks of two machines."""
CLOCK_ERROR_S = 1e-6
EVENTS_MAX = 20
_NODES_PREFIX = f"{PATHS.nodes}/"

ReportViolation = Callable[[str], None]


class TransactionRules:
    def __init__(
        self,
        world: World,
        records: CommittedRecords,
        drivers: DriverRegistry,
        oracles: "JobOracles",
        report_violation: ReportViolation,
    ) -> None:
        self._world = world
        self._tree = world.zk.tree
        self._records = records
        self._drivers = drivers
        self._oracles = oracles
        self._report_violation = report_violation
        self._epoch_since_s = 0.0
        self._epoch = 0
        self._registered_s: dict[str, float] = {}
        """Time since which each registered node has been registered without interruption."""
        self._given_up_s: dict[tuple[JobId, int], float] = {}
        """Time at which a leader gave up an attempt without a certificate."""
        records.on_part_written.append(self._check_commit)
        world.zk.on_commit(self._record_registrations)
        world.zk.on_session_end(self._record_session_end)
        records.on_lease_gone.append(self._check_lease_end)

    def _record_registrations(self, _: int, __: int, ___: str, operations: Sequence[Operation], ____: object) -> None:
        for operation in operations:
            if isinstance(operation, Create) and operation.path.startswith(_NODES_PREFIX):
                self._registered_s[operation.path.rpartition("/")[2]] = self._world.now_s

    def _record_session_end(self, _: int, __: int, ___: str, paths: Sequence[str], ____: str) -> None:
        for path in paths:
            if path.startswith(f"{PATHS.nodes}/"):
                self._registered_s.pop(path.rpartition("/")[2], None)

    def _check_commit(self, part: str, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        if commit.by_operator:
            return
        if self._oracles.older_copy_restored and commit.by_agent:
            self._report_violation(f"{commit.process} wrote the {part} of {after.id} in an older copy of ZooKeeper's data")
        if part == "attempt" and after.attempt <= before.attempt and commit.by_agent and not after.garbage_collected:
            self._report_violation(f"the attempt number of {after.id} went from {before.attempt} to {after.attempt}")
        if after.tampered:
            if part in ("state", "attempt"):
                self._check_written_by_leader(commit, f"the {part} of {after.id}")
            if part == "state":
                self._check_quarantine(before, after)
            return  # a job with malformed records is exempt from all other rules; other jobs must be unharmed
        match part:
            case _ if after.garbage_collected or not commit.writes(PATHS.job(after.id, part)):
                self._check_deletion(part, before, after, commit)
            case "state" if before.state_version >= 0:
                self._check_state_change(before, after, commit)
            case "state":
                self._check_submission(after, commit)
            case "attempt" if after.attempt > before.attempt:
                self._check_assignment(before, after, commit)
            case "lease" if before.lease_session == 0 and after.lease_session != 0:
                self._check_lease_taken(before, after, commit)
            case "report" if after.report is not None:
                self._check_report(before, after, commit)

    # Submissions

    def _check_submission(self, after: JobRecord, commit: Commit) -> None:
        parts = [PATHS.job(after.id, part) for part in ("spec", "desired", "attempt", "report")]
        if not all(commit.writes(path) for path in parts):
            self._report_violation(f"{after.id} was submitted in more than one transaction")

    # Leader

    def _check_written_by_leader(self, commit: Commit, what: str) -> None:
        """Invariant 3: only the leader of the newest epoch writes."""
        if not commit.by_agent:
            self._report_violation(f"{commit.process} wrote {what}")
        elif self._oracles.epoch_session() != commit.session:
            self._report_violation(f"{commit.process} wrote {what} but is not the leader of epoch {self._oracles.epoch}")

    def _check_state_change(self, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        self._check_written_by_leader(commit, f"the state of {after.id}")
        if after.state is None:
            self._report_violation(f"{commit.process} wrote an unreadable state of {after.id}")
            return
        if before.is_final:
            self._report_violation(f"{after.id} changed from the final phase {before.phase} to {after.phase}")
        self._check_event(before, after)
        if after.is_final:
            self._check_release(after)
        self._check_phase(after)
        self._check_failure_count(before, after)
        if (attempt := after.state["attempt"]) > after.attempt:
            self._report_violation(f"the state of {after.id} names attempt {attempt}, but the newest is {after.attempt}")
        self._check_certifier(before, after)
        self._check_loss(before, after)

    def _check_loss(self, before: JobRecord, after: JobRecord) -> None:
        """Rule 5: an attempt without a certificate is given up after its lease has been gone for one margin."""
        report = before.report
        is_given_up = before.phase in ("STARTING", "RUNNING", "STOPPING") and after.phase in ("PENDING", "BACKOFF")
        if not is_given_up or report is None or report["dead"] or before.lease_session or after.tampered:
            return
        assert after.state is not None
        if report["attempt"] == after.state["attempt"]:
            self._check_margin(before, f"attempt {report['attempt']} of {after.id} was given up")
            self._given_up_s[after.id, report["attempt"]] = self._world.now_s

    def _check_certifier(self, before: JobRecord, after: JobRecord) -> None:
        """Rule 5: a node of the failsafe set is asked to end an attempt after its lease has been gone for one margin."""
        state, report = after.state, before.report
        assert state is not None
        is_asked = state["phase"] in ("STARTING", "RUNNING", "STOPPING") and report is not None
        if not is_asked or report is None or report["dead"] or report["attempt"] != state["attempt"]:
            return
        if before.lease_session or state["node"] == report["node"] or after.tampered:
            return
        self._check_margin(before, f"{state['node']} was asked to end attempt {state['attempt']} of {after.id}")
        if state["node"] not in report["failsafe"]:
            self._report_violation(
                f"{state['node']} was asked to end attempt {state['attempt']} of {after.id}, outside its failsafe set"
            )

    def _check_quarantine(self, before: JobRecord, after: JobRecord) -> None:
        """Rule 8: a job with an unreadable state is quarantined, unless a live lease tells its state."""
        unread = before.state is None and before.state_version >= 0
        if unread and not before.lease_session and after.phase not in ("QUARANTINED", ""):
            self._report_violation(
                f"the state of {after.id} was unreadable, but the job became {after.phase} instead of QUARANTINED"
            )

    def _check_deletion(self, part: str, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        """Rule 7: a record is deleted in one transaction, and only after the job has ended."""
        if part == "lease" and not after.garbage_collected:
            return
        self._check_written_by_leader(commit, f"the deletion of {after.id}")
        if not before.is_final or before.lease_session:
            self._report_violation(f"{after.id} was deleted in phase {before.phase or '(no state)'}")
        if left := self._tree.children(PATHS.job(after.id)):
            self._report_violation(f"{after.id} was deleted only in part: {', '.join(left)} remains")

    def _check_event(self, before: JobRecord, after: JobRecord) -> None:
        """Invariant 17: each change has one event, and event numbers are contiguous."""
        assert after.state is not None
        events = after.state["events"]
        number = events[-1]["number"] if events else 0
        if not after.tampered and number != after.state_version:
            self._report_violation(f"version {after.state_version} of the state of {after.id} has event number {number}")
        if before.state is not None:
            expected = [*before.state["events"], *events[-1:]][-EVENTS_MAX:]
            if events != expected:
                self._report_violation(f"a change of {after.id} does not have exactly one event")

    def _check_release(self, after: JobRecord) -> None:
        """Rule 7: a final phase, the release of the name and the removal of orders are one transaction."""
        for node in self._tree.children(PATHS.orders):
            if after.id in self._tree.children(f"{PATHS.orders}/{node}"):
                self._report_violation(f"{after.id} is {after.phase} but still has an order for {node}")
        if after.spec is None:
            return
        name = self._tree.get(PATHS.name(after.spec["name"]))
        if name is not None and f'"{after.id}"'.encode() in name.data:
            self._report_violation(f"{after.id} is {after.phase} but still owns its name")

    def _check_phase(self, after: JobRecord) -> None:
        """Check the phase against the actual ends of the drivers and the desired state."""
        ends = [driver.end for driver in self._drivers.list_of_job(after.id)]
        if after.phase in ("FINISHED", "FAILED") and after.is_scheduled:
            self._report_violation(f"{after.id} is {after.phase}, but the end of a run does not end a scheduled job")
        if after.phase == "FINISHED" and DriverEnd.FINISHED not in ends:
            self._report_violation(f"{after.id} is FINISHED, but none of its drivers finished")
        if after.phase == "CANCELLED" and after.desired != "cancel":
            self._report_violation(f"{after.id} is CANCELLED, but the desired state is {after.desired}")
        if after.phase == "RUNNING" and after.state is not None:
            attempt = after.state["attempt"]
            if not any(each.attempt == attempt and each.has_spark for each in self._drivers.list_of_job(after.id)):
                self._report_violation(f"{after.id} is RUNNING, but the driver of attempt {attempt} has no Spark yet")
        if after.phase == "FAILED" and after.spec is not None:
            allowed = _allowed_failures(after.spec)
            if ends.count(DriverEnd.FAILED) <= allowed:
                self._report_violation(
                    f"{after.id} is FAILED after {ends.count(DriverEnd.FAILED)} failures, but {allowed} are allowed"
                )

    def _check_failure_count(self, before: JobRecord, after: JobRecord) -> None:
        """Invariant 15: the failure count never shrinks. No run in a schedule is long enough to reset it."""
        if before.state is None or after.state is None or after.tampered:
            return
        counted, counted_before = (record.state["failures"]["in_a_row"] for record in (after, before) if record.state)
        failed = sum(driver.end is DriverEnd.FAILED for driver in self._drivers.list_of_job(after.id))
        if counted < counted_before and not after.is_scheduled:
            self._report_violation(f"the failure count of {after.id} went from {counted_before} to {counted}")
        if counted > failed:
            self._report_violation(f"{after.id} has a failure count of {counted}, but its drivers failed {failed} times")

    def _check_assignment(self, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        self._check_written_by_leader(commit, f"the attempt of {after.id}")
        state, number = after.state, after.attempt
        if state is None or (state["attempt"], state["phase"]) != (number, "STARTING"):
            self._report_violation(f"attempt {number} of {after.id} was assigned, but its state does not name it")
            return
        if before.is_final:
            self._report_violation(f"attempt {number} of {after.id} was assigned, but the job is {before.phase}")
        if after.desired != "run":
            self._report_violation(f"attempt {number} of {after.id} was assigned, but the desired state is {after.desired}")
        if before.lease_session:
            self._report_violation(f"attempt {number} of {after.id} was assigned while another attempt held the lease")
        self._check_previous_attempt_dead(before, number, state["node"])
        self._check_slots(state["node"])
        self._check_backoff(before)

    def _check_slots(self, node: str) -> None:
        """G6: a node never gets more jobs than slots. Each job needs one slot."""
        znode = self._tree.get(PATHS.node(NodeId(node)))
        there = [record.id for record in self._records.jobs.values() if record.occupies_slot_on(node)]
        if znode is not None and len(there) > json.loads(znode.data)["slots"]:
            self._report_violation(f"{node} was assigned more jobs than it has slots: {', '.join(there)}")

    def _check_previous_attempt_dead(self, before: JobRecord, number: int, node: str) -> None:
        """Rule 5: the previous attempt is certified dead, or its node is gone and its lease has been gone for one margin.

        In the second case the next attempt must be on a node of the failsafe set, unless a user forced it.
        """
        report = before.report
        if report is None or report["dead"]:
            return
        # A leader that has given up the attempt has waited. Its decision is in the state: a later leader need not wait again.
        if self._given_up_s.get((before.id, report["attempt"]), float("-inf")) <= before.lease_gone_s:
            self._check_margin(before, f"attempt {number} of {before.id} was assigned")
        registered_s = self._registered_s.get(report["node"], float("inf"))
        if registered_s < before.lease_gone_s and not before.force:
            self._report_violation(
                f"attempt {number} of {before.id} was assigned without a certificate of {report['node']}, which is registered"
            )
        if report["failsafe"] and node not in report["failsafe"] and not before.force:
            self._report_violation(
                f"attempt {number} of {before.id} was assigned to {node}, outside the failsafe set {report['failsafe']}"
            )

    def _check_margin(self, before: JobRecord, action: str) -> None:
        """Check that the lease has been gone for one margin. A new leader begins the margin again."""
        waited_s = self._world.now_s - max(before.lease_gone_s, self._epoch_taken_s())
        if waited_s < LEADER_TIMING.margin_s - CLOCK_ERROR_S:
            self._report_violation(f"{action} only {waited_s:.2f} s after the last lease was gone")

    def _epoch_taken_s(self) -> float:
        if self._oracles.epoch != self._epoch:
            self._epoch, self._epoch_since_s = self._oracles.epoch, self._oracles.epoch_taken_s
        return self._epoch_since_s

    def _check_backoff(self, before: JobRecord) -> None:
        """Invariant 15: an attempt does not start before its back-off time, unless a user has asked for an earlier start."""
        if before.state is None or before.state["phase"] != "BACKOFF" or before.tampered or before.is_scheduled:
            return  # a run that backs off gives way to the next run
        early_s = before.state["not_before"] - self._world.wall_s()
        if early_s > WALL_CLOCK_SKEW_S_MAX and before.desired_set_s < before.state_since_s:
            self._report_violation(f"{before.id} was started {early_s:.1f} s before its back-off time was over")

    # Runners and agents

    def _check_lease_taken(self, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        """Rule 3: the lease is taken together with the report, for the newest attempt.

        It is taken once, and only if the job should run. A new session of the same runner can take it again.
        """
        lease, report = after.lease, after.report
        if lease is None or not commit.by_runner:
            self._report_violation(f"{commit.process} took the lease of {after.id}")
            return
        number = lease["attempt"]
        if report is None or not commit.writes(PATHS.job(after.id, "report")) or report["attempt"] != number:
            self._report_violation(f"the lease of attempt {number} of {after.id} was taken without a report")
        if number != after.attempt:
            self._report_violation(f"the lease was taken for attempt {number} of {after.id}, but the newest is {after.attempt}")
        if before.report is not None and before.report["nonce"] == lease["nonce"]:
            self._check_lease_retaken(before, after)
            return
        if after.desired != "run":
            self._report_violation(
                f"the lease was taken for attempt {number} of {after.id}, but the desired state is {after.desired}"
            )
        if before.report is not None and before.report["attempt"] >= number:
            self._report_violation(f"the lease of attempt {number} of {after.id} was taken twice")

    def _check_lease_retaken(self, before: JobRecord, after: JobRecord) -> None:
        """Rule 3: the lease is taken again only for the attempt of the report, if the report does not say that it has ended."""
        assert before.report is not None and after.lease is not None and after.report is not None
        number = after.lease["attempt"]
        if before.report["attempt"] != number:
            self._report_violation(
                f"the lease of attempt {number} of {after.id} was taken again, but the report names {before.report['attempt']}"
            )
        if before.report["dead"] or before.report["outcome"] is not None:
            self._report_violation(f"the lease of attempt {number} of {after.id} was taken again after the attempt had ended")
        if after.report != before.report:
            self._report_violation(f"the report of {after.id} changed while the lease of attempt {number} was taken again")

    def _check_report(self, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        report = after.report
        assert report is not None
        if commit.by_runner:
            held = after.lease_session or before.lease_session
            if not commit.includes(PATHS.job(after.id, "lease")) or held != commit.session:
                self._report_violation(f"{commit.process} wrote the report of {after.id} without holding its lease")
        elif not (commit.by_agent and report["dead"]):
            self._report_violation(f"{commit.process} wrote the report of {after.id}")
        if before.report is not None and report["attempt"] < before.report["attempt"] and not after.tampered:
            self._report_violation(
                f"the report of {after.id} went from attempt {before.report['attempt']} to {report['attempt']}"
            )
        if report["dead"]:
            certifier = report.get("expired_on")
            if certifier is not None:
                self._check_expiry(before, after, commit)
            for driver in self._drivers.list_alive(after.id):
                # Without supervision, a simulated driver outlives its deadline. A real one has a timer in the kernel.
                is_exempt = certifier is not None and self._oracles.may_outlive_deadline(driver)
                if driver.nonce == report["nonce"] and not is_exempt:
                    self._report_violation(f"{driver} was certified dead but is alive")

    def _check_expiry(self, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        """Rule 5: a node certifies an attempt of another node without a lease, once its own promise has run out."""
        report = after.report
        assert report is not None
        node = report["expired_on"]
        what = f"attempt {report['attempt']} of {after.id} was certified dead by the expired promise of {node}"
        if not commit.process.startswith(f"{node}/") or node not in report["failsafe"] or node == report["node"]:
            self._report_violation(f"{commit.process} wrote that {what}, which is not its own or not in the failsafe set")
        if after.lease_session:
            self._report_violation(f"{what}, although the attempt has its lease")
        if before.report is not None and report != {**before.report, **_certificate_of(report)}:
            self._report_violation(f"the report of {after.id} changed when {what}")
        if self._oracles.has_unexpired_promise(node, after.id):
            self._report_violation(f"{what}, which is still in force")

    def _check_lease_end(self, record: JobRecord, reason: str) -> None:
        """Check that a session is closed early only after its driver is dead and certified. Expired sessions are exempt."""
        lease = record.lease
        if lease is None or "expired" in reason or record.tampered or self._oracles.leases_removed_by_operator:
            return
        for driver in self._drivers.list_alive(record.id):
            if driver.nonce == lease["nonce"]:
                self._report_violation(f"the lease of {driver} ended while the driver is alive: {reason or 'it was deleted'}")
        if "outside" in reason and record.report is not None and not record.report["dead"]:
            self._report_violation(
                f"the session of attempt {lease['attempt']} of {record.id} was closed before the attempt was certified dead"
            )


def _certificate_of(report: Fields) -> Fields:
    """Return the fields that a certificate may change."""
    return {key: value for key, value in report.items() if key in ("schema", "dead", "expired_on", "outcome")}


def _allowed_failures(spec: Fields) -> float:
    """Return the number of failures after which the job may still not fail. No simulated program makes progress."""
    if spec["restart"].startswith("fixed"):
        return int(spec["restart"].split(":")[1])
    return FAILURES_WITHOUT_PROGRESS_MAX - 1 if spec["restart_is_default"] else float("inf")
