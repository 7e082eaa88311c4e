"""Translation of operating system errors into `Unavailable`."""

import contextlib
from collections.abc import Iterator

from holdfast.errors import Unavailable


@contextlib.contextmanager
def os_errors_as_unavailable(action: str) -> Iterator[None]:
    """Raise Unavailable("ACTION: REASON") for an OSError of the block, pyarrow's included. `action` starts with "cannot"."""
    try:
        yield
    except OSError as error:
        raise Unavailable(f"{action}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    """Return the first line of an error's text without its errno, at most 300 characters."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0][:300]
