"""Versions of Spark that can read a checkpoint, as far as its formats show. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.checkpoint.finding import UNKNOWN
from holdfast.checkpoint.query import Query

_OLDEST = (2, 1)
_OFFSETS = {2: (4, 2)}
_COMMITS = {2: (4, 0), 3: (4, 3)}
_STATE_FILES = {"zip": (3, 2), "changelog": (3, 5)}
_STREAMING = "spark.sql.streaming."
_SETTINGS = {
    "flatMapGroupsWithState.stateFormatVersion": ("1", (2, 4)),
    "aggregation.stateFormatVersion": ("1", (2, 4)),
    "join.stateFormatVersion": ("1", (3, 0)),
    "stateStore.compression.codec": ("lz4", (3, 1)),
    "stateStore.encodingFormat": ("unsaferow", (4, 0)),
    "stateStore.rowChecksum.enabled": ("false", (4, 1)),
}
"""Settings of the state: the value that every version of Spark reads, and the first version that reads other values."""


@dataclass(frozen=True, slots=True)
class SparkVersions:
    oldest: str | None
    """Oldest version of Spark that reads the formats; None if a format is not known."""
    reason: str = ""
    """Format that needs this version; empty if no format does."""


def readable_by(query: Query) -> SparkVersions:
    """Return the oldest version of Spark that reads the checkpoint. Later versions read earlier formats."""
    if any(finding.kind == UNKNOWN and "which is not known" in finding.problem for finding in query.findings):
        return SparkVersions(None, "a format is not known")
    version, reason = max(_requirements(query), default=(_OLDEST, ""))
    return SparkVersions(".".join(map(str, version)), reason)


def _requirements(query: Query) -> Iterator[tuple[tuple[int, int], str]]:
    formats = query.formats
    if formats.offsets in _OFFSETS:
        yield _OFFSETS[formats.offsets], f"version {formats.offsets} of the offsets"
    if formats.commits in _COMMITS:
        yield _COMMITS[formats.commits], f"version {formats.commits} of the commits"
    if formats.operator_metadata == 2:
        yield (4, 0), "version 2 of the metadata of an operator"
    if formats.has_state_ids:
        yield (4, 0), "state with unique ids"
    for name, value in formats.settings if formats.state_files else ():
        readable, version = _SETTINGS.get(name.removeprefix(_STREAMING), (value, _OLDEST))
        if value != readable:
            yield version, f"{name}={value}"
    for suffix in formats.state_files:
        if suffix in _STATE_FILES:
            yield _STATE_FILES[suffix], "state in RocksDB" if suffix == "zip" else "changelogs of RocksDB"
