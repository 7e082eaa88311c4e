"""Runner process of one attempt: takes the lease, executes the driver (`execution/`) and reports the outcome.

Owns: the attempt's directory, the processes that carry the attempt's nonce, and the outcome.
Never does: decide about jobs or about other attempts.
"""
