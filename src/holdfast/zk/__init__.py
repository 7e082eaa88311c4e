"""ZooKeeper access: sessions, leader election, fenced writes, stored records, embedded servers.

Owns the znode layout (`records.paths`), the session interface (`session.client`) and leadership (`leadership`).
Makes no decisions about jobs. Only `kazoo_transport` imports kazoo.
"""
