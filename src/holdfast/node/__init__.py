"""Daemon of one machine: a guard process and its child, the agent.

Owns: the node's directory, its registration, its part in the election.
Never does: run user code. The guard imports only the standard library, to stay small.
"""
