"""`python -P -m holdfast.storage.fetch LOCATION DIGEST FILE`: fetch one blob, in a process that may load pyarrow and ends.

Exit codes: 0 done; 1 refused; 2 wrong usage; 65 the blob is damaged; 66 it is missing; 75 try again later. Says a sentence.
"""

import os
import sys
from pathlib import Path

from holdfast.errors import HoldfastError, Unavailable
from holdfast.storage.blob_storage import open_storage
from holdfast.storage.storage_errors import BlobDamaged, BlobMissing

_CODES = {BlobDamaged: 65, BlobMissing: 66, Unavailable: 75}
_USAGE = 2


def main(arguments: list[str]) -> int:
    if len(arguments) != 3:
        sys.stderr.write("usage: python -P -m holdfast.storage.fetch LOCATION DIGEST FILE\n")
        return _USAGE
    location, digest, file = arguments
    try:
        open_storage(location, apart=False).fetch(digest, Path(file))
    except HoldfastError as error:
        sys.stderr.write(f"{error}\n")
        return next((code for kind, code in _CODES.items() if isinstance(error, kind)), 1)
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # pyarrow's threads are not waited for
