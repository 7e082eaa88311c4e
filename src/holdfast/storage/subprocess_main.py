"""`python -P -m holdfast.storage.subprocess_main`: answers one call and ends. The other end of `apart.py`."""

import json
import os
import sys
import threading
import time
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.storage.dispatch import call_here
from holdfast.storage.filesystem.remote_folder import Progress
from holdfast.storage.location import parse
from holdfast.storage.subprocess_call import name_of

SIGN_OF_LIFE_S = 1.0


def main() -> None:
    # What libraries print on standard output must not be taken for an answer.
    out = os.dup(1)
    os.dup2(2, 1)
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_whoever_asked, daemon=True).start()
    Progress.report = _SignsOfLife(out)
    answer = json.dumps(_answer(request)).encode()
    while answer:
        answer = answer[os.write(out, answer) :]


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    notes: list[str] = []
    try:
        location = parse(request["location"])
        value = call_here(location, request["folder"], notes.append, request["method"], **request["arguments"])
    except HoldfastError as error:
        return {"error": name_of(error), "text": str(error), "notes": notes}
    return {"value": value, "notes": notes}


class _SignsOfLife:
    def __init__(self, out: int) -> None:
        self._out = out
        self._next = 0.0

    def __call__(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + SIGN_OF_LIFE_S
            os.write(self._out, b".\n")


def _end_with_whoever_asked() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    code = 1
    try:
        main()
        code = 0
    except Exception as error:  # noqa: BLE001 - the last line of what it says is shown to whoever asked
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    # Without tearing anything down: what was not finished must not be finished now.
    os._exit(code)
