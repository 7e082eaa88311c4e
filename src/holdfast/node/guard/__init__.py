"""Guard: the small parent process of an agent. `python -m holdfast.node.guard NODE_DIRECTORY AGENT_COMMAND…`

When the agent dies, the guard closes its ZooKeeper session, so that the cluster does not wait until the session expires, and
starts a new agent. If the agent is alive but sends no heartbeat for too long, the guard kills it: its event loop hangs while
the ZooKeeper client keeps the session alive. The guard uses only the standard library, to stay small and reliable.

Guard and agent share a socket pair; HOLDFAST_GUARD_FD holds the agent's descriptor. The agent sends a byte every second and
exits at the end of the stream, because its guard is dead. The guard ignores the end of the stream and relies on waitpid alone.
"""
