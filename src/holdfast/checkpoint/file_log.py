"""Log of a file source or a file sink: file N lists the data files of batch N, as one JSON value per line."""

from holdfast.checkpoint import log_files
from holdfast.checkpoint.damage_rules import LOG_UNREADABLE
from holdfast.checkpoint.file_tree import Entry, FileTree
from holdfast.checkpoint.finding import Finding, damage, doubt


def read_log_entries(tree: FileTree, entry: Entry, path: str) -> list[object] | Finding | None:
    """Return the values in a log file, or the problem that makes them unreadable; None if the file was not read.

    `path` names the file in the finding.
    """
    data = tree.content_of(entry.file)
    if data is None:
        reason = tree.unreadable.get(entry.file.path)
        return doubt(path, f"cannot be read: {reason}") if reason is not None else None
    try:
        return log_files.parse_log_entries(data)
    except log_files.TornFile as torn:
        return damage(LOG_UNREADABLE, path, str(torn))
    except log_files.UnknownFormat as unknown:
        return doubt(path, str(unknown))
