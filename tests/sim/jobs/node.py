"""A node that follows orders and leads: the product's agent with all its duties, on a simulated machine."""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.leader.garbage_collector import Sweeper
from holdfast.leader.loop import Leader, Pace, Tell
from holdfast.leader.observer import Observer
from holdfast.model.identifiers import NodeId
from holdfast.model.versions import Versions
from holdfast.node.agent import Agent
from holdfast.node.attempts import AttemptName
from holdfast.node.failsafe import Promises
from holdfast.node.order_executor import Hands
from holdfast.node.role_loops import Duties
from holdfast.node.shared_settings import Commons
from holdfast.plan.retention import Keep
from holdfast.runner.attempt import Patience, Runner
from holdfast.runner.lease import Run
from holdfast.zk.leadership.leadership import Reign
from holdfast.zk.records.submission import submit, want
from holdfast.zk.session.client import Client, Connect
from holdfast.zk.session.timing import Timing
from tests.sim.jobs.drivers import Drivers
from tests.sim.jobs.machine import AttemptFiles, Machine, SimProcess
from tests.sim.jobs.peers import Lan, SimPeers
from tests.sim.jobs.storage import Storage
from tests.sim.jobs.work import SimWork
from tests.sim.jobs.workshop import SimWorkshop
from tests.sim.nodes import PATHS, TIMEOUT_S, TIMING, SimLog, SimNode
from tests.sim.world import World

PACE = Pace(margin_s=TIMING.margin_s, start_s=12.0)
SWEEP_S = 1.0
PATIENCE = Patience(connect_s=8.0, stop_s=3.0, press_s=1.0, report_s=8.0)


class SimPromises(Promises):
    """Written to the simulated disk, which knows what a power failure leaves."""

    fsync = True

    def _write(self, kept: dict[Any, Any]) -> None:
        promises = {job: dataclasses.asdict(each) for job, each in kept.items()}
        data = json.dumps({"boot": self._boot, "promises": promises}).encode()
        self._path.write(data, fsync=self.fsync)  # type: ignore[attr-defined]


class JobLog(SimLog):
    def info(self, event: str, **context: Any) -> None:
        said = tuple(context[key] for key in ("job", "attempt", "phase", "epoch", "reason") if key in context)
        self._world.record("log", self._node, event, *said)


class SimLeader(Leader):
    """The product's, which sweeps sooner than after a minute: schedules are short."""

    def _swept(self) -> Sweeper:
        sweeper = super()._swept()
        sweeper._records_at = min(sweeper._records_at, self._clock.boottime() + SWEEP_S)
        return sweeper


@dataclass(frozen=True)
class Kit:
    """What a cluster is made of: the real things, or a broken variant of one of them."""

    agent: type[Agent] = Agent
    hands: type[Hands] = Hands
    leader: type[SimLeader] = SimLeader
    observer: type[Observer] = Observer
    runner: type[Runner] = Runner
    promises: type[SimPromises] = SimPromises
    workshop: type[SimWorkshop] = SimWorkshop
    work: type[SimWork] = SimWork
    peers: type[SimPeers] = SimPeers
    storage: type[Storage] = Storage
    submit: Callable[..., Any] = submit
    want: Callable[..., Any] = want
    agent_connect: Callable[[Connect], Connect] = lambda connect: connect
    runner_connect: Callable[[Connect], Connect] = lambda connect: connect
    timing: Timing = TIMING
    pace: Pace = PACE


@dataclass
class Surroundings:
    """What all nodes share besides ZooKeeper."""

    drivers: Drivers
    storage: Storage
    lan: Lan
    kit: Kit


