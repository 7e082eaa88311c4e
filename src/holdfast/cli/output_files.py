"""Output files of `holdfast explain`. An existing file that is not such an output, for example a log, is never overwritten."""

import os
import stat
from pathlib import Path

from holdfast.errors import Refused

JSON_BEGINS = b'{\n  "summary": '
PAGE_BEGINS = b"<!DOCTYPE html>"
EVENTS_BEGINS = b"PAR1"
TRACE_BEGINS = b'{"traceEvents": '


def check_free(path: str | None, option: str, begins: bytes) -> None:
    """Raise Refused if the output cannot be written, before the analysis starts. An existing output starts with `begins`."""
    if path is None or path == "-":
        return
    file = Path(path)
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        if not file.parent.is_dir():
            raise Refused(f"{path} cannot be written: there is no directory {file.parent}") from None
        return
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise Refused(f"{path} cannot be written: it is a directory")
    if not os.access(path, os.W_OK):
        raise Refused(f"{path} cannot be written: permission denied")
    if stat.S_ISREG(mode) and not _begins(file, begins):
        raise Refused(
            f"{path} already exists and was not written by {option}, so it is not overwritten: name another file after {option}"
        )


def write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text + "\n", "utf-8")
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}") from error


def _begins(file: Path, begins: bytes) -> bool:
    """Return True if the file is empty or starts with `begins`."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(begins)) in (begins, b"")
    except OSError as error:
        raise Refused(f"{file} cannot be read: {error.strerror}") from error
