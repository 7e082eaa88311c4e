"""Files and folders in a local directory, in a store that pyarrow reaches, and on HDFS.

Owns: atomic and durable writes. Never does: interpret the content of a file.
"""
