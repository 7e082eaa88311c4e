"""Streaming table of all readings, each exactly once, even if the pipeline is interrupted."""

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@pipelines.table(format="json")
def readings() -> DataFrame:
    source = spark.readStream.schema("sensor string, celsius double").option("maxFilesPerTrigger", 1)
    return source.json(spark.conf.get("spark.readings.input"))
