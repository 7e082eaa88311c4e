"""Leader election, fenced writes of a leader, and their outcomes.

Owns: the check of the epoch in each write. Never does: decide about jobs.
"""
