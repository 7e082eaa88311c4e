"""Construction of the objects that a real node needs to execute orders and to lead."""

import asyncio
import functools
import secrets
from collections.abc import Callable
from pathlib import Path

from holdfast.clock import Clock, boot_id
from holdfast.config import Config
from holdfast.leader.loop import Leader, LeaderTiming
from holdfast.leader.observer import Observer
from holdfast.log import Log
from holdfast.model.identifiers import JobId
from holdfast.node.attempts import NodeAttempts
from holdfast.node.cds_keeper import CdsKeeper
from holdfast.node.cleanup.attempt_directories import AttemptDirectoryCleanup
from holdfast.node.event_log import EventLog
from holdfast.node.failsafe.exchange import PromiseExchange
from holdfast.node.failsafe.journal import PromiseJournal
from holdfast.node.failsafe.known_peers import KnownPeers, PeersFile
from holdfast.node.failsafe.peer_http import HttpPromiseTransport
from holdfast.node.failsafe.promises import FailsafePromises
from holdfast.node.failsafe.runner_files import RunnerFiles
from holdfast.node.health.checks import check_disk, check_memory, check_storage
from holdfast.node.health.monitor import STORAGE_CHECK_INTERVAL_S, HealthCheck, HealthMonitor
from holdfast.node.order_executor import OrderExecutor
from holdfast.node.role_loops import RoleLoops
from holdfast.storage import open_storage, remove_deleted_checkpoint
from holdfast.storage.location import parse_location
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client
from holdfast.zk.session.timing import SteadyContact


class NodeComponents:
    def __init__(self, settings: Config, config_file: Path, clock: Clock, log: Log) -> None:
        self._settings = settings
        self._paths = Paths(settings.cluster, prefix=settings.connection.chroot)
        self._clock = clock
        self._log = log
        self._events = EventLog(settings.directory / "events.jsonl")
        self._role_loops: RoleLoops | None = None
        self._cds_task: asyncio.Task[None] | None = None
        self.attempts = NodeAttempts(settings.directory.absolute(), config_file, self._on_runner_exit)
        self.promises = FailsafePromises(
            PromiseJournal(settings.directory / "promises.journal"),
            clock,
            boot=boot_id(),
            period_s=settings.connection.session_timeout_s + settings.timing.margin_s,
            newest_started=self.attempts.newest_attempt,
            legacy_file=settings.directory / "promises.json",
        )
        peers_file = PeersFile(settings.directory / "peers.json")
        self.peers = KnownPeers(self._paths, settings.node, clock, saved=peers_file.read(), save=peers_file.write)
        self.health = HealthMonitor(self._health_checks())
        self.cleanup = AttemptDirectoryCleanup(self.attempts.root, self._list_open_jobs, self._paths, clock, log)

    def make_promise_exchange(self, secret: Callable[[], str | None]) -> PromiseExchange:
        settings = self._settings
        return PromiseExchange(
            settings.node,
            promises=self.promises,
            runners=RunnerFiles(self.attempts.root, self.attempts.list_open, boot=boot_id()),
            peers=self.peers,
            transport=HttpPromiseTransport(settings.node, secret, self._clock),
            clock=self._clock,
            timing=settings.timing,
            timeout_s=settings.connection.session_timeout_s,
            log=self._log,
        )

    def _list_open_jobs(self) -> list[JobId]:
        return [attempt_id.job for attempt_id in self.attempts.list_open()]

    def _health_checks(self) -> list[HealthCheck]:
        directory, storage = self._settings.directory.absolute(), parse_location(self._settings.storage)
        checks = [
            HealthCheck(f"its disk ({directory})", lambda: check_disk(directory)),
            HealthCheck("its memory", check_memory),
        ]
        if storage.is_directory:
            path = Path(storage.path)
            run = functools.partial(check_storage, path, self._settings.node)
            checks.append(HealthCheck(f"the storage {path}", run, STORAGE_CHECK_INTERVAL_S))
        return checks

    def make_role_loops(self, on_leader_change: Callable[[], None]) -> RoleLoops:
        if self._settings.archives is not None:
            cds_keeper = CdsKeeper(self._settings.archives, self.attempts.root, self._log)
            self._cds_task = asyncio.ensure_future(cds_keeper.run())
        order_executor = OrderExecutor(
            self._paths,
            self._settings.node,
            attempts=self.attempts,
            promises=self.promises,
            nonce=lambda: secrets.token_hex(16),
            wall=self._clock.wall,
            log=self._log,
        )
        self._role_loops = RoleLoops(
            order_executor=order_executor,
            make_leader=self._make_leader,
            pause_s=self._settings.timing.heartbeat_s,
            on_leader_change=on_leader_change,
            log=self._log,
            make_observer=lambda client: Observer(client, self._paths, self._clock),
        )
        return self._role_loops

    def _on_runner_exit(self) -> None:
        if self._role_loops is not None:
            self._role_loops.on_runner_exit()

    def _collect_blobs(self, referenced: Callable[[], set[str]]) -> list[str]:
        return open_storage(self._settings.storage).collect_garbage(referenced, self._clock.wall())

    async def _remove_checkpoint(self, job: JobId) -> int:
        return await asyncio.to_thread(remove_deleted_checkpoint, self._settings.storage, self._settings.cluster, job)

    def _make_leader(self, client: Client, leadership: Leadership, contact: SteadyContact) -> Leader:
        return Leader(
            client,
            self._paths,
            leadership,
            clock=self._clock,
            timing=LeaderTiming(
                margin_s=self._settings.timing.margin_s, session_timeout_s=self._settings.connection.session_timeout_s
            ),
            contact=contact,
            log=self._log,
            on_event=self._events.append,
            retention=self._settings.retention,
            collect_blobs=self._collect_blobs,
            remove_checkpoint=self._remove_checkpoint,
        )
