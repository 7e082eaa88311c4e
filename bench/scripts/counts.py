"""Stateful streaming job: `counts.py INPUT PARTITIONS DIRECTORY` counts rows by key, one file per batch."""

import sys

from pyspark.sql import SparkSession

source, partitions, directory = sys.argv[1:]
spark = SparkSession.builder.config("spark.sql.shuffle.partitions", partitions).getOrCreate()
rows = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).json(source)
query = (
    rows.groupBy("key")
    .count()
    .writeStream.outputMode("update")
    .format("noop")
    .option("checkpointLocation", f"{directory}/checkpoint")
    .start()
)
query.awaitTermination()
