"""Paths of a cluster's znodes. No other module builds a path."""

from dataclasses import dataclass, field

from holdfast.model.identifiers import JobId, NodeId
from holdfast.model.versions import FIRST_VERSION

CONTENDER_PREFIX = "c-"
SPEC_PREFIX = "spec-"


@dataclass(frozen=True, slots=True)
class Paths:
    cluster: str
    prefix: str = ""
    """The chroot, such as `/a/b`, or an empty string."""

    root: str = field(init=False, repr=False, compare=False)
    epoch: str = field(init=False, repr=False, compare=False)
    beat: str = field(init=False, repr=False, compare=False)
    election: str = field(init=False, repr=False, compare=False)
    nodes: str = field(init=False, repr=False, compare=False)
    jobs: str = field(init=False, repr=False, compare=False)
    orders: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Build the paths that each pass of an agent or leader uses."""
        root = f"{self.prefix}/holdfast/{self.cluster}"
        object.__setattr__(self, "root", root)
        for folder in ("epoch", "beat", "election", "nodes", "jobs", "orders"):
            object.__setattr__(self, folder, f"{root}/{folder}")

    def contender(self, name: str) -> str:
        return f"{self.election}/{name}"

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

    def job(self, job: JobId, part: str = "") -> str:
        return f"{self.jobs}/{job}/{part}" if part else f"{self.jobs}/{job}"

    def spec(self, job: JobId, version: int) -> str:
        """Return the path of one version of the spec. An upgrade adds a version and keeps the earlier ones."""
        return self.job(job, "spec" if version == FIRST_VERSION else f"{SPEC_PREFIX}{version}")

    def node_orders(self, node: NodeId) -> str:
        return f"{self.orders}/{node}"

    def order(self, node: NodeId, job: JobId) -> str:
        return f"{self.orders}/{node}/{job}"

    @property
    def quarantine(self) -> str:
        return f"{self.root}/quarantine"

    def quarantine_entry(self, job: JobId) -> str:
        return f"{self.quarantine}/{job}"

    @property
    def tombstones(self) -> str:
        """Parent of the tombstones. It is not a required znode: the first deletion of a record creates it."""
        return f"{self.root}/tombstones"

    def tombstone(self, job: JobId) -> str:
        """Return the znode that records the deletion of a job's record until the job's checkpoint is deleted."""
        return f"{self.tombstones}/{job}"

    @property
    def storage(self) -> str:
        """Location of blobs and checkpoints. The first node writes it; every other node must use the same."""
        return f"{self.root}/storage"

    @property
    def secret(self) -> str:
        """Secret that authenticates nodes, runners and clients over HTTP. Every user who can read the cluster knows it."""
        return f"{self.root}/secret"

    @property
    def shared_parents(self) -> tuple[str, ...]:
        """Parents of the cluster's root, shared with other clusters."""
        parts = self.root.strip("/").split("/")
        return tuple("/" + "/".join(parts[:depth]) for depth in range(1, len(parts)))

    @property
    def required_znodes(self) -> tuple[str, ...]:
        """Znodes that every cluster has, parents first. The epoch is last: its existence proves that the others exist."""
        folders = (self.election, self.nodes, self.names, self.requests, self.jobs, self.orders, self.quarantine)
        return (*self.shared_parents, self.root, *folders, self.beat, self.epoch)
