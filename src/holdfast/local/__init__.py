"""A whole cluster on this machine, for `holdfast up`: real ZooKeeper servers and real nodes, kept alive.

Owns: the cluster's directory, its processes, `cluster.json`.
Never does: anything that a node of a real cluster would need; those are started one by one, by `holdfast node`.
"""
