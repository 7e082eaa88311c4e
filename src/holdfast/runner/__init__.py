"""One attempt of a job: its lease, its driver, the watchdog that ends the driver in time, and how it ended.

Owns: the attempt's directory, the processes that carry the attempt's nonce, the outcome.
Never does: decide about jobs, or about another attempt. The tree and the watchdog use the standard library only, to stay tiny.
"""
