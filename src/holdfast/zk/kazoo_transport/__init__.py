"""The `Client` interface over the network. No other package imports kazoo.

By default, kazoo queues calls while it has no connection, sends them later, and continues under a new session after the old
one has expired. Holdfast must not do either, so this package uses kazoo's internals at six places. kazoo is pinned to one
version, and `tests/contract/test_kazoo_traps.py` tests these places:

- A subclass of the connection handler bounds the handshake and reports the negotiated timeout.
- When the connection is lost, the request queue is emptied under the same lock that admits calls.
- The socket is shut down to leave a server that does not answer, without ending the session.
- When the connection is lost, the event that kazoo sends to every watcher is dropped: the client fires ANY_PATH once.
- Watches of batched reads are registered in kazoo's tables before the server is asked to set them.
- When the session ends, the kazoo client is stopped on a separate thread, because `stop()` can hang.
"""

from holdfast.zk.kazoo_transport.kazoo_client import NetworkClient, client_factory

__all__ = ["NetworkClient", "client_factory"]
