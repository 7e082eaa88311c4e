"""Logs in, answers out. Only `test_command` starts Spark."""
