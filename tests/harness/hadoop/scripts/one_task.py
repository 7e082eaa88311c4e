"""Run one task on an executor."""

from holdfast.job import context

assert context().spark.sparkContext.parallelize([1, 2], 1).sum() == 3
