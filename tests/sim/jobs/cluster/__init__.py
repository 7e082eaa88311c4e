"""Simulated environment of the product's processes: machines, drivers, watchdogs, peers, storage and nodes."""
