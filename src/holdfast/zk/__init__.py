"""Everything between Holdfast and ZooKeeper: sessions, election, fenced writes, the embedded server.

Owns: the znode layout (`paths`), what a session offers (`client`), what leadership is (`election`, `reign`).
Never does: decide about jobs. Only `network` imports kazoo.
"""
