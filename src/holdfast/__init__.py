"""Holdfast: a high-availability control plane for PySpark jobs."""

__version__ = "0.1.0"
