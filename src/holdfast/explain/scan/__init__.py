"""Scan of bytes: records, events, templates and error lines of byte ranges. Pure.

Owns: the limits of a scan. Never does: open a file or start Spark.
"""
