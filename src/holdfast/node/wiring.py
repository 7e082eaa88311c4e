"""Puts together what a real node needs to follow orders and to lead."""

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path

from holdfast.clock import Clock
from holdfast.config import Config
from holdfast.leader.loop import Leader, Pace
from holdfast.leader.observer import Observer
from holdfast.log import Log
from holdfast.node.attempts import Attempts
from holdfast.node.cds_keeper import Archivist
from holdfast.node.event_log import EventLog
from holdfast.node.failsafe import Promises, boot_id
from holdfast.node.order_executor import Hands
from holdfast.node.role_loops import Duties
from holdfast.storage import open_storage
from holdfast.zk.leadership.leadership import Reign
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client


class NodeWork:
    def __init__(self, settings: Config, config_file: Path, clock: Clock, log: Log) -> None:
        self._settings = settings
        self._paths = Paths(settings.cluster, prefix=settings.ensemble.chroot)
        self._clock = clock
        self._log = log
        self._events = EventLog(settings.directory / "events.jsonl")
        self._duties: Duties | None = None
        self._archivist: asyncio.Task[None] | None = None
        self.attempts = Attempts(settings.directory.absolute(), config_file, self._runner_died)
        self.promises = Promises(
            settings.directory / "promises.json",
            clock,
            boot=boot_id(),
            period_s=settings.ensemble.session_timeout_s,
            started=self.attempts.newest,
        )

    def duties(self, ring: Callable[[], None]) -> Duties:
        if self._settings.archives is not None:
            archivist = Archivist(self._settings.archives, self.attempts.root, self._log)
            self._archivist = asyncio.ensure_future(archivist.run())
        hands = Hands(
            self._paths,
            self._settings.node,
            workshop=self.attempts,
            promised_s=self.promises.left_s,
            nonce=lambda: secrets.token_hex(16),
            log=self._log,
        )
        self._duties = Duties(
            hands=hands,
            make_leader=self._leader,
            pause_s=self._settings.timing.heartbeat_s,
            ring=ring,
            log=self._log,
            make_observer=lambda client: Observer(client, self._paths, self._clock),
        )
        return self._duties

    def _runner_died(self) -> None:
        if self._duties is not None:
            self._duties.a_runner_died()

    def _sweep_blobs(self, named: Callable[[], set[str]]) -> list[str]:
        return open_storage(self._settings.storage).sweep(named, self._clock.wall())

    def _leader(self, client: Client, reign: Reign) -> Leader:
        return Leader(
            client,
            self._paths,
            reign,
            clock=self._clock,
            pace=Pace(margin_s=self._settings.timing.margin_s),
            log=self._log,
            tell=self._events.append,
            keep=self._settings.keep,
            sweep_blobs=self._sweep_blobs,
        )
