"""Corruption of the znodes of one job: malformed bytes, partial records, and orders that no leader gave."""

import json
import random
from collections.abc import Callable

from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Desired, DesiredRecord, JobState, Order, Spec
from holdfast.model.phase import Phase
from holdfast.zk.records.submission import NameRecord
from tests.sim.jobs.checks.job_oracles import JobOracles
from tests.sim.leadership.agent_node import PATHS
from tests.sim.world import World

PARTS = ("state", "spec", "desired", "report", "attempt", "lease")
NODES = ("n1", "n2", "n3")


class ZnodeCorruption:
    def __init__(self, world: World, victim: JobId, oracles: JobOracles, rng: random.Random) -> None:
        self._zk = world.zk
        self._victim = victim
        self._oracles = oracles
        self._random = rng
        parts = ["state", "name", *rng.sample(PARTS[:-1], 2)]
        self._missing = [rng.choice(parts)]
        """Part that a partially restored job lacks. A job with all parts would be a regular job."""

    def corrupt_once(self) -> str:
        corrupt: Callable[[], None] = self._random.choice(
            [
                self._overwrite,
                self._overwrite,
                self._change_field,
                self._remove,
                self._write_stray_order,
                self._write_stray_order,
                self._write_partial_job,
            ]
        )
        self._oracles.job_record(self._victim).tampered = True
        corrupt()
        return corrupt.__name__

    def _choose_bytes(self) -> bytes:
        rng = self._random
        return rng.choice(
            [b"", b"{}", b"null", b'{"schema":1}', b"\xff\xfe", rng.randbytes(30), b"[" * 2000, b'{"schema":"x"}']
        )

    def _choose_part(self) -> str | None:
        existing = [part for part in PARTS if self._zk.tree.get(PATHS.job(self._victim, part)) is not None]
        return PATHS.job(self._victim, self._random.choice(existing)) if existing else None

    def _overwrite(self) -> None:
        path = self._choose_part() if self._random.random() < 0.8 else self._name_path()
        if path is not None:
            self._zk.write(path, self._choose_bytes())

    def _name_path(self) -> str:
        return PATHS.name(f"name{self._victim.strip('jb')}")

    def _change_field(self) -> None:
        """Change the type or the value of one field of a record."""
        path = self._choose_part()
        znode = self._zk.tree.get(path) if path is not None else None
        try:
            fields = json.loads(znode.data) if znode is not None else None
        except (ValueError, RecursionError):
            fields = None
        if path is not None and isinstance(fields, dict) and fields:
            key = self._random.choice(sorted(fields))
            fields[key] = self._random.choice([None, -1, 10**30, "x", [], {}, True, 1.5])
            if key != "schema" or not isinstance(fields[key], int) or isinstance(fields[key], bool):
                self._zk.write(path, json.dumps(fields).encode())

    def _remove(self) -> None:
        path = self._choose_part()
        if path is not None:
            self._zk.remove(path)

    def _write_stray_order(self) -> None:
        """Write an order that no state matches (invariant 24)."""
        node = NodeId(self._random.choice(NODES))
        attempt = self._oracles.job_record(self._victim).attempt + self._random.choice([-1, 0, 1, 1, 5])
        job = self._victim if self._random.random() < 0.7 else JobId("missing")
        data = encode(Order(self._victim, Attempt(attempt))) if self._random.random() < 0.7 else self._choose_bytes()
        self._zk.write(PATHS.order(node, job), data)

    def _write_partial_job(self) -> None:
        """Write some parts of a job that was never submitted, as an incomplete restore would. It must not start."""
        ghost = JobId("ghost")
        self._oracles.job_record(ghost).tampered = True
        self._oracles.must_not_start.add(ghost)
        spec = Spec("ghost", "job.py", "0" * 64, arguments=("", "0", "1"))
        state = JobState(Phase.PENDING, "restored by hand")
        parts = {
            "spec": encode(spec),
            "desired": encode(DesiredRecord(Desired.RUN)),
            "attempt": b"",
            "report": b"",
            "state": encode(state),
        }
        for part, data in parts.items():
            if part not in self._missing:
                self._zk.write(PATHS.job(ghost, part), data)
        if "name" not in self._missing:
            self._zk.write(PATHS.name("ghost"), encode(NameRecord(ghost)))
