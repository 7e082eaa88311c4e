"""What every committed transaction about a job must keep, whoever made it and whatever it believed (design §5)."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.model.identifiers import NodeId
from tests.sim.jobs.drivers import Drivers, End
from tests.sim.jobs.ledger import Commit, JobRecord, Ledger
from tests.sim.jobs.node import PACE
from tests.sim.nodes import PATHS
from tests.sim.world import World

if TYPE_CHECKING:
    from tests.sim.jobs.oracles import JobOracles

SKEW_S = 1.1
"""Wall clocks of two machines may differ by this much."""
CLOCK_ERROR_S = 1e-6
EVENTS_MAX = 20

Violated = Callable[[str], None]


class Rules:
    def __init__(self, world: World, ledger: Ledger, drivers: Drivers, leadership: "JobOracles", violated: Violated) -> None:
        self._world = world
        self._tree = world.zk.tree
        self._ledger = ledger
        self._drivers = drivers
        self._leadership = leadership
        self._violated = violated
        self._epoch_since_s = 0.0
        self._epoch = 0
        ledger.on_part.append(self._judge)
        ledger.on_lease_gone.append(self._lease_gone)

    def _judge(self, part: str, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        if commit.by_operator:
            return
        if part == "attempt" and after.attempt <= before.attempt and commit.by_agent and not after.swept:
            self._violated(f"the attempt of {after.id} went back from {before.attempt} to {after.attempt}")
        if after.touched:
            if part in ("state", "attempt"):
                self._by_the_leader(commit, f"the {part} of {after.id}")
            if part == "state":
                self._nothing_is_guessed(before, after)
            return  # what was made of garbage is not judged any further: that it harms nobody else is
        match part:
            case _ if after.swept or not commit.sets(PATHS.job(after.id, part)):
                self._swept(part, before, after, commit)
            case "state" if before.state_version >= 0:
                self._state_changed(before, after, commit)
            case "state":
                self._submitted(after, commit)
            case "attempt" if after.attempt > before.attempt:
                self._launched(before, after, commit)
            case "lease" if before.lease_session == 0 and after.lease_session != 0:
                self._lease_taken(before, after, commit)
            case "report" if after.report is not None:
                self._reported(before, after, commit)

    # Submissions

    def _submitted(self, after: JobRecord, commit: Commit) -> None:
        parts = [PATHS.job(after.id, part) for part in ("spec", "desired", "attempt", "report")]
        if not all(commit.sets(path) for path in parts):
            self._violated(f"{after.id} was submitted in more than one step")

    # Leaders

    def _by_the_leader(self, commit: Commit, what: str) -> None:
        """Invariant 3."""
        if not commit.by_agent:
            self._violated(f"{commit.process} wrote {what}")
        elif self._leadership.owner() != commit.session:
            self._violated(f"{commit.process} wrote {what}, and is not the leader of epoch {self._leadership.epoch}")

    def _state_changed(self, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        self._by_the_leader(commit, f"the state of {after.id}")
        if after.state is None:
            self._violated(f"{commit.process} wrote a state of {after.id} that cannot be read")
            return
        if before.final:
            self._violated(f"{after.id} was {before.phase} and became {after.phase}")
        self._event_of(before, after)
        if after.final:
            self._let_go(after)
        self._phase_is_true(after)
        self._failures_only_grow(before, after)
        if (attempt := after.state["attempt"]) > after.attempt:
            self._violated(f"the state of {after.id} tells of attempt {attempt}, and the newest is {after.attempt}")

    def _nothing_is_guessed(self, before: JobRecord, after: JobRecord) -> None:
        """Rule 8: what cannot be read is set aside, unless a lease tells what is true."""
        unread = before.state is None and before.state_version >= 0
        if unread and not before.lease_session and after.phase not in ("QUARANTINED", ""):
            self._violated(f"nobody could read the state of {after.id}, and it became {after.phase}")

    def _swept(self, part: str, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        """Rule 7: as one, and only what ended."""
        if part == "lease" and not after.swept:
            return
        self._by_the_leader(commit, f"the end of {after.id}")
        if not before.final or before.lease_session:
            self._violated(f"{after.id} was swept while it was {before.phase or 'nothing'}")
        if left := self._tree.children(PATHS.job(after.id)):
            self._violated(f"{after.id} was swept by half: {', '.join(left)} is left")

    def _event_of(self, before: JobRecord, after: JobRecord) -> None:
        """Invariant 17: each change has one event, and their numbers are contiguous."""
        assert after.state is not None
        events = after.state["events"]
        number = events[-1]["number"] if events else 0
        if not after.touched and number != after.state_version:
            self._violated(f"version {after.state_version} of the state of {after.id} has event {number}")
        if before.state is not None:
            expected = [*before.state["events"], *events[-1:]][-EVENTS_MAX:]
            if events != expected:
                self._violated(f"a change of {after.id} has not exactly one event")

    def _let_go(self, after: JobRecord) -> None:
        """Rule 7: a final phase, the name and the orders are one transaction."""
        for node in self._tree.children(PATHS.orders):
            if after.id in self._tree.children(f"{PATHS.orders}/{node}"):
                self._violated(f"{after.id} is {after.phase} and still has an order for {node}")
        if after.spec is None:
            return
        name = self._tree.get(PATHS.name(after.spec["name"]))
        if name is not None and f'"{after.id}"'.encode() in name.data:
            self._violated(f"{after.id} is {after.phase} and still owns its name")

    def _phase_is_true(self, after: JobRecord) -> None:
        """By what the kernel knows of its drivers, and what people said."""
        ends = [driver.end for driver in self._drivers.of_job(after.id)]
        if after.phase == "FINISHED" and End.FINISHED not in ends:
            self._violated(f"{after.id} is said to have finished, and no driver of it did")
        if after.phase == "CANCELLED" and after.desired != "cancel":
            self._violated(f"{after.id} is said to be cancelled, and nobody wanted that")
        if after.phase == "FAILED" and after.spec is not None:
            allowed = int(after.spec["restart"].split(":")[1]) if after.spec["restart"].startswith("fixed") else 0
            if ends.count(End.FAILED) <= allowed:
                self._violated(f"{after.id} was given up after {ends.count(End.FAILED)} failures, and {allowed} are allowed")

    def _failures_only_grow(self, before: JobRecord, after: JobRecord) -> None:
        """Invariant 15. No run in a schedule is long enough to be forgiven for."""
        if before.state is None or after.state is None or after.touched:
            return
        counted, counted_before = (record.state["failures"]["in_a_row"] for record in (after, before) if record.state)
        failed = sum(driver.end is End.FAILED for driver in self._drivers.of_job(after.id))
        if counted < counted_before:
            self._violated(f"{after.id} had {counted_before} failures in a row, and now {counted}")
        if counted > failed:
            self._violated(f"{after.id} is blamed for {counted} failures, and its drivers failed {failed} times")

    def _launched(self, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        self._by_the_leader(commit, f"the attempt of {after.id}")
        state, number = after.state, after.attempt
        if state is None or (state["attempt"], state["phase"]) != (number, "STARTING"):
            self._violated(f"attempt {number} of {after.id} was given out, and its state does not say so")
            return
        if before.final:
            self._violated(f"{after.id} is {before.phase}, and got attempt {number}")
        if after.desired != "run":
            self._violated(f"attempt {number} of {after.id} was given out, and it was wanted to {after.desired}")
        if before.lease_session:
            self._violated(f"attempt {number} of {after.id} was given out while another held the lease")
        self._last_one_is_dead(before, number, state["node"])
        self._there_is_room(state["node"])
        self._backed_off(before)

    def _there_is_room(self, node: str) -> None:
        """G6. Each job wants one slot."""
        znode = self._tree.get(PATHS.node(NodeId(node)))
        there = [record.id for record in self._ledger.jobs.values() if record.occupies(node)]
        if znode is not None and len(there) > json.loads(znode.data)["slots"]:
            self._violated(f"{node} was given more than it has room for: {', '.join(there)}")

    def _last_one_is_dead(self, before: JobRecord, number: int, node: str) -> None:
        """Rule 5, and the failsafe set."""
        report = before.report
        if report is None or report["dead"]:
            return
        since_s = max(before.lease_gone_s, self._epoch_taken_s())
        waited_s = self._world.now_s - since_s
        if waited_s < PACE.margin_s - CLOCK_ERROR_S:
            self._violated(f"attempt {number} of {before.id} was given out {waited_s:.2f} s after the last lease was gone")
        if report["failsafe"] and node not in report["failsafe"] and not before.force:
            self._violated(f"attempt {number} of {before.id} was given to {node}, which is none of {report['failsafe']}")

    def _epoch_taken_s(self) -> float:
        if self._leadership.epoch != self._epoch:
            self._epoch, self._epoch_since_s = self._leadership.epoch, self._leadership.epoch_taken_s
        return self._epoch_since_s

    def _backed_off(self, before: JobRecord) -> None:
        """Invariant 15. A person may say that it should not wait."""
        if before.state is None or before.state["phase"] != "BACKOFF" or before.touched:
            return
        early_s = before.state["not_before"] - self._world.wall_s()
        if early_s > SKEW_S and before.spoken_s < before.state_since_s:
            self._violated(f"{before.id} was started {early_s:.1f} s before its time")

    # Runners, and agents on their behalf

    def _lease_taken(self, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        """Rule 3."""
        lease, report = after.lease, after.report
        if lease is None or not commit.by_runner:
            self._violated(f"{commit.process} took the lease of {after.id}")
            return
        number = lease["attempt"]
        if report is None or not commit.sets(PATHS.job(after.id, "report")) or report["attempt"] != number:
            self._violated(f"the lease of attempt {number} of {after.id} was taken without a report")
        if number != after.attempt:
            self._violated(f"the lease of attempt {number} of {after.id} was taken, and the newest is {after.attempt}")
        if after.desired != "run":
            self._violated(f"the lease of attempt {number} of {after.id} was taken, and it was wanted to {after.desired}")
        if before.report is not None and before.report["attempt"] >= number:
            self._violated(f"the lease of attempt {number} of {after.id} was taken twice")

    def _reported(self, before: JobRecord, after: JobRecord, commit: Commit) -> None:
        report = after.report
        assert report is not None
        if commit.by_runner:
            held = after.lease_session or before.lease_session
            if not commit.touches(PATHS.job(after.id, "lease")) or held != commit.session:
                self._violated(f"{commit.process} reported without holding the lease of {after.id}")
        elif not (commit.by_agent and report["dead"]):
            self._violated(f"{commit.process} wrote the report of {after.id}")
        if before.report is not None and report["attempt"] < before.report["attempt"] and not after.touched:
            self._violated(f"the report of {after.id} went back from {before.report['attempt']} to {report['attempt']}")
        if report["dead"]:
            for driver in self._drivers.living(after.id):
                if driver.nonce == report["nonce"]:
                    self._violated(f"{driver} was certified dead, and lives")

    def _lease_gone(self, record: JobRecord, reason: str) -> None:
        """Whoever closes the session of a runner knows that its driver is dead. One that expires is another matter."""
        lease = record.lease
        if lease is None or "expired" in reason or record.touched or self._leadership.lease_may_vanish:
            return
        for driver in self._drivers.living(record.id):
            if driver.nonce == lease["nonce"]:
                self._violated(f"the lease of {driver} ended while it lives: {reason or 'it was deleted'}")
        if "outside" in reason and record.report is not None and not record.report["dead"]:
            self._violated(f"the session of attempt {lease['attempt']} of {record.id} was closed before it was certified dead")
