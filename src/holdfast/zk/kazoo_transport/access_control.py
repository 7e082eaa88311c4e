"""Access control lists of an embedded ensemble: only its own user can access its znodes."""

import contextlib
from collections.abc import Iterator
from typing import Any

from kazoo import exceptions as kz
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_digest_acl

from holdfast.errors import Refused, Unavailable
from holdfast.zk.kazoo_transport.kazoo_connection import format_hosts, silent_logger
from holdfast.zk.session.connection_settings import ConnectionSettings

CONNECT_S = 30.0
TOP = "/holdfast"
SYSTEM_PATHS = ("/zookeeper/quota", "/zookeeper")
"""Znodes that every server creates, open for all users."""


class ZnodeAccess:
    """Session of the ensemble's user that closes znodes for all other users."""

    def __init__(self, settings: ConnectionSettings) -> None:
        """Connect. Raises Unavailable if no server answers."""
        assert settings.digest is not None, "an open ensemble has no user"
        digest = settings.digest
        self._acl = [make_digest_acl(digest.user, digest.password, all=True)]
        self._kazoo = KazooClient(
            hosts=format_hosts(settings.hosts),
            timeout=settings.session_timeout_s,
            auth_data=[("digest", f"{digest.user}:{digest.password}")],
            logger=silent_logger,
        )
        try:
            self._kazoo.start(timeout=CONNECT_S)
        except KazooTimeoutError:
            raise Unavailable(f"ZooKeeper at {settings.connect_string} does not answer") from None

    def __enter__(self) -> "ZnodeAccess":
        return self

    def __exit__(self, *_: object) -> None:
        self._kazoo.stop()
        self._kazoo.close()

    def is_closed(self) -> bool:
        """Return True if no other user can list the top znodes. `close_all` closes them last, so that it can be repeated."""
        return all(self._read_acl(path) == self._acl for path in ("/", TOP))

    def has_open_cluster(self) -> bool:
        """Return True if an earlier version of Holdfast has created znodes, which are open for all users."""
        return self._read_acl(TOP) not in (None, self._acl)

    def close_all(self) -> None:
        """Let only the ensemble's user access the znodes of Holdfast and the root.

        Raises Refused if another user owns a znode, and Unavailable if the connection is lost.
        """
        try:
            with contextlib.suppress(kz.NodeExistsError):
                self._kazoo.create(TOP, acl=self._acl)
            for path in (*self._descendants(TOP), TOP, *SYSTEM_PATHS, "/"):
                self._close(path)
        except kz.KazooException as error:
            raise Unavailable(f"the znodes could not be closed for other users ({type(error).__name__})") from error

    def _close(self, path: str) -> None:
        try:
            self._kazoo.set_acls(path, self._acl)
        except kz.NoNodeError:
            pass  # an ephemeral znode whose session has ended
        except kz.NoAuthError:
            raise Refused(f"the znode {path} belongs to another ZooKeeper user: use another directory") from None

    def _read_acl(self, path: str) -> list[Any] | None:
        """Return the ACL of a znode, or None if the znode does not exist or belongs to another user."""
        try:
            acl: list[Any] = self._kazoo.get_acls(path)[0]
        except (kz.NoNodeError, kz.NoAuthError):
            return None
        return acl

    def _descendants(self, path: str) -> Iterator[str]:
        """Yield all znodes below a path, children before their parent."""
        try:
            children = self._kazoo.get_children(path)
        except (kz.NoNodeError, kz.NoAuthError):
            return
        for name in children:
            yield from self._descendants(f"{path}/{name}")
            yield f"{path}/{name}"
