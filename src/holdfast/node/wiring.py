"""Construction of the objects that a real node needs to execute orders and to lead."""

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path

from holdfast.clock import Clock
from holdfast.config import Config
from holdfast.leader.loop import Leader, LeaderTiming
from holdfast.leader.observer import Observer
from holdfast.log import Log
from holdfast.node.attempts import NodeAttempts
from holdfast.node.cds_keeper import CdsKeeper
from holdfast.node.event_log import EventLog
from holdfast.node.failsafe import FailsafePromises, boot_id
from holdfast.node.order_executor import OrderExecutor
from holdfast.node.role_loops import RoleLoops
from holdfast.storage import open_storage
from holdfast.zk.leadership.leadership import Leadership
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client


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
            settings.directory / "promises.json",
            clock,
            boot=boot_id(),
            period_s=settings.connection.session_timeout_s,
            newest_started=self.attempts.newest_attempt,
        )

    def make_role_loops(self, on_leader_change: Callable[[], None]) -> RoleLoops:
        if self._settings.archives is not None:
            cds_keeper = CdsKeeper(self._settings.archives, self.attempts.root, self._log)
            self._cds_task = asyncio.ensure_future(cds_keeper.run())
        order_executor = OrderExecutor(
            self._paths,
            self._settings.node,
            attempts=self.attempts,
            promise_remaining_s=self.promises.remaining_s,
            nonce=lambda: secrets.token_hex(16),
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

    def _make_leader(self, client: Client, leadership: Leadership) -> Leader:
        return Leader(
            client,
            self._paths,
            leadership,
            clock=self._clock,
            timing=LeaderTiming(margin_s=self._settings.timing.margin_s),
            log=self._log,
            on_event=self._events.append,
            retention=self._settings.retention,
            collect_blobs=self._collect_blobs,
        )
