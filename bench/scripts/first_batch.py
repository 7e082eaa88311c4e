"""Small streaming job: `first_batch.py DIRECTORY` writes a few rows per second as Parquet until it is killed."""

import sys
import time

started = time.time()

from pyspark.sql import SparkSession  # noqa: E402 -- the import is measured

directory = sys.argv[1]
imported = time.time()
spark = SparkSession.builder.getOrCreate()
with open(f"{directory}/times", "w") as file:
    file.write(f"{started} {imported} {time.time()}")
rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
query = (
    rows.writeStream.format("parquet")
    .option("path", f"{directory}/out")
    .option("checkpointLocation", f"{directory}/checkpoint")
    .start()
)
query.awaitTermination()
