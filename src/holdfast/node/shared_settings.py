"""What all nodes of a cluster must agree on, kept in ZooKeeper: where its storage is, and the secret of its HTTP."""

from collections.abc import Callable

from holdfast.errors import Refused
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Create, NodeExists, NoNode, Rejected


class Commons:
    def __init__(self, paths: Paths, *, storage: str, new_secret: Callable[[], str]) -> None:
        self._paths = paths
        self._storage = storage
        self._new_secret = new_secret
        self._agreed_for: Client | None = None
        self.secret: str | None = None
        """None until it is known."""

    async def agree(self, client: Client) -> None:
        """Once per session. Raises Refused, with a sentence, if this node's storage is not the cluster's."""
        if self._agreed_for is client:
            return
        self.secret = (await self._common(client, self._paths.secret, self._new_secret())).strip()
        storage = await self._common(client, self._paths.storage, self._storage)
        if storage != self._storage:
            raise Refused(
                f"this node's storage is {self._storage}, and the cluster's is {storage}: "
                "set cluster.storage to the same shared place on every node"
            )
        self._agreed_for = client

    async def _common(self, client: Client, path: str, mine: str) -> str:
        """What is there, or ours if we are the first."""
        try:
            return (await client.get(path)).data.decode(errors="replace")
        except NoNode:
            outcome = await client.commit([Create(path, mine.encode())])
            if isinstance(outcome, Rejected) and not isinstance(outcome.error, NodeExists):
                raise outcome.error from None
            return (await client.get(path)).data.decode(errors="replace")
