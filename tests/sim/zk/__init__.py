"""Simulated ZooKeeper ensemble and its client.

`znode_tree` holds the data. `server` is one member with its watches and its replication lag. `commit_pipeline` orders
commits, `quorum` elects the leader and applies server faults, `session_tracker` expires sessions, and `ensemble` joins these
parts. `network`, `connection` and `ping_schedule` connect clients to servers. `client_transport` is a client's connection as
kazoo keeps it, and `client` implements `holdfast.zk.session.client.Client`.
"""
