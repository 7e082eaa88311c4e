"""Formats that the runner, the driver and the Kafka monitor exchange: environment variables, control files, pipe messages.

Owns: the name and the format of each of them, with one writer and one reader for every format.
Never does: import anything but the standard library and `holdfast.errors`, because every driver imports this package.

A node adopts runners and drivers that an older version has started, so names and formats only ever gain optional parts.
"""
