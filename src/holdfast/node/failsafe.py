"""A node's promises not to start a job's next attempt for a while, so that the last one can live on without ZooKeeper.

On disk before they are answered. Kept by CLOCK_BOOTTIME; after a reboot, or if the file cannot be read, the node cannot know
what it promised and starts nothing for one full period.
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


class Promises:
    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        boot: str,
        period_s: float,
        started: Callable[[JobId], Attempt],
    ) -> None:
        """`period_s`: the longest that is usually asked for. `started`: the newest attempt that this node has started."""
        self._path = path
        self._clock = clock
        self._boot = boot
        self._started = started
        self._kept: dict[JobId, _Promise] = {}
        self._nothing_before = float("-inf")
        self._load(period_s)

    def _load(self, period_s: float) -> None:
        try:
            fields = json.loads(self._path.read_bytes())
            longest_s = max([period_s, *(float(each["period_s"]) for each in fields["promises"].values())])
            same_boot = fields["boot"] == self._boot
            self._kept = {
                JobId(job): _Promise(Attempt(int(each["attempt"])), float(each["until"]), float(each["period_s"]))
                for job, each in fields["promises"].items()
                if same_boot
            }
        except FileNotFoundError:
            return  # this node has never promised anything
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            same_boot, longest_s = False, max(period_s, PERIOD_S_MAX)
        if not same_boot:
            self._nothing_before = self._clock.boottime() + longest_s

    def promise(self, job: JobId, attempt: Attempt, period_s: float) -> None:
        """Not to start an attempt after this one for `period_s`, counted from now. If it raises, nothing is promised."""
        if not 0 < period_s <= PERIOD_S_MAX:
            raise Refused(f"a promise for {period_s:g} s is not given: {PERIOD_S_MAX:g} s at most")
        if (newest := self._started(job)) > attempt:
            raise Conflict(f"attempt {newest} was started here already")
        now = self._clock.boottime()
        self._kept = {id: kept for id, kept in self._kept.items() if kept.until > now}
        if job not in self._kept and len(self._kept) >= JOBS_MAX:
            raise Refused(f"{JOBS_MAX} promises are kept already")
        last = self._kept.get(job)
        until = max(now + period_s, last.until if last is not None else 0.0)
        newest = max(attempt, last.attempt if last is not None else attempt)
        kept = {**self._kept, job: _Promise(newest, until, period_s)}
        self._write(kept)
        self._kept = kept

    def _write(self, kept: dict[JobId, _Promise]) -> None:
        promises = {job: dataclasses.asdict(each) for job, each in kept.items()}
        try:
            write_atomically(self._path, json.dumps({"boot": self._boot, "promises": promises}).encode())
        except OSError as error:
            raise Refused(f"the promise cannot be written down: {error.strerror}") from error

    def left_s(self, job: JobId, attempt: Attempt) -> float:
        """How long this attempt must not be started yet; 0 if it may."""
        now = self._clock.boottime()
        promise = self._kept.get(job)
        promised_s = promise.until - now if promise is not None and promise.attempt < attempt else 0.0
        return max(0.0, promised_s, self._nothing_before - now)


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
