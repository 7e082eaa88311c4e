"""Promises of this node: it will not start a job's next attempt for some time, so the current one can run without ZooKeeper.

A promise is fsynced before it is answered, and is measured with CLOCK_BOOTTIME. After a reboot, or if the journal is damaged,
the node does not know what it promised, so it starts no attempt for one full period.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from holdfast.clock import Clock
from holdfast.errors import Conflict, Refused
from holdfast.model.identifiers import Attempt, JobId
from holdfast.model.job import NO_ATTEMPT
from holdfast.node.failsafe.journal import Journal
from holdfast.node.failsafe.journal_format import (
    DamagedJournal,
    JournalContent,
    Promise,
    decode_journal,
    decode_legacy_file,
    encode_batch,
    encode_header,
)

PERIOD_S_MAX = 120.0
JOBS_MAX = 10_000


class FailsafePromises:
    def __init__(
        self,
        journal: Journal,
        clock: Clock,
        *,
        boot: str,
        period_s: float,
        newest_started: Callable[[JobId], Attempt],
        legacy_file: Path | None = None,
    ) -> None:
        """Load earlier promises.

        `period_s` is the longest usual promise. `newest_started` returns the newest attempt that this node has started.
        `legacy_file` is the file of the previous release, which is read if there is no journal.
        """
        self._journal = journal
        self._clock = clock
        self._boot = boot
        self._newest_started = newest_started
        self._legacy_file = legacy_file
        self._promises: dict[JobId, Promise] = {}
        self._no_start_before = float("-inf")
        self._period_s_max = period_s
        self._refused: dict[JobId, Attempt] = {}
        """Attempts whose promises are not renewed, because the leader waits for their end."""
        self._load()

    def _load(self) -> None:
        try:
            content = self._read()
        except (OSError, DamagedJournal):
            content = JournalContent("", float("-inf"), period_s_max=PERIOD_S_MAX)
        if content is None:
            return  # this node has never made a promise
        self._period_s_max = max(self._period_s_max, content.period_s_max)
        if content.boot == self._boot:
            self._promises, self._no_start_before = content.promises, content.no_start_before
        else:
            self._no_start_before = self._clock.boottime() + self._period_s_max

    def _read(self) -> JournalContent | None:
        try:
            return decode_journal(self._journal.read())
        except FileNotFoundError:
            if self._legacy_file is None:
                return None
        try:
            return decode_legacy_file(self._legacy_file.read_bytes())
        except FileNotFoundError:
            return None

    async def grant(self, job: JobId, attempt: Attempt, period_s: float) -> None:
        """Promise to start no later attempt of the job for `period_s` seconds from now.

        Raises Conflict if a later attempt was already started here, and Refused if the promise cannot be kept or saved.
        """
        _check_period(period_s)
        self._check(job, attempt)
        await self._save({job: attempt}, period_s)

    async def grant_all(self, attempts: Mapping[JobId, Attempt], period_s: float) -> dict[JobId, str]:
        """Grant promises for many attempts with one commit. Return the reason for each job whose promise is refused."""
        refused: dict[JobId, str] = {}
        granted: dict[JobId, Attempt] = {}
        added = 0
        try:
            _check_period(period_s)
            for job, attempt in attempts.items():
                try:
                    self._check(job, attempt, added=added)
                except (Conflict, Refused) as error:
                    refused[job] = str(error)
                else:
                    granted[job] = attempt
                    added += job not in self._promises
            if granted:
                await self._save(granted, period_s)
        except Refused as error:
            refused |= dict.fromkeys(attempts.keys() - refused.keys(), str(error))
        return refused

    def _check(self, job: JobId, attempt: Attempt, *, added: int = 0) -> None:
        """Raise Conflict or Refused if the promise cannot be made. `added` more jobs are about to get their first promise."""
        if (newest := self._newest_started(job)) > attempt:
            raise Conflict(f"attempt {newest} was already started on this node")
        if self._refused.get(job, NO_ATTEMPT) >= attempt:
            raise Conflict(f"the leader has ordered the end of attempt {self._refused[job]}")
        if job not in self._promises and len(self._promises) + added >= JOBS_MAX:
            self._forget_expired()
            if len(self._promises) + added >= JOBS_MAX:
                raise Refused(f"cannot promise: {JOBS_MAX} promises are already in force")

    def _forget_expired(self) -> None:
        now = self._clock.boottime()
        self._promises = {job: promise for job, promise in self._promises.items() if promise.until > now}

    async def _save(self, attempts: Mapping[JobId, Attempt], period_s: float) -> None:
        """Put the promises in force, then save them. A promise that cannot be saved is withdrawn, and was never answered."""
        until = self._clock.boottime() + period_s
        before = {job: self._promises.get(job) for job in attempts}
        added = {job: Promise(attempt, until, period_s).union(before[job]) for job, attempt in attempts.items()}
        self._promises |= added
        self._period_s_max = max(self._period_s_max, period_s)
        try:
            await self._journal.append(encode_batch(attempts, until=until, period_s=period_s), self._encode_header)
        except OSError as error:
            for job, promise in added.items():
                if self._promises.get(job) is promise:
                    self._withdraw(job, before[job])
            raise Refused(f"cannot save the promise: {error.strerror}") from error
        self._remove_legacy_file()

    def _withdraw(self, job: JobId, before: Promise | None) -> None:
        if before is None:
            del self._promises[job]
        else:
            self._promises[job] = before

    def _encode_header(self) -> bytes:
        self._forget_expired()
        return encode_header(JournalContent(self._boot, self._no_start_before, self._promises, self._period_s_max))

    def _remove_legacy_file(self) -> None:
        """Remove the file of the previous release, whose promises the journal now contains."""
        if self._legacy_file is not None:
            with contextlib.suppress(OSError):
                self._legacy_file.unlink(missing_ok=True)
            self._legacy_file = None

    @property
    def period_s(self) -> float:
        """Return the longest time for which this node may have promised."""
        return self._period_s_max

    def refuse(self, job: JobId, attempt: Attempt) -> None:
        """Renew no promise for this attempt of the job or an earlier one, until `allow_except` is called without the job."""
        self._refused[job] = attempt

    def allow_except(self, jobs: Collection[JobId]) -> None:
        """Renew promises again, except for these jobs."""
        self._refused = {job: attempt for job, attempt in self._refused.items() if job in jobs}

    def remaining_s(self, job: JobId, attempt: Attempt) -> float:
        """Return the time until this attempt may be started, 0 if it may be started now."""
        now = self._clock.boottime()
        promise = self._promises.get(job)
        promised_s = promise.until - now if promise is not None and promise.attempt < attempt else 0.0
        return max(0.0, promised_s, self._no_start_before - now)


def _check_period(period_s: float) -> None:
    if not 0 < period_s <= PERIOD_S_MAX:
        raise Refused(f"cannot promise {period_s:g} s: the maximum is {PERIOD_S_MAX:g} s")
