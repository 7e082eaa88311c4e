"""ZooKeeper sessions: client interface, timing, verified connections, direct reads, and the end of dead sessions.

Owns: the definition of a confirmation. Never does: import kazoo.
"""
