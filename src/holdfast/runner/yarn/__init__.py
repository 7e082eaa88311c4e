"""YARN as the cluster of a driver: the node's Hadoop configuration, and the check before a start. Starts nothing there."""
