"""What a node does while it leads: observe, plan, apply.

Owns: the leader's picture of the cluster, and the transactions that carry out a plan.
Never does: decide (that is `plan`), or write in any other way than by its reign.
"""
