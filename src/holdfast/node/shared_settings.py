"""Settings that all nodes of a cluster share through ZooKeeper: the storage location and the secret of the HTTP API."""

import contextlib
from collections.abc import Callable

from holdfast.errors import Refused
from holdfast.zk.records.paths import Paths
from holdfast.zk.session.client import Client, Create, NodeExists, NoNode, Rejected


class SharedSettings:
    def __init__(
        self,
        paths: Paths,
        *,
        storage: str,
        new_secret: Callable[[], str],
        saved_secret: str | None = None,
        save_secret: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Start with the secret that an earlier agent of this node saved, so that peers are answered without ZooKeeper."""
        self._paths = paths
        self._storage = storage
        self._new_secret = new_secret
        self._loaded_for: Client | None = None
        self._save_secret = save_secret
        self._saved_secret = saved_secret
        self.secret = saved_secret
        """Secret of the HTTP API; None if it was neither saved nor loaded."""

    async def load(self, client: Client) -> None:
        """Read or create the settings, once per session. Raises Refused if the cluster uses another storage location."""
        if self._loaded_for is client:
            return
        self.secret = (await self._read_or_create(client, self._paths.secret, self._new_secret())).strip()
        self._save_changed_secret()
        storage = await self._read_or_create(client, self._paths.storage, self._storage)
        if storage != self._storage:
            raise Refused(
                f"this node uses the storage {self._storage}, but the cluster uses {storage}: "
                "set cluster.storage to the same shared location on every node"
            )
        self._loaded_for = client

    def _save_changed_secret(self) -> None:
        if self.secret and self.secret != self._saved_secret:
            with contextlib.suppress(OSError):  # a full disk must not keep the node out; the next session tries again
                self._save_secret(self.secret)
                self._saved_secret = self.secret

    async def _read_or_create(self, client: Client, path: str, proposed: str) -> str:
        """Return the value at `path`; create it from `proposed` if it does not exist."""
        try:
            return (await client.get(path)).data.decode(errors="replace")
        except NoNode:
            outcome = await client.commit([Create(path, proposed.encode())])
            if isinstance(outcome, Rejected) and not isinstance(outcome.error, NodeExists):
                raise outcome.error from None
            return (await client.get(path)).data.decode(errors="replace")
