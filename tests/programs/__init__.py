"""Programs like the examples of Spark's documentation, each run through kills, stops, savepoints and upgrades on a cluster.

The scripts were written for these tests from the documented behaviour of the examples. They are plain PySpark: none of them
imports Holdfast. Each has an output whose exact content is known, so a row that is lost or repeated is found.
"""
