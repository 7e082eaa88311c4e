"""What a savepoint consists of. Its manifest is written last, and what has none is no savepoint."""

import json
from dataclasses import asdict, dataclass, fields

from holdfast.errors import Refused
from holdfast.storage.digest import is_digest

FORMAT = 1


class Damaged(Refused):
    """It is not what it was when it was made."""


@dataclass(frozen=True, slots=True)
class File:
    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    id: str
    job: str
    name: str
    """Of the job."""
    ancestors: tuple[str, ...]
    """The jobs that that one was restored from, the newest first."""
    version: int
    """Of the job's spec."""
    made_wall_s: float
    by: str
    took_s: float
    running: bool
    """Whether the job ran meanwhile."""
    batches: dict[str, int]
    """The last batch of each query, by its folder."""
    files: tuple[File, ...]

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def encode(self) -> bytes:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1).encode()

    @classmethod
    def decode(cls, data: bytes, where: str) -> "Manifest":
        """Raises Damaged."""
        try:
            found = json.loads(data)
            if found["format"] != FORMAT:
                raise Damaged(f"{where} has the format {found['format']!r}, and this Holdfast knows {FORMAT}")
            files = tuple(_file(each) for each in found["files"])
            plain = {field.name: found[field.name] for field in fields(cls) if field.name not in ("files", "ancestors")}
            return cls(**plain, ancestors=tuple(found["ancestors"]), files=files)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Damaged(f"{where} is no manifest of a savepoint: {type(error).__name__}") from error


def _file(fields: dict[str, object]) -> File:
    path, size, sha256 = fields["path"], fields["size"], fields["sha256"]
    if not isinstance(path, str) or not isinstance(size, int) or not isinstance(sha256, str) or not is_digest(sha256):
        raise ValueError(path)
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(path)  # nothing leads out of the folder
    return File(path, size, sha256)
