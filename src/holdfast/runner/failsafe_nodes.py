"""Registered nodes, which form the failsafe set of an attempt, and their HTTP addresses."""

from collections.abc import Iterable

from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import OLDEST_SCHEMA, MalformedRecord, NewerSchema, decode, schema_for_writing
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.announced_schemas import announced_schema
from holdfast.zk.records.batch_reads import read_znodes
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, NoNode


class FailsafeNodes:
    """Registered nodes of the cluster, as of the last `refresh`."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.names: tuple[NodeId, ...] = ()
        self.schema = OLDEST_SCHEMA
        """Schema of the records that the runner writes."""

    async def refresh(self, client: Client) -> None:
        """Read the names of the nodes and the schemas that they announce, and watch for changes of the nodes.

        Raises the errors of the client.
        """
        names = sorted(NodeId(name) for name in await client.children(self._paths.nodes, watch=True))
        znodes = await read_znodes(client, [self._paths.node(name) for name in names])
        self.schema = schema_for_writing([announced_schema(znode.data) for znode in znodes if znode is not None])
        self.names = tuple(names)


async def read_addresses(client: Client, paths: Paths, names: Iterable[NodeId]) -> dict[NodeId, str]:
    """Return the HTTP address of each registered node. Raises the errors of the client.

    A node whose record is unreadable has an empty address: it may start a job, so no promise is complete without it.
    """
    addresses: dict[NodeId, str] = {}
    for name in names:
        try:
            addresses[name] = decode(NodeRecord, (await client.get(paths.node(name))).data, where=name).address
        except NoNode:
            continue
        except (MalformedRecord, NewerSchema):
            addresses[name] = ""
    return addresses
