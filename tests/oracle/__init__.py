"""Comparison of Holdfast's verdict on a checkpoint with what Spark does from that checkpoint.

A cell is a query, a state store, the moment at which the query died, and damage on purpose. Spark continues from a copy of
the checkpoint with the remaining input. Its rows are compared with those of a run without death and damage.
`python -m tests.oracle --help` runs the matrix.
"""
