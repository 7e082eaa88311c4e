"""Schedules of jobs: when runs are due, and the record of the runs."""
