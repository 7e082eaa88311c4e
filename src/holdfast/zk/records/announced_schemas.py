"""Schemas that the registered nodes announce, from which each writer chooses the schema of its records."""

from holdfast.errors import Refused
from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import COMMON_SCHEMA, OLDEST_SCHEMA, MalformedRecord, NewerSchema, decode, schema_for_writing
from holdfast.model.identifiers import NodeId
from holdfast.model.job import Spec
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


async def require_readers(client: Client, paths: Paths, spec: Spec) -> None:
    """Raise Refused if a registered node does not read the schema of the spec: it could lead, and would set the job aside."""
    if spec.schema_required == OLDEST_SCHEMA:
        return
    for node, data in (await _read_node_records(client, paths)).items():
        if announced_schema(data) < spec.schema_required:
            raise Refused(
                f"node {node}, or a runner on it, has a release of Holdfast without schedules: upgrade the node, and restart "
                "the jobs on it with 'holdfast restart'"
            )


async def read_schema_for_writing(client: Client, paths: Paths, *, newest: int = COMMON_SCHEMA) -> int:
    """Return the schema in which to write a record now. Raises the errors of the client."""
    records = await _read_node_records(client, paths)
    return schema_for_writing(map(announced_schema, records.values()), newest=newest)


async def _read_node_records(client: Client, paths: Paths) -> dict[str, bytes]:
    nodes = await children_or_empty(client, paths.nodes)
    znodes = await read_znodes(client, [paths.node(NodeId(node)) for node in nodes])
    return {node: znode.data for node, znode in zip(nodes, znodes, strict=True) if znode is not None}
