"""Writes down what has arrived with it: arguments, settings, and code that its driver and its workers import."""

import json
import sys

import beside_it
import in_a_wheel
import in_a_zip

from holdfast.job import context

ctx = context()


def of_the_worker(_: int) -> tuple[str, str, str]:
    import beside_it
    import in_a_wheel
    import in_a_zip

    return beside_it.WHERE, in_a_zip.WHERE, in_a_wheel.WHERE


context_of_spark = ctx.spark.sparkContext
arrived = {
    "arguments": sys.argv[2:],
    "conf": ctx.spark.conf.get("spark.holdfast.test.setting"),
    "driver": [beside_it.WHERE, in_a_zip.WHERE, in_a_wheel.WHERE],
    "worker": list(context_of_spark.parallelize([0], 1).map(of_the_worker).first()),
}
with open(sys.argv[1], "w") as file:
    json.dump(arrived, file)
