"""Copy the lines that have arrived in a directory to another directory, and end. The script does not import Holdfast."""

import sys

from pyspark.sql import SparkSession

source, output = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
lines = spark.readStream.option("maxFilesPerTrigger", 20).text(source)
lines.writeStream.format("text").option("path", output).trigger(availableNow=True).start().awaitTermination()
