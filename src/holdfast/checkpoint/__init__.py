"""What a checkpoint says, without Spark: its batches, offsets, commits and state, and what is wrong with it.

Everything here is pure: a `Tree` (names, sizes, times, and the bytes of small files) goes in, plain records come out. Whoever
has the bytes, `holdfast.storage`, fills the tree. Nothing here deletes or changes anything, and nothing raises because of what
a file holds: a file that cannot be read is a finding, which is a sentence.
"""

from holdfast.checkpoint.file_sink import Sink
from holdfast.checkpoint.finding import Finding
from holdfast.checkpoint.known_queries import Known, KnownQuery
from holdfast.checkpoint.query import Batch, Operator, Query
from holdfast.checkpoint.query_position import Standing
from holdfast.checkpoint.verdict import Verdict, judge

__all__ = ["Batch", "Finding", "Known", "KnownQuery", "Operator", "Query", "Sink", "Standing", "Verdict", "judge"]
