"""Manifest of a savepoint: its origin and the size and SHA-256 of each file. Its field names are part of the file format."""

import json
from dataclasses import asdict, dataclass, fields

from holdfast.errors import Refused
from holdfast.storage.digest import is_digest

FORMAT = 1


class SavepointDamaged(Refused):
    """Savepoint whose manifest or files are not as they were written."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    id: str
    job: str
    name: str
    """Name of the job."""
    ancestors: tuple[str, ...]
    """Jobs whose checkpoint the job continues, the newest first."""
    version: int
    """Version of the job's spec."""
    made_wall_s: float
    by: str
    took_s: float
    running: bool
    """True if the job was running while its checkpoint was copied."""
    batches: dict[str, int]
    """Last batch of each query, by the folder of the query."""
    files: tuple[ManifestFile, ...]
    location: str = ""
    """Location of the job's checkpoint in Spark's form; empty in savepoints of earlier releases."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> "Manifest":
        """Parse a manifest. `where` is its location, for messages. Raises SavepointDamaged."""
        try:
            record = json.loads(data)
            if record["format"] != FORMAT:
                raise SavepointDamaged(f"{where} has format {record['format']!r}; this Holdfast reads format {FORMAT}")
            files = tuple(_decode_file(fields) for fields in record["files"])
            converted = ("files", "ancestors", "location")
            plain = {field.name: record[field.name] for field in fields(cls) if field.name not in converted}
            return cls(**plain, ancestors=tuple(record["ancestors"]), files=files, location=str(record.get("location", "")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SavepointDamaged(f"{where} is not the manifest of a savepoint: {type(error).__name__}") from error


def _decode_file(fields: dict[str, object]) -> ManifestFile:
    path, size, sha256 = fields["path"], fields["size"], fields["sha256"]
    if not isinstance(path, str) or not isinstance(size, int) or not isinstance(sha256, str) or not is_digest(sha256):
        raise ValueError(path)
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(path)  # a restore must not write outside of the checkpoint
    return ManifestFile(path, size, sha256)
