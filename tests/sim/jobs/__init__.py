"""Simulation of jobs: whole clusters with nodes, leaders, runners, watchdogs and drivers, on virtual time, from one seed.

Agents, leaders, order executors, promises, runners and leases are real Holdfast code. Their environment is simulated: machines
with disks and kernels, the processes of an attempt, the network between nodes, the shared storage, ZooKeeper, and users.
"""
