"""Reader for Spark checkpoints that does not need Spark: batches, offsets, commits, state, and damage.

Pure: a `FileTree` (names, sizes, times and the bytes of small files) goes in, plain records come out. `holdfast.storage` fills
the tree. Nothing here changes a file, and nothing raises because of the content of a file: damage becomes a `Finding`.
"""

from holdfast.checkpoint.file_sink import FileSinkLog
from holdfast.checkpoint.finding import Finding
from holdfast.checkpoint.known_queries import KnownQueries, KnownQuery
from holdfast.checkpoint.query import Batch, Operator, Query
from holdfast.checkpoint.query_position import QueryPosition
from holdfast.checkpoint.verdict import CheckpointVerdict, judge_findings, judge_query

__all__ = [
    "Batch",
    "CheckpointVerdict",
    "FileSinkLog",
    "Finding",
    "KnownQueries",
    "KnownQuery",
    "Operator",
    "Query",
    "QueryPosition",
    "judge_findings",
    "judge_query",
]
