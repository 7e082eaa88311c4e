"""Deterministic simulator: whole clusters in one process, on virtual time, driven by one seed.

`event_loop` owns time and schedules simulated processes. `zk` is the simulated ZooKeeper. `world` combines the two; none of
these depends on how Holdfast uses ZooKeeper. `leadership` and `jobs` run schedules of real Holdfast code and check invariants.
"""
