"""Status of a job's checkpoint: the position of its queries, and problems with its files. Reads files only, without Spark."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.checkpoint import KnownQueries, Query
from holdfast.errors import HoldfastError, Unavailable
from holdfast.kafka.check.operator_choice import ParkFindings, decode_park_findings
from holdfast.runner.execution.driver_command import checkpoint_root
from holdfast.storage import KAFKA_PARK_FINDINGS_FILE, Checkpoints, Claims, checkpoint_location
from holdfast.zk.records.stored_job import StoredJob

READ_S_MAX = 10.0
"""Time limit for reading everything, so that an unreachable storage does not block the caller."""


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    location: str | None = None
    """Root of the job's checkpoint, in Spark's spelling; None if it is unknown."""
    queries: tuple[tuple[str, Query], ...] = ()
    """(location, query) of each streaming query."""
    known: KnownQueries = field(default_factory=KnownQueries)
    """Queries that the driver has recorded, with their names and sinks."""
    lost: ParkFindings | None = None
    """Findings of the Kafka offset check that parked the job."""
    problem: str | None = None
    """Reason why all or a part of the checkpoint could not be read."""


def read_checkpoint_status(job: StoredJob, storage: str | None) -> CheckpointStatus:
    """Read the checkpoint. Never raises: `problem` says what could not be read."""
    if job.spec is None or storage is None:
        return CheckpointStatus(problem="its location is unknown")
    try:
        location = checkpoint_root(job.spec, job.id, storage)
    except HoldfastError as error:
        return CheckpointStatus(problem=str(error))
    reader = _Reader(location, storage)
    thread = threading.Thread(target=reader.run, daemon=True)
    thread.start()
    thread.join(READ_S_MAX)
    if thread.is_alive():
        return CheckpointStatus(location, problem=f"the storage has not answered for {READ_S_MAX:g} s")
    return reader.status()


class _Reader:
    """Collector of the status in a worker thread. It keeps the parts that were read before an error."""

    def __init__(self, location: str, storage: str) -> None:
        self._location = location
        self._storage = storage
        self._queries: list[tuple[str, Query]] = []
        self._known = KnownQueries()
        self._lost: ParkFindings | None = None
        self._problem: str | None = None

    def status(self) -> CheckpointStatus:
        return CheckpointStatus(self._location, tuple(self._queries), self._known, self._lost, self._problem)

    def run(self) -> None:
        try:
            self._read()
        except HoldfastError as error:
            self._problem = str(error)
        except (OSError, ValueError) as error:  # such as a name that the encoding of this machine's files lacks
            self._problem = f"it cannot be read here: {error}"

    def _read(self) -> None:
        root = self._location.rstrip("/")
        place = checkpoint_location(root, self._storage)
        claims = Claims(place, stall_timeout_s=READ_S_MAX)
        self._known = claims.load_known_queries() or KnownQueries()
        self._lost = decode_park_findings(claims.read_metadata(KAFKA_PARK_FINDINGS_FILE))
        self._queries += [
            (f"{root}/{query.place}".rstrip("/"), query)
            for query in Checkpoints(place, stall_timeout_s=READ_S_MAX).examine_queries()
        ]
        locations = {location for location, _ in self._queries}
        for known in self._known.queries:
            if known.location and known.location not in locations:
                self._queries += self._read_elsewhere(known.location)

    def _read_elsewhere(self, location: str) -> Iterator[tuple[str, Query]]:
        """Read a query whose checkpoint is outside of the job's root."""
        checkpoints = Checkpoints(checkpoint_location(location, self._storage), stall_timeout_s=READ_S_MAX)
        queries = [query for query in checkpoints.examine_queries() if not query.place]
        if not queries:
            raise Unavailable(f"there is no checkpoint in {location} any more")
        yield from ((location, query) for query in queries)
