"""Local cluster of `holdfast up`: ZooKeeper servers and nodes on this machine, restarted when they die.

Owns: the cluster's directory, its processes, `cluster.json`.
Never does: anything that a node of a real cluster needs. Those nodes are started by `holdfast node`.
"""
