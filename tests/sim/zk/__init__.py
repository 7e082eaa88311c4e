"""A simulated ZooKeeper ensemble and the client that speaks to it.

`tree` is the data, `server` one member with its watches and its lag, `ensemble` the commit order and its hooks, `quorum`
who leads and what happens when servers fail, `sessions` who is alive, `network`, `connection` and `pulse` what is
between them, `wire` a client's connection as kazoo keeps it, `client` implements `holdfast.zk.session.client.Client`.
"""
