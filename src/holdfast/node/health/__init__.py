"""Health of a node: checks whether it can start attempts, and the sentence that its record in ZooKeeper shows.

Owns: what counts as a problem, and for how long. Never does: stop attempts that run, or decide where attempts start.
"""
