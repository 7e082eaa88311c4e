"""Empty clusters, as znodes only."""

from holdfast.model.cluster_records import NodeRecord
from holdfast.model.codec import SCHEMA, encode
from holdfast.model.identifiers import NodeId
from holdfast.model.job import Spec
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Create
from tests.contract.backends import Backend, open_session

SPEC = Spec(name="words", script="words.py", blob="0" * 64, arguments=("a b", "ü"), conf=(("spark.x", "1"),))


async def connect_to_new_cluster(backend: Backend) -> tuple[Client, Paths]:
    paths = Paths("c", prefix=backend.random_root())
    client = await open_session(backend)
    for path in paths.required_znodes:
        await client.commit([Create(path)])
    return client, paths


async def register_node(client: Client, paths: Paths, node: str, slots: int = 4, *, ends_attempts: bool = False) -> NodeId:
    record = NodeRecord(
        slots=slots,
        address=f"http://{node}",
        version="0",
        newest_schema=SCHEMA,
        ends_attempts=ends_attempts,
        certifies_expiry=ends_attempts,
    )
    await client.commit([Create(paths.node(NodeId(node)), encode(record), ephemeral=True)])
    return NodeId(node)
