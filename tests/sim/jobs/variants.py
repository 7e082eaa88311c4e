"""Broken variants of a cluster. Each variant breaks one rule of docs/architecture.md, and some schedule must catch it."""

from dataclasses import dataclass, field

from holdfast.leader.loop import LeaderTiming
from tests.sim.jobs.broken.clients import (
    DesiredAlwaysRun,
    HidesReports,
    IgnoresVersions,
    acknowledge_before_commit,
    acknowledge_desired_before_commit,
    skipping_checks,
    submit_in_two_steps,
    wrapping_client,
)
from tests.sim.jobs.broken.leaders import (
    DeletesInTwoTransactions,
    FinishedRunIsRepeated,
    IgnoresConflicts,
    IgnoresNameOwner,
    MissingStateIsPending,
    NewLeaderContinuesMargin,
    NewLeaderForgetsBackoff,
    NewLeaderForgetsFailures,
    NewLeaderForgetsPosition,
    NodesAreNotAsked,
    NoFailsafeSet,
    ReleasesInSecondTransaction,
    ResetsAttemptNumber,
    RestartingNodeIsGone,
    StopsAtNewerSchema,
    UncheckedDecisions,
    UncheckedReports,
    UnreadableStateIsPending,
    leader_with_observer,
)
from tests.sim.jobs.broken.nodes import (
    CertifiesBeforeKill,
    CertifiesDespiteLease,
    CertifiesWithoutKillingRunner,
    CertifiesWithoutWaiting,
    ClosesSessionFirst,
    ExecutesAnyOrder,
    KillsOnlyDriver,
    LeavesOlderAttempts,
    NoWaitAfterReboot,
    OrdersBeforeRecognition,
    PipeEndIsDeath,
    PromiseCountedFromReply,
    RenewsOrderedPromises,
    RunsAttemptAgain,
    VerifiesOncePerSession,
)
from tests.sim.jobs.broken.runners import (
    AsksConfirmedSetOnly,
    ExecutionWithoutDeadline,
    ExecutionWithoutStartCheck,
    IgnoresOutcomes,
    KillsWhenSuspended,
    LateStartIsJobFailure,
    MajorityOfPromises,
    NewSessionAsConfirmation,
    PromiseWithoutMargin,
    ReadAsHeartbeat,
    ReadsLastOutcomeOnly,
    ReadyAtOnce,
    ReportsOnlyItself,
    ReportsWithoutLease,
    RetakesAfterDeadline,
    RetakesWithoutAttemptCheck,
    RetakesWithoutReportWrite,
    RunnerDeadlineFromReply,
    TakesLossForOutcome,
)
from tests.sim.jobs.cluster.job_node import Components
from tests.sim.leadership.agent_node import TIMING
from tests.sim.leadership.variants import NoEpochCheck, RetryingClient, UnvalidatedTiming


@dataclass(frozen=True)
class Variant:
    """Broken variant of a cluster, or the correct cluster ("sound")."""

    broken_rule: str = ""
    """Rule that the variant does not follow. Rule numbers refer to the rules for writes in docs/architecture.md."""
    caught_by: str = ""
    """Oracle that must report a violation, with the invariant's number if it has one."""
    components: Components = field(default_factory=Components)
    scenarios: tuple[str, ...] = ("handover", "storm")
    """Scenarios in which the variant must be caught."""
    check_recovery: bool = True
    """False if the variant may fail to recover, so that recovery is not checked."""


UNVALIDATED_TIMING = UnvalidatedTiming(tick_s=TIMING.tick_s, margin_s=0.1)

