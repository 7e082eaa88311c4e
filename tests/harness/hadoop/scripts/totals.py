"""Count each line of the input in a stateful query, and write all counts to a file after each batch.

--input DIR and --totals FILE are on the local disk; --state LOCATION is the checkpoint of the query.
"""

import json
import os

from pyspark.sql import DataFrame

from holdfast.job import context

ctx = context()
lines = ctx.spark.readStream.option("maxFilesPerTrigger", 200).text(f"file://{ctx.args.input}")


def write(batch: DataFrame, number: int) -> None:
    counts = {row["value"]: row["count"] for row in batch.collect()}
    with open(f"{ctx.args.totals}.new", "w") as file:
        json.dump({"batch": number, "counts": counts}, file)
    os.replace(f"{ctx.args.totals}.new", ctx.args.totals)


counts = lines.groupBy("value").count().writeStream.queryName("totals").outputMode("complete")
ctx.run(counts.option("checkpointLocation", ctx.args.state).foreachBatch(write).start())
