"""Absolute paths that files of a checkpoint name, and their rewrite for a copy at another location. Pure."""