VARIANTS = {
    "sound": Variant(),
    # Rule 1: leader transactions
    "no epoch check": Variant(
        "Rule 1: every leader transaction checks the epoch.",
        "invariant 3, TransactionRules._check_written_by_leader",
        Components(agent=NoEpochCheck),
        scenarios=("leader",),
    ),
    "decision inputs not checked": Variant(
        "Rule 1: a leader transaction checks the version of every znode that it was decided from.",
        "TransactionRules._check_assignment",
        Components(leader=UncheckedDecisions),
        scenarios=("leader",),
    ),
    "versions not checked": Variant(
        "Rule 1: there are no unconditional writes.",
        "TransactionRules._check_report",
        Components(agent_connect=wrapping_client(IgnoresVersions)),
        scenarios=("leader",),
    ),
    "results not inspected": Variant(
        "Rule 1: the leader inspects the result of every transaction.",
        "invariant 17, JobOracles.check_event",
        Components(leader=IgnoresConflicts),
        scenarios=("leader",),
    ),
    "retry across expiry": Variant(
        "Rule 1: no write is retried in another session.",
        "LeadershipOracles._check_claims",
        Components(agent_connect=lambda connect: lambda wake: RetryingClient(connect, wake)),
        check_recovery=False,
    ),
    # Rule 2: submissions
    "submit in two steps": Variant(
        "Rule 2: a submission is one transaction.",
        "invariant 6, Users.check_acknowledged",
        Components(submit=submit_in_two_steps),
    ),
    "submit acknowledged before commit": Variant(
        "Rule 2: a submission is acknowledged after it is committed.",
        "invariant 7, Users.submit",
        Components(submit=acknowledge_before_commit),
    ),
    "cancel acknowledged before commit": Variant(
        "A cancel is acknowledged after it is committed.",
        "invariant 5, Users.check_acknowledged",
        Components(set_desired=acknowledge_desired_before_commit),
    ),
    "job without state started": Variant(
        "Rule 2: a job without `state` is quarantined and never started.",
        "JobOracles._check_driver_start",
        Components(leader=leader_with_observer(MissingStateIsPending), observer=MissingStateIsPending),
        scenarios=("garbage",),
    ),
    "job without name started": Variant(
        "Rule 2: a job whose name does not point back to it is quarantined and never started.",
        "JobOracles._check_driver_start",
        Components(leader=leader_with_observer(IgnoresNameOwner), observer=IgnoresNameOwner),
        scenarios=("garbage",),
    ),
    # Rule 3: taking the lease
    "lease without attempt check": Variant(
        "Rule 3: taking the lease checks `attempt`.",
        "TransactionRules._check_lease_taken",
        Components(runner_connect=skipping_checks("/attempt")),
        scenarios=("lease",),
    ),
    "lease without desired check": Variant(
        "Rule 3: taking the lease checks `desired`.",
        "TransactionRules._check_lease_taken",
        Components(runner_connect=skipping_checks("/desired", DesiredAlwaysRun)),
    ),
    "attempt number run twice": Variant(
        "Rule 3: the lease is refused if `report` already names this attempt or a later one.",
        "TransactionRules._check_lease_taken",
        Components(order_executor=RunsAttemptAgain, runner_connect=skipping_checks("/report", HidesReports)),
    ),
    "lease taken again without attempt check": Variant(
        "Rule 3: taking the lease again checks `attempt`.",
        "TransactionRules._check_lease_taken",
        Components(runner=RetakesWithoutAttemptCheck),
        scenarios=("failsafe",),
    ),
    "lease taken again without report": Variant(
        "Rules 3 and 4: taking the lease again writes `report`, so that decisions from the missing lease conflict.",
        "TransactionRules._check_lease_taken",
        Components(runner=RetakesWithoutReportWrite),
        scenarios=("failsafe", "outage"),
    ),
    "lease taken again after the deadline": Variant(
        "A runner whose session has ended keeps its driver only while promises are in force.",
        "JobOracles._check_lease_or_promises",
        Components(runner=RetakesAfterDeadline),
        scenarios=("failsafe", "storm", "handover"),
    ),
    "new session taken for a confirmation": Variant(
        "After the end of a session, only promises and writes of the session that holds the lease extend the deadline.",
        "JobOracles._check_lease_or_promises",
        Components(runner=NewSessionAsConfirmation),
        scenarios=("failsafe",),
    ),
    # Rule 4: reports
    "missing lease without report check": Variant(
        "Rule 4: a leader that decides from a missing lease also checks the version of `report`.",
        "TransactionRules._check_assignment",
        Components(leader=UncheckedReports),
        scenarios=("lease",),
    ),
    "report without lease": Variant(
        "Rule 4: a runner writes `report` only together with a check of its own lease.",
        "TransactionRules._check_report",
        Components(runner=ReportsWithoutLease),
    ),
    # Rule 5: the margin before the next attempt
    "no margin": Variant(
        "Rule 5: without a death certificate, the next attempt starts one margin after the lease was gone.",
        "TransactionRules._check_previous_attempt_dead",
        Components(leader_timing=LeaderTiming(margin_s=0.0, start_s=12.0)),
        scenarios=("expulsion", "handover"),
    ),
    "margin continued by new leader": Variant(
        "Rule 5: a new leader begins the margin again.",
        "TransactionRules._check_certifier",
        Components(leader=leader_with_observer(NewLeaderContinuesMargin), observer=NewLeaderContinuesMargin),
        scenarios=("leader",),
    ),
    "registered node not asked": Variant(
        "Rule 5: while the node of the last attempt is registered, only its certificate proves the death of the attempt.",
        "TransactionRules._check_previous_attempt_dead",
        Components(leader=leader_with_observer(NodesAreNotAsked), observer=NodesAreNotAsked),
        scenarios=("stopped",),
    ),
    "restarting node taken for gone": Variant(
        "Rule 5: without a certificate, the node must have been gone for a margin.",
        "invariant 1, JobOracles._check_overlap",
        Components(leader=leader_with_observer(RestartingNodeIsGone), observer=RestartingNodeIsGone),
        scenarios=("stopped",),
    ),
    "attempt certified without ending it": Variant(
        "A node that is asked to end an attempt kills all its processes before it certifies the death.",
        "TransactionRules._check_report",
        Components(order_executor=CertifiesWithoutKillingRunner),
        scenarios=("stopped",),
    ),
    "older attempt left running before spawn": Variant(
        "A node ends the older attempts of a job before it starts the next one.",
        "invariant 1, JobOracles._check_overlap",
        Components(order_executor=LeavesOlderAttempts),
        scenarios=("stopped agent",),
    ),
    "certified while promised": Variant(
        "Rule 5: a node certifies an attempt of another node after its own promise has run out.",
        "TransactionRules._check_expiry",
        Components(order_executor=CertifiesWithoutWaiting),
        scenarios=("cut node", "failsafe"),
    ),
    "certified despite lease": Variant(
        "Rule 5: a node certifies an attempt of another node only if the attempt has no lease and its report is unchanged.",
        "TransactionRules._check_expiry",
        Components(order_executor=CertifiesDespiteLease),
        scenarios=("cut node",),
    ),
    "promise renewed for ordered end": Variant(
        "A node that is ordered to end an attempt of another node does not renew its promise.",
        "ScenarioRun.execute",
        Components(promises=RenewsOrderedPromises),
        scenarios=("cut node",),
    ),
    # Rule 6: outcomes in the checkpoint
    "checkpoint outcomes not read": Variant(
        "Rule 6: a new attempt reads the outcomes in the checkpoint before it starts the driver.",
        "JobOracles._check_driver_start",
        Components(storage=IgnoresOutcomes),
        scenarios=("ending",),
    ),
    "only last checkpoint outcome read": Variant(
        "Rule 6: a new attempt reads the outcomes of all attempts whose end ZooKeeper may not know, not only of the last one.",
        "JobOracles._check_driver_start",
        Components(storage=ReadsLastOutcomeOnly),
        scenarios=("ending",),
    ),
    "loss taken for an outcome": Variant(
        "Rule 6: a report that says LOST does not prove that ZooKeeper knows the outcomes of the attempt and of earlier ones.",
        "JobOracles._check_driver_start",
        Components(storage=TakesLossForOutcome),
        scenarios=("ending",),
    ),
    "unreported attempts forgotten": Variant(
        "Rule 6: each report carries on which earlier attempts may have an outcome that ZooKeeper lacks.",
        "JobOracles._check_driver_start",
        Components(runner=ReportsOnlyItself),
        scenarios=("ending",),
    ),
    "late start counted as job failure": Variant(
        "A start that was refused after the deadline does not count as a failure of the job.",
        "TransactionRules._check_phase",
        Components(driver_execution=LateStartIsJobFailure),
        scenarios=("lease", "words"),
    ),
    # Rule 7: final phases and deletion
    "name released in second transaction": Variant(
        "Rule 7: the final phase, the release of the name and the removal of the order are one transaction.",
        "TransactionRules._check_release",
        Components(leader=ReleasesInSecondTransaction),
    ),
    "record deleted in two transactions": Variant(
        "Rule 7: the deletion of an old record is one transaction.",
        "TransactionRules._check_commit",
        Components(leader=DeletesInTwoTransactions),
        scenarios=("ending",),
    ),
    # Rule 8: unreadable records
    "unreadable state taken for new job": Variant(
        "Rule 8: bytes that do not parse quarantine the job.",
        "TransactionRules._check_quarantine",
        Components(leader=leader_with_observer(UnreadableStateIsPending), observer=UnreadableStateIsPending),
        scenarios=("garbage",),
    ),
    "quarantine resets attempt number": Variant(
        "Rule 8: a quarantined job keeps its attempt number.",
        "TransactionRules._check_commit",
        Components(leader=ResetsAttemptNumber),
        scenarios=("garbage",),
    ),
    "newer schema stops the leader": Variant(
        "Rule 8: a record of a newer schema concerns one job.",
        "invariant 20, JobOracles.unhealthy_jobs",
        Components(leader=StopsAtNewerSchema),
        scenarios=("garbage",),
    ),
    # Rule 9: an older ZooKeeper
    "orders before recognition": Variant(
        "Rule 9: a node follows orders and certifies deaths only after it has verified the cluster.",
        "invariant 24, JobOracles._check_runner_start",
        Components(agent=OrdersBeforeRecognition),
        scenarios=("older copy",),
    ),
    "cluster verified once per session": Variant(
        "Rule 9: a node verifies the cluster again on each connection.",
        "TransactionRules._check_commit",
        Components(agent=VerifiesOncePerSession),
        scenarios=("older copy",),
    ),
    # Orders and death certificates
    "order followed without state": Variant(
        "A node ignores an order that does not match `state`.",
        "invariant 24, JobOracles._check_runner_start",
        Components(order_executor=ExecutesAnyOrder),
        scenarios=("garbage",),
    ),
    "session closed before driver is dead": Variant(
        "The agent closes the session of a dead runner after its driver is certified dead.",
        "TransactionRules._check_lease_end",
        Components(order_executor=ClosesSessionFirst),
    ),
    "certified before processes are dead": Variant(
        "The agent certifies an attempt after all its processes are dead.",
        "TransactionRules._check_report",
        Components(order_executor=CertifiesBeforeKill),
    ),
    "pipe end taken for death": Variant(
        "A runner is dead when the kernel says so, not when its pipe ends.",
        "invariant 8, ScenarioRun.check_no_driver_ended",
        Components(attempts=PipeEndIsDeath),
        scenarios=("failover",),
    ),
    "tree killed without watchdog": Variant(
        "The watchdog is killed before the tree, so that it starts nothing afterwards.",
        "JobOracles._check_driver_start",
        Components(attempts=KillsOnlyDriver),
        scenarios=("lease",),
    ),
    "running before Spark exists": Variant(
        "A job is STARTING until its driver has Spark.",
        "TransactionRules._check_phase",
        Components(driver_execution=ReadyAtOnce),
        scenarios=("words", "storm"),
    ),
    # Leases and time
    "margin too small": Variant(
        "margin > heartbeat + tick + kill time.",
        "TransactionRules._check_previous_attempt_dead",
        Components(timing=UNVALIDATED_TIMING, leader_timing=LeaderTiming(0.1, 12.0)),
        scenarios=("lease",),
        check_recovery=False,
    ),
    "deadline counted from the reply": Variant(
        "A confirmation counts from the time at which it was sent.",
        "JobOracles._check_lease_or_promises",
        Components(runner=RunnerDeadlineFromReply),
        scenarios=("lease",),
    ),
    "read taken for a confirmation": Variant(
        "Only a committed write confirms the lease.",
        "JobOracles._check_lease_or_promises",
        Components(runner=ReadAsHeartbeat),
        scenarios=("lease",),
        check_recovery=False,
    ),
    "lost connection taken for lost lease": Variant(
        "G1: losing the connection alone changes nothing.",
        "ScenarioRun.check_no_driver_ended",
        Components(runner=KillsWhenSuspended),
        scenarios=("blip", "outage"),
    ),
    "watchdog without deadline": Variant(
        "The watchdog kills the tree at the deadline.",
        "JobOracles._check_lease_or_promises",
        Components(driver_execution=ExecutionWithoutDeadline),
        scenarios=("lease",),
    ),
    "start after the deadline": Variant(
        "The watchdog starts nothing after the deadline.",
        "invariant 1, JobOracles._check_overlap",
        Components(driver_execution=ExecutionWithoutStartCheck),
        scenarios=("lease",),
    ),
    # Failsafe promises
    "promise not synced to disk": Variant(
        "A promise is synced to disk before it is answered.",
        "TransactionRules._check_report",
        Components(promises_fsync=False),
        scenarios=("failsafe",),
    ),
    "no wait after reboot": Variant(
        "After a reboot, a node waits one promise period before it starts an attempt, or certifies one of another node.",
        "TransactionRules._check_report",
        Components(promises=NoWaitAfterReboot),
        scenarios=("failsafe",),
    ),
    "promise counted from the reply": Variant(
        "A promise counts from the time at which the request was sent.",
        "JobOracles._check_lease_or_promises",
        # The margin alone would hide the error.
        Components(exchange=PromiseCountedFromReply, runner=PromiseWithoutMargin),
        scenarios=("failsafe",),
    ),
    "promise used without margin": Variant(
        "A driver ends one margin before its promise runs out.",
        "JobOracles._check_lease_or_promises",
        Components(runner=PromiseWithoutMargin),
        scenarios=("failsafe",),
    ),
    "majority of promises accepted": Variant(
        "Every node of the failsafe set must promise.",
        "JobOracles._check_lease_or_promises",
        Components(peers=MajorityOfPromises),
        scenarios=("failsafe",),
    ),
    "next attempt outside the failsafe set": Variant(
        "Without a death certificate, the next attempt starts only on a node of the failsafe set.",
        "TransactionRules._check_previous_attempt_dead",
        Components(leader=leader_with_observer(NoFailsafeSet), observer=NoFailsafeSet),
        scenarios=("failsafe",),
    ),
    "possible failsafe set ignored": Variant(
        "If the write of a new failsafe set has an unknown outcome, the nodes of both sets must promise.",
        "JobOracles._check_lease_or_promises",
        Components(runner=AsksConfirmedSetOnly),
        scenarios=("failsafe",),
    ),
    # Schedules
    "new leader forgets the position": Variant(
        "The position in the schedule survives a leader failover.",
        "RunRules._check_position",
        Components(leader=leader_with_observer(NewLeaderForgetsPosition), observer=NewLeaderForgetsPosition),
        scenarios=("schedule",),
    ),
    "finished run repeated": Variant(
        "The end of a run and its outcome are one transaction.",
        "RunRules._check_not_finished",
        Components(leader=FinishedRunIsRepeated),
        scenarios=("schedule",),
    ),
    # Restart budget
    "new leader forgets failures": Variant(
        "The failure count survives a leader failover.",
        "invariant 15, TransactionRules._check_failure_count",
        Components(leader=leader_with_observer(NewLeaderForgetsFailures), observer=NewLeaderForgetsFailures),
    ),
    "new leader forgets back-off": Variant(
        "The back-off time survives a leader failover.",
        "invariant 15, TransactionRules._check_backoff",
        Components(leader=leader_with_observer(NewLeaderForgetsBackoff), observer=NewLeaderForgetsBackoff),
    ),
}
