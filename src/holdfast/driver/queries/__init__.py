"""Streaming queries of the driver: checkpoints, progress, and stops at a batch boundary."""
