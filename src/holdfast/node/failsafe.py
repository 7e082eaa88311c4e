"""Failsafe promises: this node will not start a job's next attempt for some time, so the current one can run without ZooKeeper.

A promise is fsynced before it is answered, and is measured with CLOCK_BOOTTIME. After a reboot, or if the file is unreadable,
the node does not know what it promised, so it starts no attempt for one full period.
"""

import dataclasses
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from holdfast.atomic_file import write_atomically
from holdfast.clock import Clock
from holdfast.errors import Conflict, Refused
from holdfast.model.identifiers import Attempt, JobId

PERIOD_S_MAX = 120.0
JOBS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class _Promise:
    attempt: Attempt
    until: float
    period_s: float


class FailsafePromises:
    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        boot: str,
        period_s: float,
        newest_started: Callable[[JobId], Attempt],
    ) -> None:
        """Load earlier promises.

        `period_s` is the longest usual promise. `newest_started` returns the newest attempt that this node has started.
        """
        self._path = path
        self._clock = clock
        self._boot = boot
        self._newest_started = newest_started
        self._promises: dict[JobId, _Promise] = {}
        self._no_start_before = float("-inf")
        self._load(period_s)

    def _load(self, period_s: float) -> None:
        try:
            fields = json.loads(self._path.read_bytes())
            longest_s = max([period_s, *(float(each["period_s"]) for each in fields["promises"].values())])
            same_boot = fields["boot"] == self._boot
            self._promises = {
                JobId(job): _Promise(Attempt(int(each["attempt"])), float(each["until"]), float(each["period_s"]))
                for job, each in fields["promises"].items()
                if same_boot
            }
        except FileNotFoundError:
            return  # this node has never made a promise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            same_boot, longest_s = False, max(period_s, PERIOD_S_MAX)
        if not same_boot:
            self._no_start_before = self._clock.boottime() + longest_s

    def grant(self, job: JobId, attempt: Attempt, period_s: float) -> None:
        """Promise to start no later attempt of the job for `period_s` seconds from now.

        Raises Conflict if a later attempt was already started here, and Refused if the promise cannot be kept or saved.
        """
        if not 0 < period_s <= PERIOD_S_MAX:
            raise Refused(f"cannot promise {period_s:g} s: the maximum is {PERIOD_S_MAX:g} s")
        if (newest := self._newest_started(job)) > attempt:
            raise Conflict(f"attempt {newest} was already started on this node")
        now = self._clock.boottime()
        self._promises = {id: promise for id, promise in self._promises.items() if promise.until > now}
        if job not in self._promises and len(self._promises) >= JOBS_MAX:
            raise Refused(f"cannot promise: {JOBS_MAX} promises are already in force")
        last = self._promises.get(job)
        until = max(now + period_s, last.until if last is not None else 0.0)
        newest = max(attempt, last.attempt if last is not None else attempt)
        promises = {**self._promises, job: _Promise(newest, until, period_s)}
        self._write(promises)
        self._promises = promises

    def _write(self, promises: dict[JobId, _Promise]) -> None:
        fields = {"boot": self._boot, "promises": {job: dataclasses.asdict(each) for job, each in promises.items()}}
        try:
            write_atomically(self._path, json.dumps(fields).encode())
        except OSError as error:
            raise Refused(f"cannot save the promise: {error.strerror}") from error

    def remaining_s(self, job: JobId, attempt: Attempt) -> float:
        """Return the time until this attempt may be started, 0 if it may be started now."""
        now = self._clock.boottime()
        promise = self._promises.get(job)
        promised_s = promise.until - now if promise is not None and promise.attempt < attempt else 0.0
        return max(0.0, promised_s, self._no_start_before - now)


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
