"""`Client` over the network, by kazoo. Nothing outside this package imports it.

kazoo reconnects by itself, queues calls while it has no connection and sends them later, and goes on under a new session after
the old one expired. None of that is wanted here, so this package reaches into it at five places (kazoo is pinned, and the
contract suite with `tests/contract/test_kazoo_traps.py` holds those places down):

- the connection handler is a subclass that bounds the handshake and reports what was negotiated;
- the request queue is drained at a suspension, under the same lock that admits calls, so nothing is left in it;
- the socket can be shut down, to leave a server that does not answer without giving up the session;
- what is watched many at a time stands in kazoo's tables of watchers before the server is asked to watch it;
- the end of a session ends the kazoo client, on a thread of its own, because `stop()` can hang.
"""

from holdfast.zk.kazoo_transport.kazoo_client import NetworkClient, connect_by

__all__ = ["NetworkClient", "connect_by"]
