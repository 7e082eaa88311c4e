"""Write the received arguments, settings, and modules imported in driver and workers to a file."""

import json
import sys

import beside_it  # type: ignore[import-not-found]  # part of the submission
import in_a_wheel  # type: ignore[import-not-found]  # part of the submission
import in_a_zip  # type: ignore[import-not-found]  # part of the submission

from holdfast.job import context

ctx = context()


def read_in_worker(_: int) -> tuple[str, str, str]:
    import beside_it
    import in_a_wheel
    import in_a_zip

    return beside_it.WHERE, in_a_zip.WHERE, in_a_wheel.WHERE


spark_context = ctx.spark.sparkContext
received = {
    "arguments": sys.argv[2:],
    "conf": ctx.spark.conf.get("spark.holdfast.test.setting"),
    "driver": [beside_it.WHERE, in_a_zip.WHERE, in_a_wheel.WHERE],
    "worker": list(spark_context.parallelize([0], 1).map(read_in_worker).first()),
}
with open(sys.argv[1], "w") as file:
    json.dump(received, file)
