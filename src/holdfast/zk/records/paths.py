"""The znodes of a cluster and their names. Nothing else in Holdfast spells a path."""

from dataclasses import dataclass

from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.versions import FIRST

CONTENDER_PREFIX = "c-"
SPEC_PREFIX = "spec-"


@dataclass(frozen=True, slots=True)
class Paths:
    cluster: str
    prefix: str = ""
    """The path under which this ZooKeeper lets us live, `/a/b`, or nothing."""

    @property
    def root(self) -> str:
        return f"{self.prefix}/holdfast/{self.cluster}"

    @property
    def epoch(self) -> str:
        return f"{self.root}/epoch"

    @property
    def beat(self) -> str:
        return f"{self.root}/beat"

    @property
    def election(self) -> str:
        return f"{self.root}/election"

    def contender(self, name: str) -> str:
        return f"{self.election}/{name}"

    @property
    def nodes(self) -> str:
        return f"{self.root}/nodes"

    def node(self, node: NodeId) -> str:
        return f"{self.nodes}/{node}"

    @property
    def names(self) -> str:
        return f"{self.root}/names"

    def name(self, name: str) -> str:
        return f"{self.names}/{name}"

    @property
    def requests(self) -> str:
        return f"{self.root}/requests"

    def request(self, id: str) -> str:
        return f"{self.requests}/{id}"

    @property
    def jobs(self) -> str:
        return f"{self.root}/jobs"

    def job(self, job: JobId, part: str = "") -> str:
        return f"{self.jobs}/{job}/{part}" if part else f"{self.jobs}/{job}"

    def spec(self, job: JobId, version: int) -> str:
        """An upgrade adds a version beside the first."""
        return self.job(job, "spec" if version == FIRST else f"{SPEC_PREFIX}{version}")

    @property
    def orders(self) -> str:
        return f"{self.root}/orders"

    def orders_of(self, node: NodeId) -> str:
        return f"{self.orders}/{node}"

    def order(self, node: NodeId, job: JobId) -> str:
        return f"{self.orders}/{node}/{job}"

    @property
    def quarantine(self) -> str:
        return f"{self.root}/quarantine"

    def quarantined(self, job: JobId) -> str:
        return f"{self.quarantine}/{job}"

    @property
    def storage(self) -> str:
        """Where blobs and checkpoints are. Written by the first node; the others must agree."""
        return f"{self.root}/storage"

    @property
    def secret(self) -> str:
        """What nodes, runners and clients know each other by over HTTP: whoever may read the cluster may ask its nodes."""
        return f"{self.root}/secret"

    @property
    def parents(self) -> tuple[str, ...]:
        """The folders above the cluster, which it shares with others."""
        parts = self.root.strip("/").split("/")
        return tuple("/" + "/".join(parts[:depth]) for depth in range(1, len(parts)))

    @property
    def skeleton(self) -> tuple[str, ...]:
        """What must exist before anything else, parents first, and the epoch last: it says that the rest is there."""
        folders = (self.election, self.nodes, self.names, self.requests, self.jobs, self.orders, self.quarantine)
        return (*self.parents, self.root, *folders, self.beat, self.epoch)
