"""The real work of an attempt: its checkpoint claimed, its code fetched, its driver started and watched to the end."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast.atomic_file import write_atomically
from holdfast.checkpoint import Known
from holdfast.clock import Clock
from holdfast.errors import Conflict, HoldfastError, Refused, Unavailable
from holdfast.log import Log
from holdfast.model.codec import Garbage, NewerSchema, decode, encode
from holdfast.model.job import Ending, Outcome, Progress, Report, Spec
from holdfast.runner.attempt_layout import CONTROL, DRIVER_LOG, OUTCOME, SESSION
from holdfast.runner.checkpoint_check import Verification
from holdfast.runner.classify import classify
from holdfast.runner.control_reader import Said
from holdfast.runner.driver_command import NO_SUPPLIES, Command, Supplies
from holdfast.runner.lease import Run
from holdfast.runner.master_check import check_master, master_of
from holdfast.runner.memory_limit import exceeded, kernel_oom_kills, limit_of
from holdfast.runner.query_notes import is_news, with_notes
from holdfast.runner.watchdog.json_socket import DEADLINE_PASSED
from holdfast.runner.watchdog_client import Supervision
from holdfast.storage import BlobMissing, Claim, Claims, ForeignCheckpoint, Storage, in_storage
from holdfast.zk.session import session_file
from holdfast.zk.session.client import SessionId
from holdfast.zk.session.connection_settings import Ensemble

FETCH_TRIES = 5
FETCH_AGAIN_S = 2.0
NOTES_S = 1.0
"""How often it is looked whether the driver has started a query."""
NOT_ITS_FAULT = ("the deadline", "cannot start a process")
"""How a watchdog begins a refusal that says nothing about the job."""


class DriverWork:
    """Implements `runner.work.Work`."""

    def __init__(
        self,
        run: Run,
        directory: Path,
        *,
        cluster: str,
        storage: Storage,
        ensemble: Ensemble,
        clock: Clock,
        log: Log,
        supplies: Supplies = NO_SUPPLIES,
    ) -> None:
        self._run = run
        self._directory = directory
        self._cluster = cluster
        self._storage = storage
        self._ensemble = ensemble
        self._clock = clock
        self._log = log
        self._supplies = supplies
        self._deadline = float("-inf")
        self._supervision: Supervision | None = None
        self._killing: asyncio.Task[None] | None = None
        self._claims: Claims | None = None
        self._cause: Outcome | None = None
        self._stop_asked = False
        self._changed = asyncio.Event()
        self._known: Known | None = None
        """What stands about the queries in the checkpoint; None if nothing does."""
        self._said = Said(directory / CONTROL)
        self._mended = ""
        """What was done to the checkpoint before the driver was started."""
        self.driver_pid: int | None = None

    # From the first step to the last

    async def perform(self, spec: Spec, before: Report | None) -> Outcome:
        try:
            return await self._perform(spec, before)
        except _Ended as ended:
            return ended.outcome
        except Unavailable as error:
            return Outcome(Ending.LOST, f"it could not be started on {self._run.node}: {error}")
        except (Refused, Conflict) as error:
            if self._cause is not None:
                return self._cause
            # What came too late is not let in, and a machine may have no process to spare: that is not the job's fault.
            late = self._supervision is not None and (self._supervision.ending or str(error).startswith(NOT_ITS_FAULT))
            return Outcome(Ending.LOST if late else Ending.UNSTARTABLE, str(error))
        except OSError as error:
            return Outcome(Ending.LOST, f"it could not be started on {self._run.node}: {error.strerror or error}")

    async def _perform(self, spec: Spec, before: Report | None) -> Outcome:
        limit = limit_of(spec)
        command = Command(self._run, spec, self._directory, self._storage, supplies=self._supplies)
        place = in_storage(command.checkpoint, str(self._storage.location))
        claims = self._claims = Claims(place, note=lambda note: self._log.warning("claims", problem=note))
        await self._tell_an_earlier_end(claims, before)
        await check_master(spec)
        # The code before the claim: on a node where the storage is not mounted, a claim would be left in the bare mount point.
        await self._fetch(command)
        claim = Claim(
            cluster=self._cluster, job=self._run.job, attempt=self._run.attempt, node=self._run.node, nonce=self._run.nonce
        )
        await self._claim(claims, claim)
        self._stop_if_asked()
        await self._verify(Verification(command.checkpoint, str(self._storage.location), claims, claim, self._log), before)
        self._stop_if_asked()
        oom_kills = kernel_oom_kills()
        self._supervision = await Supervision.begin(
            nonce=self._run.nonce, output=self._directory / DRIVER_LOG, deadline=self._deadline
        )
        try:
            self._supervision.renew(self._deadline)
            self._stop_if_asked()
            self.driver_pid = await self._supervision.start(command.line, command.environment(os.environ), command.work)
            self._log.info("driver started", pid=self.driver_pid)
            watches = [asyncio.ensure_future(self._carry_notes(claims))]
            if limit is not None:
                watches.append(asyncio.ensure_future(self._watch_memory(limit)))
            status = await self._supervision.exited
            # Not when it is judged: to see that nothing is left may take seconds, and the lease may be confirmed meanwhile.
            too_late = self._supervision.ending == DEADLINE_PASSED or self._clock.boottime() >= self._deadline
            for watch in watches:
                watch.cancel()
            await self._supervision.emptied
            await self._carry(claims, last=True)
            self._blame(command.archive)
            return self._judge(status, too_late=too_late, oom=kernel_oom_kills() > oom_kills, master=master_of(spec))
        finally:
            await self._supervision.close()

    async def _watch_memory(self, limit: int) -> None:
        self.end(await exceeded(self._run.nonce, limit))

    def _stop_if_asked(self) -> None:
        if self._cause is not None:
            raise _Ended(self._cause)

    async def _tell_an_earlier_end(self, claims: Claims, before: Report | None) -> None:
        if before is not None and before.outcome is None:
            fields = await asyncio.to_thread(claims.outcome, before.attempt)
            if (earlier := _outcome(fields)) is not None:
                reason = f"attempt {before.attempt} had ended already, and nobody was told: {earlier.reason}"
                raise _Ended(Outcome(earlier.ending, reason))

    async def _claim(self, claims: Claims, claim: Claim) -> None:
        try:
            await asyncio.to_thread(claims.claim, claim)
        except (ForeignCheckpoint, Conflict) as error:
            raise _Ended(Outcome(Ending.CHECKPOINT_CONFLICT, str(error))) from error

    async def _verify(self, verification: Verification, before: Report | None) -> None:
        try:
            self._mended = await asyncio.to_thread(verification.verify, before)
        except (ForeignCheckpoint, Conflict) as error:
            raise _Ended(Outcome(Ending.CHECKPOINT_CONFLICT, str(error))) from error
        except Refused as error:
            raise _Ended(Outcome(Ending.CHECKPOINT_DAMAGED, str(error))) from error
        if self._mended:
            self._log.warning("checkpoint mended", note=self._mended)

    async def _carry_notes(self, claims: Claims) -> None:
        """The next attempt has to know which queries there are, even if this runner is killed."""
        with suppress(OSError, HoldfastError):
            self._known = await asyncio.to_thread(claims.queries)
        while True:
            await asyncio.sleep(NOTES_S)
            await self._carry(claims)

    async def _carry(self, claims: Claims, *, last: bool = False) -> None:
        notes = self._said.read("queries.json")
        if notes is None:
            return
        known = with_notes(self._known or Known(), notes, self._said.read("progress.json"))
        if known == self._known or not (last or is_news(self._known, known)):
            return
        try:
            await asyncio.to_thread(claims.leave_queries, known)
            self._known = known
        except (OSError, HoldfastError) as error:
            self._log.warning("queries not noted in the checkpoint", problem=str(error))

    async def _fetch(self, command: Command) -> None:
        for tries_left in reversed(range(FETCH_TRIES)):
            self._stop_if_asked()
            try:
                await asyncio.to_thread(command.fetch)
                return
            except BlobMissing as error:
                raise _Ended(Outcome(Ending.UNSTARTABLE, f"its code is gone from the storage: {error}")) from error
            except Unavailable as error:
                if not tries_left:
                    raise
                self._log.warning("code not fetched yet", problem=str(error))
                await asyncio.sleep(FETCH_AGAIN_S)

    def _judge(self, status: int, *, too_late: bool, oom: bool, master: str) -> Outcome:
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        if self._cause is not None and killed:
            return self._cause
        if killed and too_late:
            return Outcome(Ending.LOST, "its lease could not be confirmed before the deadline, so it was ended")
        tail = self._supervision.tail() if self._supervision is not None else ""
        if self._supervision is not None and self._supervision.lost and killed:
            return Outcome(Ending.LOST, "its watchdog was killed, and the driver with it")
        end = self._said.read("end.json")
        return classify(status=status, end=end, tail=tail, stop_asked=self._stop_asked, oom_kills=oom, master=master)

    def _blame(self, archive: Path | None) -> None:
        archives = self._supplies.archives
        if archives is None or archive is None or self._supervision is None:
            return
        if archives.distrust(archive, self._supervision.tail()):
            self._log.warning("class archive removed", problem=f"Java has crashed, and {archive} may be why")

    # What the runner says meanwhile

    def renew(self, deadline: float) -> None:
        self._deadline = deadline
        if self._supervision is not None:
            self._supervision.renew(deadline)

    def ask_to_stop(self) -> None:
        self._stop_asked = True
        with suppress(OSError):
            (self._directory / CONTROL).mkdir(exist_ok=True)
            (self._directory / CONTROL / "stop").touch()
        if self.driver_pid is None:
            self.end(Outcome(Ending.STOPPED, "it was asked to stop before its driver was started"))

    def press_to_stop(self) -> None:
        if self._supervision is not None:
            self._supervision.signal(signal.SIGTERM)

    def end(self, cause: Outcome) -> None:
        self._cause = self._cause or cause
        if self._supervision is not None and self._killing is None:
            self._killing = asyncio.ensure_future(self._supervision.kill())

    # What it says and leaves behind

    @property
    def note(self) -> str:
        return "; ".join(filter(None, (self._mended, self._said.note())))

    def progress(self) -> Progress | None:
        return self._said.progress()

    def keep_session(self, session: SessionId) -> None:
        try:
            session_file.keep(self._directory / SESSION, self._ensemble, session)
        except OSError as error:
            # Should this runner crash now, its session has to expire by itself.
            self._log.warning("session not written", problem=str(error))

    async def leave(self, outcome: Outcome) -> None:
        data = encode(outcome)
        try:
            write_atomically(self._directory / OUTCOME, data)
        except OSError as error:
            self._log.warning("outcome not written", problem=str(error))
        if self._claims is None or outcome.ending in (Ending.LOST, Ending.STOPPED) or outcome.ending.about_the_checkpoint:
            return  # nothing that the next attempt would have to know
        try:
            await asyncio.to_thread(self._claims.leave_outcome, self._run.attempt, json.loads(data))
        except (OSError, HoldfastError) as error:
            self._log.warning("outcome not left in the checkpoint", problem=str(error))


class _Ended(Exception):
    """The attempt is over before its driver was started."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


def _outcome(fields: dict[str, Any] | None) -> Outcome | None:
    if fields is None:
        return None
    with suppress(Garbage, NewerSchema):
        return decode(Outcome, json.dumps(fields).encode(), where="outcome")
    return None
