"""Inspect and control jobs."""
