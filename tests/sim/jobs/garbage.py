"""What a careless or unlucky hand does to the znodes of one job: bytes that are no record, leftovers, orders that
nobody gave."""

import json
import random
from collections.abc import Callable

from holdfast.model.codec import encode
from holdfast.model.identifiers import Attempt, JobId, NodeId
from holdfast.model.job import Desired, Order, Spec, State, Wanted
from holdfast.model.phase import Phase
from holdfast.zk.records.submission import NameRecord
from tests.sim.jobs.oracles import JobOracles
from tests.sim.nodes import PATHS
from tests.sim.world import World

PARTS = ("state", "spec", "desired", "report", "attempt", "lease")
NODES = ("n1", "n2", "n3")


class Garbage:
    def __init__(self, world: World, victim: JobId, oracles: JobOracles, rng: random.Random) -> None:
        self._zk = world.zk
        self._victim = victim
        self._oracles = oracles
        self._random = rng
        parts = ["state", "name", *rng.sample(PARTS[:-1], 2)]
        self._missing = [rng.choice(parts)]
        """What a leftover lacks. At least one part always, or it would be a job like any other."""

    def strew(self) -> str:
        act: Callable[[], None] = self._random.choice(
            [self._scribble, self._scribble, self._twist, self._remove, self._stray_order, self._stray_order, self._leftover]
        )
        self._oracles.job(self._victim).touched = True
        act()
        return act.__name__

    def _bytes(self) -> bytes:
        rng = self._random
        return rng.choice(
            [b"", b"{}", b"null", b'{"schema":1}', b"\xff\xfe", rng.randbytes(30), b"[" * 2000, b'{"schema":"x"}']
        )

    def _part(self) -> str | None:
        there = [part for part in PARTS if self._zk.tree.get(PATHS.job(self._victim, part)) is not None]
        return PATHS.job(self._victim, self._random.choice(there)) if there else None

    def _scribble(self) -> None:
        path = self._part() if self._random.random() < 0.8 else self._name()
        if path is not None:
            self._zk.write(path, self._bytes())

    def _name(self) -> str:
        return PATHS.name(f"name{self._victim.strip('jb')}")

    def _twist(self) -> None:
        """A record of which one field is of another kind, or says something else."""
        path = self._part()
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
        path = self._part()
        if path is not None:
            self._zk.remove(path)

    def _stray_order(self) -> None:
        """Invariant 24."""
        node = NodeId(self._random.choice(NODES))
        attempt = self._oracles.job(self._victim).attempt + self._random.choice([-1, 0, 1, 1, 5])
        job = self._victim if self._random.random() < 0.7 else JobId("nobody")
        data = encode(Order(self._victim, Attempt(attempt))) if self._random.random() < 0.7 else self._bytes()
        self._zk.write(PATHS.order(node, job), data)

    def _leftover(self) -> None:
        """Parts of a job that was swept, or is put back from a backup: never submitted as a whole, so never started."""
        ghost = JobId("ghost")
        self._oracles.job(ghost).touched = True
        self._oracles.never.add(ghost)
        spec = Spec("ghost", "job.py", "0" * 64, arguments=("", "0", "1"))
        state = State(Phase.PENDING, "put back by hand")
        whole = {
            "spec": encode(spec),
            "desired": encode(Wanted(Desired.RUN)),
            "attempt": b"",
            "report": b"",
            "state": encode(state),
        }
        for part, data in whole.items():
            if part not in self._missing:
                self._zk.write(PATHS.job(ghost, part), data)
        if "name" not in self._missing:
            self._zk.write(PATHS.name("ghost"), encode(NameRecord(ghost)))
