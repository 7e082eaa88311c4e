"""Spark application of this driver on a cluster: its executors, and its state in YARN. Reports to the runner only."""
