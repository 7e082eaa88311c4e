"""One run: start a cluster, inject faults one after the other, and record everything until the time is over."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.client import connect
from tests.chaos.catalogue import (
    PlannedFault,
    hits_other_nodes,
    is_permanent,
    jobs_that_may_restart,
    needs_freezable_storage,
    needs_links,
    needs_namespaces,
    needs_small_disk,
    parse_kind,
    plan_faults,
    supported_kinds,
)
from tests.chaos.cluster import CAN_STALL, CLUSTER, AttemptPids, ChaosCluster
from tests.chaos.faults import Victims, build_parts, play
from tests.chaos.history import (
    HEARTBEATS_NAME,
    WITNESS_NAME,
    FaultRecord,
    HistoryWriter,
    RunRecord,
    SteadyJob,
    boottime,
)
from tests.chaos.lanes import Lane
from tests.chaos.small_disk import can_freeze, can_mount
from tests.chaos.state_recorder import StateRecorder
from tests.chaos.traffic import UserTraffic, submit_heartbeat_job
from tests.harness.waiting import wait_until

SMALL_DISK_NODE = "n3"
START_TIMEOUT_S = 120.0
RECOVERY_S = 45.0
"""Time limit for all jobs to be healthy after a fault, on a busy machine."""
SPARK_START_S = 90.0
"""Additional time for a Spark driver to start."""
LOSS_DELAY_S = 60.0
"""Longest delay after repeated losses of one job. An attempt that lives this long resets it."""
START_S = 20.0
"""Time for processes to start on a busy machine."""
STORAGE_RECOVERY_S = 50.0
"""Additional time after which nodes report that a storage is back: three good checks, one every 15 s."""
FRESH_S = 0.5
"""Age up to which a heartbeat counts as a sign of life."""
SETTLE_S = 1.0
"""Time for which the cluster must stay healthy before the next fault: an effect that is late belongs to the last fault."""


@dataclass(frozen=True, slots=True)
class RunSettings:
    seed: int
    seconds: float
    lane: Lane
    out: Path
    faults_max: int | None = None
    duration_s: float | None = None
    """Duration of each fault that has one, instead of a random choice."""
    has_private_namespaces: bool = False
    """True: this process is in a network and a mount namespace of its own, so nodes can have namespaces."""
    say: Callable[[str], None] = print


class ChaosRun:
    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings
        self._out = settings.out.absolute()
        self._heartbeats = self._out / HEARTBEATS_NAME
        self._steady: dict[str, str] = {}
        self._attempt_since: dict[tuple[str, int], float] = {}

    def run(self) -> None:
        """Run until the time is over or `faults_max` faults were injected. All evidence is in the directory `out`."""
        settings = self._settings
        self._heartbeats.mkdir(parents=True)
        history = HistoryWriter(self._out)
        kinds = self._kinds = supported_kinds(
            settings.lane.kinds,
            can_stall=CAN_STALL,
            can_mount=can_mount(self._out / "mount"),
            can_partition=settings.has_private_namespaces,
            can_freeze=settings.has_private_namespaces and can_freeze(self._out / "mount"),
        )
        if missing := set(settings.lane.kinds) - set(kinds):
            settings.say(f"not supported on this machine: {', '.join(sorted(missing))}")
        if not kinds:
            raise SystemExit("no kind of fault of this lane is supported on this machine")
        if needs_links(kinds) and needs_namespaces(kinds):
            raise SystemExit(
                "kinds that cut links need proxies, which nodes in namespaces do not reach: choose one or the other"
            )
        timing = settings.lane.timing
        history.add(RunRecord(settings.seed, kinds, timing.session_timeout_s, timing.margin_s, boottime()))
        with contextlib.ExitStack() as stack:
            stack.callback(history.close)
            cluster = ChaosCluster(
                self._out / "cluster",
                timing,
                has_links=needs_links(kinds),
                small_disk=SMALL_DISK_NODE if needs_small_disk(kinds) else "",
                has_namespaces=needs_namespaces(kinds),
                has_storage_disk=needs_freezable_storage(kinds),
            )
            self._cluster = stack.enter_context(cluster)
            stack.enter_context(self._witness())
            self._client = connect(connect=self._cluster.connect, cluster=CLUSTER)
            self._states = stack.enter_context(StateRecorder(self._client.target, history))
            self._history = history
            self._start_steady_jobs()
            self._traffic = stack.enter_context(UserTraffic(self._client, self._heartbeats, history, settings.seed))
            self._inject_faults()

    @contextlib.contextmanager
    def _witness(self) -> Iterator[None]:
        command = [sys.executable, "-m", "tests.chaos.witness", str(self._cluster.directory), str(self._out / WITNESS_NAME)]
        process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)

    def _start_steady_jobs(self) -> None:
        self._wait_until(self._find_cluster_problem, boottime(), START_TIMEOUT_S, "the cluster does not start")
        names = [f"steady-{number}" for number in range(1, self._settings.lane.steady_jobs + 1)]
        for name in [*names, *(["spark"] if self._settings.lane.spark else [])]:
            job = submit_heartbeat_job(self._client, name, self._heartbeats, name, self._history, spark=name == "spark")
            assert job is not None, f"{name} was not submitted"
            self._steady[job] = name
            self._history.add(SteadyJob(job, name))
        self._wait_until(self._find_problem, boottime(), START_TIMEOUT_S + SPARK_START_S, "the steady jobs do not start")
        self._settings.say(f"{len(self._steady)} jobs run on {len(self._cluster.nodes)} nodes")

    def _wait_until(self, find_problem: Callable[[float], str], since: float, within_s: float, what: str) -> None:
        problem = self._wait_for_recovery(find_problem, since, within_s)
        if problem:
            raise AssertionError(f"{what} within {within_s:g} s: {problem}")

    # Faults

    def _inject_faults(self) -> None:
        end_at = time.monotonic() + self._settings.seconds
        durations = self._settings.lane.timing.durations
        plan = plan_faults(self._settings.seed, self._kinds, durations, duration_s=self._settings.duration_s)
        for number, planned in enumerate(plan, 1):
            if time.monotonic() > end_at or (self._settings.faults_max is not None and number > self._settings.faults_max):
                return
            if not self._inject(number, planned):
                return

    def _inject(self, number: int, planned: PlannedFault) -> bool:
        """Inject a fault and record it. Return False if the cluster does not recover, so that no further fault is useful."""
        victims = self._choose_victims(planned)
        move_bound_s = self._move_limit_s() if is_permanent(planned.kind) else 0.0
        if is_permanent(planned.kind):
            planned = replace(planned, duration_s=move_bound_s)
        hits_others = hits_other_nodes(planned.kind)
        on_node = [each.job for each in self._steady_attempts() if (each.node != victims.node) == hits_others]
        may_restart = jobs_that_may_restart(
            planned.kind,
            duration_s=planned.duration_s,
            harmless_s=self._settings.lane.timing.harmless_s,
            victim=victims.attempt.job,
            jobs_on_node=on_node,
            jobs=list(self._steady),
        )
        must_move = tuple(sorted(on_node)) if is_permanent(planned.kind) else ()
        bound_s = self._recovery_limit_s(planned)
        parts = build_parts(planned, self._cluster, victims)
        with self._paused_readers(planned):
            injected_at, healed_at = play(
                planned,
                self._cluster,
                parts,
                boottime,
                lambda: bool(must_move) and self._run_elsewhere(must_move, victims.node),
            )
        problem = self._wait_for_recovery(self._find_problem, healed_at, bound_s)
        record = FaultRecord(
            number=number,
            kind=planned.kind,
            duration=planned.duration,
            injected_at=injected_at,
            healed_at=healed_at,
            recovered_at=None if problem else boottime(),
            bound_s=bound_s,
            may_restart=tuple(sorted(may_restart)),
            targets=tuple(target for part in parts for target in part.targets),
            problem=problem,
            must_move=must_move,
            move_bound_s=move_bound_s,
        )
        self._history.add(record)
        took = f"not healthy after {bound_s:g} s: {problem}" if problem else f"healthy after {boottime() - healed_at:.1f} s"
        self._settings.say(f"fault {number}: {planned.kind} {planned.duration}: {took}")
        return not problem

    @contextlib.contextmanager
    def _paused_readers(self, planned: PlannedFault) -> Iterator[None]:
        """Keep users and readers away while ZooKeeper has the wrong data: they cannot know that."""
        if "zk-data" not in planned.kind:
            yield
            return
        with self._traffic.paused(), self._states.paused():
            yield

    def _choose_victims(self, planned: PlannedFault) -> Victims:
        """Choose the steady job that was left alone for the longest time, so that losses are not delayed."""
        attempts = sorted(self._steady_attempts(), key=lambda each: self._attempt_since[each.job, each.attempt])
        if any(part.target == "jvm" for part in parse_kind(planned.kind)):
            attempts = [each for each in attempts if each.jvm is not None]
        if needs_small_disk([planned.kind]):
            attempts = [each for each in attempts if each.node == SMALL_DISK_NODE] or attempts
        attempt = attempts[0]
        wait_until(lambda: self._leader is not None, RECOVERY_S, "a leader")  # jobs are healthy without one, too
        leader = self._leader
        assert leader is not None
        servers = list(self._cluster.servers.values())
        node = SMALL_DISK_NODE if needs_small_disk([planned.kind]) else attempt.node
        return Victims(attempt, node, leader, servers[planned.victim % len(servers)])

    @property
    def _leader(self) -> str | None:
        latest = self._states.latest
        return latest.leader if latest is not None else None

    def _recovery_limit_s(self, planned: PlannedFault) -> float:
        """Return the time limit for the recovery."""
        spark_s = SPARK_START_S if self._settings.lane.spark else 0.0
        storage_s = STORAGE_RECOVERY_S if "storage" in planned.kind else 0.0
        return RECOVERY_S + spark_s + storage_s + self._loss_delay_s()

    def _move_limit_s(self) -> float:
        """Return the time limit for the jobs of a lost node to run elsewhere."""
        return self._settings.lane.timing.move_s + START_S + self._loss_delay_s()

    def _loss_delay_s(self) -> float:
        """Return the longest delay before the next attempt. The next loss of a job with a young attempt is delayed."""
        now = boottime()
        is_delayed = any(now - self._attempt_since[each.job, each.attempt] < LOSS_DELAY_S for each in self._steady_attempts())
        return LOSS_DELAY_S if is_delayed else 0.0

    def _run_elsewhere(self, jobs: Iterable[str], node: str) -> bool:
        """Return True if each of the jobs has a driver on another node that writes heartbeats."""
        nodes = {attempt.job: attempt.node for attempt in self._steady_attempts()}
        return all(nodes.get(job, node) != node and self._has_fresh_heartbeat(job) for job in jobs)

    def _steady_attempts(self) -> list[AttemptPids]:
        attempts = [attempt for attempt in self._cluster.attempts() if attempt.job in self._steady]
        for attempt in attempts:
            self._attempt_since.setdefault((attempt.job, attempt.attempt), boottime())
        return attempts

    # Health

    def _wait_for_recovery(self, find_problem: Callable[[float], str], since: float, within_s: float) -> str:
        """Supervise the cluster until it has been healthy for `SETTLE_S`. Return the last problem, or an empty string."""
        give_up_at = time.monotonic() + within_s
        healthy_since: float | None = None
        while True:
            problem = find_problem(since)
            now = time.monotonic()
            healthy_since = None if problem else healthy_since or now
            if healthy_since is not None and now - healthy_since >= SETTLE_S:
                return ""
            if now > give_up_at:
                return problem or "not healthy for long enough"
            self._cluster.run_until(now + 0.1)

    def _find_cluster_problem(self, since: float) -> str:
        latest = self._states.latest
        if not self._cluster.all_servers_run():
            return "a ZooKeeper server does not run"
        if latest is None or latest.at < since:
            return "ZooKeeper does not answer"
        if latest.leader is None:
            return "there is no leader"
        if missing := self._cluster.nodes.keys() - set(latest.nodes):
            return f"{', '.join(sorted(missing))} not registered"
        return ""

    def _find_problem(self, since: float) -> str:
        """Return why the cluster or a steady job is not healthy, from what was observed after `since`."""
        if problem := self._find_cluster_problem(since):
            return problem
        latest = self._states.latest
        assert latest is not None
        drivers = {attempt.job: attempt.attempt for attempt in self._steady_attempts()}
        for job, name in self._steady.items():
            view = latest.jobs.get(job)
            if view is None or view["phase"] != "RUNNING":
                return f"{name} is {view['phase'] if view else 'missing'}: {view['reason'] if view else ''}"
            if latest.leases_written.get(job, float("-inf")) < since:
                return f"{name} runs without a lease: its runner has not written one since the fault"
            if drivers.get(job) != view["attempt"]:
                return f"{name} has no driver of attempt {view['attempt']}"
            if not self._has_fresh_heartbeat(job):
                return f"{name} writes no heartbeats"
        return ""

    def _has_fresh_heartbeat(self, job: str) -> bool:
        try:
            return time.time() - (self._heartbeats / f"{job}.jsonl").stat().st_mtime < FRESH_S
        except FileNotFoundError:
            return False
