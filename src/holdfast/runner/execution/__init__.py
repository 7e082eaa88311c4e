"""Execution of a driver on this machine: its command, its checkpoint, its watchdog, its output and the outcome of its end.

Owns: everything between an attempt and its real processes. Never does: talk to ZooKeeper, or decide when a driver must end.
"""
