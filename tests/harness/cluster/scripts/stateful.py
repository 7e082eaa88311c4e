"""Run stateful queries over a rate source: --queries names them, separated by commas."""

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
    batch.count()


started = [
    query.writeStream.queryName(name).outputMode(mode).foreachBatch(write).start()
    for name, (query, mode) in QUERIES.items()
    if name in ctx.args.queries.split(",")
]
ctx.run(*started)
