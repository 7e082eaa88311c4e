"""The simulation of jobs: whole clusters with nodes, leaders, runners, watchdogs and drivers, on virtual time, from a seed.

Agents, leaders, hands, promises, runners and leases are the product's own code. Simulated is what they stand on:
machines, their
disks and kernels, the processes of an attempt, the network between nodes, the shared storage, ZooKeeper, and people.
"""
