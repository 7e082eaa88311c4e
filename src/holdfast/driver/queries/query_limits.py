"""Limits of a query that its operators should know: sources that cannot be resumed, repeated rows, long batches."""

import os
import tempfile
from collections.abc import Iterable
from typing import Any

from holdfast.driver.queries.local_streams import LOCAL_CONNECT_VARIABLE
from holdfast.driver.queries.streaming_sources import StreamingSource
from holdfast.driver.queries.triggers import Trigger

_SOCKET = "org.apache.spark.sql.execution.streaming.sources.textsocketsourceprovider"
NOT_RESUMABLE = frozenset({"socket", _SOCKET})
"""Sources that Spark documents as not fault-tolerant: they cannot return to an offset in a checkpoint."""


def list_not_resumable(sources: Iterable[StreamingSource]) -> list[str]:
    return sorted({source.format for source in sources if source.format in NOT_RESUMABLE})


def needs_temporary_checkpoint(writer: Any, sources: Iterable[StreamingSource]) -> bool:
    """Return True if no source can be resumed. One that can be resumed still needs its offsets in a lasting checkpoint.

    A Spark Connect server outside of this driver cannot use a directory of the driver.
    """
    formats = {source.format for source in sources}
    runs_here = hasattr(writer, "_df") or LOCAL_CONNECT_VARIABLE in os.environ
    return runs_here and bool(formats) and formats <= NOT_RESUMABLE


def create_temporary_checkpoint() -> str:
    """Create a directory for a checkpoint that is removed with the attempt, and return its URI."""
    return f"file://{os.path.abspath(tempfile.mkdtemp(prefix='checkpoint-'))}"


def describe_limits(
    label: str,
    sources: Iterable[StreamingSource],
    trigger: Trigger,
    *,
    temporary_checkpoint: bool,
    asynchronous: bool,
    outlives_driver: bool,
) -> list[str]:
    """Return a sentence about each limit of the query `label`."""
    limits = []
    if formats := list_not_resumable(sources):
        checkpoint = "its checkpoint is temporary" if temporary_checkpoint else "Spark may refuse to continue its checkpoint"
        limits.append(
            f"the query {label} reads from a source that cannot be resumed ({', '.join(formats)}): rows that arrive during a "
            f"restart are lost, and {checkpoint}"
        )
    if asynchronous:
        limits.append(f"the query {label} tracks its progress asynchronously: each restart writes its last rows again")
    if trigger.kind == "continuous":
        limits.append(f"the query {label} has a continuous trigger: each restart writes the rows of its last epoch again")
    if trigger.batch_s:
        limits.append(f"a stop waits for the end of a real-time batch of the query {label}: up to {trigger.batch_s:g} s")
    if outlives_driver:
        limits.append(
            f"the query {label} runs in a Spark Connect server outside of the driver and continues if the driver is killed"
        )
    return limits
