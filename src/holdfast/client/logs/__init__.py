"""Read the logs of drivers from their nodes, and copy all logs of a cluster."""
