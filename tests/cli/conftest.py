"""Fixture `cluster`: a cluster whose znodes the test writes itself."""

from tests.harness.fixtures import cluster

__all__ = ["cluster"]
