"""Tests of `holdfast explain`: logs in, answers out. Only `test_command` and `spark/` start Spark."""
