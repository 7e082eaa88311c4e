"""The files in the control directory. Whoever reads one sees a whole one."""

import contextlib
import json
import os
from typing import Any


def write(directory: str, name: str, content: dict[str, Any]) -> None:
    """Best effort: a full disk or a directory that is gone must not stop a job."""
    if not directory:
        return
    path = os.path.join(directory, name)
    with contextlib.suppress(OSError):
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            # Text from Java may carry lone surrogates, which UTF-8 does not know: JSON's escapes do.
            json.dump(content, file)
        os.replace(f"{path}.new", path)
