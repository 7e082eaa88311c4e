"""One machine's daemon: the guard, and under it the agent.

Owns: the node's directory, its registration, its part in the election.
Never does: run user code. Nothing here may be imported by the guard but the standard library, to keep it tiny.
"""
