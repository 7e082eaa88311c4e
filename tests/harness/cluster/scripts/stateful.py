"""Run stateful queries over a rate source: --queries names them, separated by commas.

--fail-first-batch FILE makes the first two attempts end in the first batch, before any task of it runs: the first attempt
raises, the second one is killed. FILE gets the number of each attempt that came that far.
"""

import os
import signal

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from holdfast.job import context

ctx = context()
rows = ctx.spark.readStream.format("rate").option("rowsPerSecond", 10).load()
QUERIES = {
    "count": (rows.groupBy().count(), "complete"),
    "limit": (rows.limit(1000), "append"),
    "distinct_limit": (rows.dropDuplicates(["value"]).limit(1000), "append"),
    "by_key": (rows.groupBy(F.col("value") % 3).count(), "complete"),
}


def write(batch: DataFrame, number: int) -> None:
    if "fail_first_batch" in ctx.args and number == 0 and ctx.attempt < 3:
        with open(ctx.args.fail_first_batch, "a") as file:
            file.write(f"{ctx.attempt}\n")
        if ctx.attempt == 1:
            raise ValueError("the first attempt fails in its first batch")
        os.kill(os.getpid(), signal.SIGKILL)
    batch.count()


started = [
    query.writeStream.queryName(name).outputMode(mode).foreachBatch(write).start()
    for name, (query, mode) in QUERIES.items()
    if name in ctx.args.queries.split(",")
]
ctx.run(*started)