class JobNode(SimNode):
    def __init__(self, world: World, name: str, around: Surroundings, *, slots: int) -> None:
        super().__init__(world, name, around.kit.agent, around.kit.timing)
        self.machine = Machine(world, name)
        self.around = around
        self.log = JobLog(world, name)
        self.slots = slots
        self.address = name
        self.keep = Keep()
        self.runners: dict[SimProcess, Runner] = {}
        self.tell: Tell = lambda *_: None
        around.lan.nodes[NodeId(name)] = self

    def be_impatient(self) -> None:
        """As the product is: a server that does not answer is left for another one."""
        self._patience_s = None

    # The agent

    def connect(self) -> Connect:
        return self.around.kit.agent_connect(super().connect())

    def duties(self) -> dict[str, Any]:
        kit, process = self.around.kit, self.world.process(self.process)
        clock = self.world.clock(self.process)
        duties: list[Duties] = []
        workshop = kit.workshop(self, process, lambda: duties[0].a_runner_died())  # noqa: PLW0108
        self.promises = kit.promises(
            self.machine.disk.promises,  # type: ignore[arg-type]
            clock,
            boot=self.machine.boot,
            period_s=TIMEOUT_S,
            started=workshop.newest,
        )

        def make_duties(ring: Callable[[], None]) -> Duties:
            hands = kit.hands(
                PATHS,
                NodeId(self.name),
                workshop=workshop,
                promised_s=lambda job, attempt: self.promises.left_s(job, attempt),  # noqa: PLW0108
                nonce=self.nonce,
                log=self.log,
            )
            duties.append(
                Duties(
                    hands=hands,
                    make_leader=self._leader,
                    make_observer=lambda client: kit.observer(client, PATHS, clock),
                    pause_s=self.timing.heartbeat_s,
                    ring=ring,
                    log=self.log,
                )
            )
            return duties[0]

        return {
            "commons": Commons(PATHS, storage="shared", new_secret=lambda: "secret"),
            "make_duties": make_duties,
        }

    def _leader(self, client: Client, reign: Reign) -> Leader:
        kit = self.around.kit
        clock = self.world.clock(self.process)
        return kit.leader(client, PATHS, reign, clock=clock, pace=kit.pace, log=self.log, keep=self.keep, tell=self.tell)

    def _restart(self) -> None:
        if self.machine.paused:
            self.machine.soon(0.0, self._restart)
        else:
            super()._restart()

    def lose(self) -> None:
        """The power fails: agent, runners, watchdogs and drivers are gone at once. Nobody closes anything."""
        if self.lost:
            return
        self.lost = True
        self.session, self.agent = None, None
        self.around.drivers.power_lost(self.machine)
        self.machine.lose_power()

    # Runners

    def start_runner(self, name: AttemptName, files: AttemptFiles, versions: Versions) -> SimProcess:
        runner = self.machine.spawn(f"runner-{name.job}-{name.attempt}", lambda own: self._run(name, files, own, versions))
        self.world.record("runner", name.job, name.attempt, runner.name)
        for callback in self.on_runner:
            callback(self, name)
        return runner

    on_runner: tuple[Callable[["JobNode", AttemptName], object], ...] = ()

    async def _run(self, name: AttemptName, files: AttemptFiles, own: SimProcess, versions: Versions) -> None:
        kit, around, world = self.around.kit, self.around, self.world
        run = Run(
            *(name.job, name.attempt, NodeId(self.name), name.nonce),
            runner_pid=1,
            version=versions.current,
            on_trial=versions.on_trial,
        )
        runner = kit.runner(
            run,
            PATHS,
            connect=kit.runner_connect(world.connect(own.name, timeout_s=TIMEOUT_S, patience_s=self._patience_s)),
            clock=own.process.clock,
            timing=self.timing,
            work=kit.work(run, self.machine, files, own, around.drivers, around.storage),
            peers=kit.peers(around.lan, world, own),
            log=JobLog(world, own.name),
            patience=PATIENCE,
        )
        self.runners[own] = runner
        try:
            await runner.run()
        except HoldfastError as error:
            world.record("runner failed", own.name, str(error))

    def reaches_zookeeper(self) -> bool:
        network = self.world.zk.network
        servers = self.world.zk.servers
        links = [network.link(self.name, server.index) for server in servers if server.running and server.serving]
        return any(not link.requests_cut and not link.replies_cut for link in links)
