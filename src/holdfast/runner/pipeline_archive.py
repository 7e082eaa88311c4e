"""A pipeline as it was submitted, in one file, laid out again in the attempt's own folder."""

import zipfile
from pathlib import Path, PurePosixPath

from holdfast.errors import Refused


def unpack(package: Path, folder: Path) -> None:
    """Raises Refused for what nobody has packed for us, and OSError."""
    try:
        with zipfile.ZipFile(package) as archive:
            for name in archive.namelist():
                path = PurePosixPath(name)
                if path.is_absolute() or ".." in path.parts or not path.parts:
                    raise Refused(f"its package has '{name}' in it, which leads out of its folder")
                place = folder / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(archive.read(name))
    except zipfile.BadZipFile as error:
        raise Refused(f"its package cannot be unpacked: {error}") from error
