"""Commands of `holdfast`, one module for each command or group of related commands.

Owns: options and exit codes. A command calls `client` and prints the result. Never does: decide about a job.
"""
