"""Watchdog process: the driver's parent, which kills the driver and all its descendants at the deadline of the lease.

Owns: the search for the processes of an attempt, and their end. Never does: import more than the standard library and
`driver_protocol.variables`, because one watchdog runs per attempt and must stay small.
"""
