"""Simulated node that executes orders and can lead: a real agent with all its role loops on a simulated machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.leader.garbage_collector import GarbageCollector
from holdfast.leader.loop import EventListener, Leader, LeaderTiming
from holdfast.leader.observer import Observer
from holdfast.model.identifiers import NodeId
from holdfast.model.versions import Versions
from holdfast.node.agent import Agent
from holdfast.node.attempts import AttemptId
from holdfast.node.failsafe.exchange import PromiseExchange
from holdfast.node.failsafe.known_peers import KnownPeers
from holdfast.node.failsafe.promises import FailsafePromises
from holdfast.node.order_executor import OrderExecutor
from holdfast.node.role_loops import RoleLoops
from holdfast.node.shared_settings import SharedSettings
from holdfast.plan.retention import RetentionPolicy
from holdfast.runner.attempt import Runner
from holdfast.runner.lease import AttemptAssignment
from holdfast.runner.timeouts import AttemptTimeouts
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.records.submission import set_desired, submit
from holdfast.zk.session.client import Client, ClientFactory
from holdfast.zk.session.timing import SteadyContact, Timing
from tests.sim.jobs.cluster.driver_execution import SimDriverExecution
from tests.sim.jobs.cluster.drivers import DriverRegistry
from tests.sim.jobs.cluster.machine import SimAttemptDirectory, SimMachine, SimProcess
from tests.sim.jobs.cluster.node_attempts import SimAttemptOperations
from tests.sim.jobs.cluster.peers import Lan, SimGrantedPromises, SimJournal, SimPromiseTransport, SimRunnerFiles
from tests.sim.jobs.cluster.shared_storage import SharedStorage
from tests.sim.leadership.agent_node import PATHS, TIMEOUT_S, TIMING, SimLog, SimNode
from tests.sim.world import World

LEADER_TIMING = LeaderTiming(margin_s=TIMING.margin_s, start_s=12.0, session_timeout_s=TIMEOUT_S)
GARBAGE_COLLECTION_S = 1.0
RUNNER_TIMEOUTS = AttemptTimeouts(connect_timeout_s=8.0, stop_timeout_s=3.0, sigterm_timeout_s=1.0, release_timeout_s=8.0)


class JobLog(SimLog):
    def info(self, event: str, **context: Any) -> None:
        fields = tuple(context[key] for key in ("job", "attempt", "phase", "epoch", "reason") if key in context)
        self._world.record("log", self._node, event, *fields)


class SimLeader(Leader):
    """Leader that collects garbage after a second instead of a minute, because schedules are short."""

    def _get_garbage_collector(self) -> GarbageCollector:
        collector = super()._get_garbage_collector()
        collector._records_at = min(collector._records_at, self._clock.boottime() + GARBAGE_COLLECTION_S)
        return collector


@dataclass(frozen=True)
class Components:
    """Classes and functions that a cluster is built from: the real ones, or a broken variant of one of them."""

    agent: type[Agent] = Agent
    order_executor: type[OrderExecutor] = OrderExecutor
    leader: type[SimLeader] = SimLeader
    observer: type[Observer] = Observer
    runner: type[Runner] = Runner
    promises: type[FailsafePromises] = FailsafePromises
    promises_fsync: bool = True
    exchange: type[PromiseExchange] = PromiseExchange
    attempts: type[SimAttemptOperations] = SimAttemptOperations
    driver_execution: type[SimDriverExecution] = SimDriverExecution
    peers: type[SimGrantedPromises] = SimGrantedPromises
    storage: type[SharedStorage] = SharedStorage
    submit: Callable[..., Any] = submit
    set_desired: Callable[..., Any] = set_desired
    agent_connect: Callable[[ClientFactory], ClientFactory] = lambda connect: connect
    runner_connect: Callable[[ClientFactory], ClientFactory] = lambda connect: connect
    timing: Timing = TIMING
    leader_timing: LeaderTiming = LEADER_TIMING


@dataclass
class SharedEnvironment:
    """Environment that all nodes share, besides ZooKeeper."""

    drivers: DriverRegistry
    storage: SharedStorage
    lan: Lan
    components: Components


class JobNode(SimNode):
    def __init__(self, world: World, name: str, environment: SharedEnvironment, *, slots: int) -> None:
        super().__init__(world, name, environment.components.agent, environment.components.timing)
        self.machine = SimMachine(world, name)
        self.environment = environment
        self.log = JobLog(world, name)
        self.slots = slots
        self.address = name
        self.retention = RetentionPolicy()
        self.runners: dict[SimProcess, Runner] = {}
        self.on_event: EventListener = lambda *_: None
        environment.lan.nodes[NodeId(name)] = self

    def use_default_reply_timeout(self) -> None:
        """Leave unresponsive servers after the default reply timeout."""
        self._reply_timeout_s = None

    # Agent

    def connect(self) -> ClientFactory:
        return self.environment.components.agent_connect(super().connect())

    def agent_options(self) -> dict[str, Any]:
        components, process = self.environment.components, self.world.process(self.process)
        clock = self.world.clock(self.process)
        role_loops: list[RoleLoops] = []
        attempts = components.attempts(self, process, lambda: role_loops[0].on_runner_exit())  # noqa: PLW0108 -- the list is filled later
        self.promises = components.promises(
            SimJournal(self.machine.disk.promises, self.environment.lan, fsync=components.promises_fsync),
            clock,
            boot=self.machine.boot,
            period_s=TIMEOUT_S + self.timing.margin_s,
            newest_started=attempts.newest_attempt,
        )
        self.peers = KnownPeers(PATHS, NodeId(self.name), clock, saved=self.machine.disk.peers, save=self._save_peers)

        def make_role_loops(on_leader_change: Callable[[], None]) -> RoleLoops:
            order_executor = components.order_executor(
                PATHS,
                NodeId(self.name),
                attempts=attempts,
                promises=self.promises,
                nonce=self.nonce,
                wall=clock.wall,
                log=self.log,
            )
            role_loops.append(
                RoleLoops(
                    order_executor=order_executor,
                    make_leader=self._make_leader,
                    make_observer=lambda client: components.observer(client, PATHS, clock),
                    pause_s=self.timing.heartbeat_s,
                    on_leader_change=on_leader_change,
                    log=self.log,
                )
            )
            return role_loops[0]

        return {
            "shared_settings": SharedSettings(PATHS, storage="shared", new_secret=lambda: "secret"),
            "known_peers": self.peers,
            "make_role_loops": make_role_loops,
        }

    def _save_peers(self, addresses: Mapping[NodeId, str]) -> None:
        self.machine.disk.peers = dict(addresses)

    def start(self) -> None:
        super().start()
        process = self.world.process(self.process)
        exchange = self.environment.components.exchange(
            NodeId(self.name),
            promises=self.promises,
            runners=SimRunnerFiles(self.machine),
            peers=self.peers,
            transport=SimPromiseTransport(self.environment.lan, self.world, process),
            clock=process.clock,
            timing=self.timing,
            timeout_s=TIMEOUT_S,
            log=self.log,
        )
        self.world.spawn(self.process, exchange.run)

    def _make_leader(self, client: Client, leadership: Leadership, contact: SteadyContact) -> Leader:
        components = self.environment.components
        clock = self.world.clock(self.process)
        return components.leader(
            client,
            PATHS,
            leadership,
            clock=clock,
            timing=components.leader_timing,
            contact=contact,
            log=self.log,
            retention=self.retention,
            on_event=self.on_event,
        )

    def _restart(self) -> None:
        if self.machine.paused:
            self.machine.schedule_in_kernel(0.0, self._restart)
        else:
            super()._restart()

    def power_off(self) -> None:
        """Cut the power: agent, runners, watchdogs and drivers end at once. Their sessions remain until they expire."""
        if self.powered_off:
            return
        self.powered_off = True
        self.session, self.agent = None, None
        self.environment.drivers.mark_power_lost(self.machine)
        self.machine.lose_power()

    # Runners

    def start_runner(self, attempt_id: AttemptId, files: SimAttemptDirectory, versions: Versions) -> SimProcess:
        runner = self.machine.spawn(
            f"runner-{attempt_id.job}-{attempt_id.attempt}", lambda process: self._run(attempt_id, files, process, versions)
        )
        self.world.record("runner", attempt_id.job, attempt_id.attempt, runner.name)
        for callback in self.on_runner_start:
            callback(self, attempt_id)
        return runner

    on_runner_start: tuple[Callable[["JobNode", AttemptId], object], ...] = ()

    async def _run(self, attempt_id: AttemptId, files: SimAttemptDirectory, process: SimProcess, versions: Versions) -> None:
        components, environment, world = self.environment.components, self.environment, self.world
        assignment = AttemptAssignment(
            *(attempt_id.job, attempt_id.attempt, NodeId(self.name), attempt_id.nonce),
            runner_pid=1,
            version=versions.current,
            on_trial=versions.on_trial,
        )
        runner = components.runner(
            assignment,
            PATHS,
            connect=components.runner_connect(
                world.connect(process.name, timeout_s=TIMEOUT_S, reply_timeout_s=self._reply_timeout_s)
            ),
            clock=process.process.clock,
            timing=self.timing,
            driver=components.driver_execution(
                assignment, self.machine, files, process, environment.drivers, environment.storage
            ),
            peers=components.peers(files),
            log=JobLog(world, process.name),
            timeouts=RUNNER_TIMEOUTS,
        )
        self.runners[process] = runner
        try:
            await runner.run()
        except HoldfastError as error:
            world.record("runner failed", process.name, str(error))

    def reaches_zookeeper(self) -> bool:
        network = self.world.zk.network
        servers = self.world.zk.servers
        links = [network.link(self.name, server.index) for server in servers if server.running and server.serving]
        return any(not link.requests_cut and not link.replies_cut for link in links)
