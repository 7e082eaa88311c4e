"""Extraction of a submitted pipeline: one ZIP file, unpacked into the attempt's code directory."""

import zipfile
from pathlib import Path, PurePosixPath

from holdfast.errors import Refused


def unpack_pipeline(package: Path, folder: Path) -> None:
    """Extract `package` into `folder`. Raises Refused for an invalid archive, and OSError."""
    try:
        with zipfile.ZipFile(package) as archive:
            for name in archive.namelist():
                path = PurePosixPath(name)
                if path.is_absolute() or ".." in path.parts or not path.parts:
                    raise Refused(f"the pipeline package contains '{name}', which lies outside of its folder")
                target = folder / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))
    except zipfile.BadZipFile as error:
        raise Refused(f"the pipeline package cannot be unpacked: {error}") from error
