"""Cleanup on a node: removes the attempt directories of jobs whose records are deleted.

Never does: touch a directory of a job that the cluster knows, or of an attempt that is not closed.
"""
