"""The leader: observe the cluster, plan, execute the commands.

Owns the leader's observations of the cluster and the transactions that execute a plan. Decisions are made in `plan`. Every
write goes through the leadership, which checks the epoch.
"""
