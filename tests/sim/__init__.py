"""Whole clusters in one process, on virtual time, from a seed.

`loop` owns time and the scheduling of simulated processes, `zk` owns the simulated ZooKeeper, `world` puts them together.
Nothing here knows what Holdfast does with ZooKeeper; scenarios and their checkers stand on top.
"""
