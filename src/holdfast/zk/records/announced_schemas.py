"""Schemas that the registered nodes announce, from which each writer chooses the schema of its records."""

from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import OLDEST_SCHEMA, SCHEMA, MalformedRecord, NewerSchema, decode, schema_for_writing
from holdfast.model.identifiers import NodeId
from holdfast.zk.records.batch_reads import read_znodes
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client
from holdfast.zk.session.missing_znode import children_or_empty


def announced_schema(data: bytes) -> int:
    """Return the newest schema that a node reads, from the bytes of its record; the oldest schema if they are malformed."""
    try:
        return decode(NodeRecord, data, where="the node's record").newest_schema
    except NewerSchema as error:
        return error.schema
    except MalformedRecord:
        return OLDEST_SCHEMA


async def read_schema_for_writing(client: Client, paths: Paths, *, newest: int = SCHEMA) -> int:
    """Return the schema in which to write a record now. Raises the errors of the client."""
    nodes = await children_or_empty(client, paths.nodes)
    znodes = await read_znodes(client, [paths.node(NodeId(node)) for node in nodes])
    return schema_for_writing([announced_schema(znode.data) for znode in znodes if znode is not None], newest=newest)
