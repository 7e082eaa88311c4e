"""Records of a later version of Holdfast, in the znodes of one job and of the cluster."""

import json
import random

from holdfast.model.codec import SCHEMA
from holdfast.model.identifiers import JobId
from tests.sim.jobs.checks.job_oracles import JobOracles
from tests.sim.leadership.agent_node import PATHS
from tests.sim.world import World

NEWER_SCHEMA = SCHEMA + 1


class NewerSchemaRecords:
    def __init__(self, world: World, victim: JobId, oracles: JobOracles, rng: random.Random) -> None:
        self._zk = world.zk
        self._random = rng
        self._written: dict[str, bytes] = {}
        """Bytes of each record that no node may change."""
        self._job_parts = [PATHS.job(victim, part) for part in ("state", "spec", "desired")]
        self._replaced = [PATHS.epoch, PATHS.beat, PATHS.job(victim, "lease")]
        """Records that the next leader or the next heartbeat replaces."""
        oracles.job_record(victim).tampered = True

    def write_one(self) -> str:
        """Raise the schema of a record and return the name of the fault. The first record is a part of the job."""
        path = self._random.choice([*self._job_parts, *self._replaced] if self._written else self._job_parts)
        znode = self._zk.tree.get(path)
        if znode is not None and znode.data:
            data = json.dumps({**json.loads(znode.data), "schema": NEWER_SCHEMA}).encode()
            self._zk.write(path, data)
            if path not in self._replaced:
                self._written[path] = data
        return f"newer schema in {path.rpartition('/')[2]}"

    def changed_paths(self) -> list[str]:
        znodes = {path: self._zk.tree.get(path) for path in self._written}
        return [path for path, znode in znodes.items() if znode is None or znode.data != self._written[path]]
