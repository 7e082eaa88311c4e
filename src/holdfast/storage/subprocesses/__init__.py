"""Storage calls in short-lived subprocesses, so that pyarrow and Java stay out of long-lived processes.

Owns the table of operations, the messages and the pool of subprocesses. Never decides where a location is.
"""
