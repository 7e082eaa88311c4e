"""Faults of job schedules: random faults, faults at the moment of a transaction, and scripted sequences."""
