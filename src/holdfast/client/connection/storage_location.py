"""Location of the cluster's storage, as the nodes recorded it in ZooKeeper."""

from holdfast.client.connection.read import read_with_retry
from holdfast.client.connection.target import Target
from holdfast.errors import Refused
from holdfast.zk.session.missing_znode import none_if_missing
from holdfast.zk.session.reader import Reader


def read_storage_location(target: Target) -> str:
    """Return the storage's directory or URI. Raise Refused if no node has recorded one yet."""

    async def query(client: Reader) -> str:
        paths = target.paths
        znode = await none_if_missing(client.get(paths.storage))
        if znode is None:
            raise Refused(f"no node has ever joined this cluster ({paths.root}), so it has no storage yet: start a node first")
        try:
            return znode.data.decode()
        except UnicodeDecodeError:
            raise Refused(f"the znode {paths.storage} does not contain the storage's location: {znode.data[:40]!r}") from None

    return read_with_retry(target, query)
