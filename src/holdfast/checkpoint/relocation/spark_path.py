"""Absolute paths as Spark writes them: `file:/dir/name`, `file:///dir/name`, `s3a://bucket/name`."""

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?://(?P<authority>[^/]*))?(?P<path>/.*)", re.DOTALL)
_ALIASES = {"s3": "s3a", "s3n": "s3a"}
_UNQUOTED = "/_-!.~'()*,;:$&+=@"
"""Characters that java.net.URI leaves as they are in a path, beside letters, digits and all that is not ASCII."""
FILE = "file"


@dataclass(frozen=True, slots=True)
class SparkPath:
    prefix: str
    """Text before the path, as it is written."""
    scheme: str
    authority: str
    path: str

    def is_in_same_store(self, other: "SparkPath") -> bool:
        """Return True if both paths are in one file system. A path without an authority is in the default one."""
        return self.scheme == other.scheme and (self.authority == other.authority or not self.authority or not other.authority)

    def __str__(self) -> str:
        return f"{self.prefix}{self.path}"


def parse_spark_path(text: str) -> SparkPath | None:
    """Return None for a text that is not an absolute path. A path without a scheme is one of the local file system."""
    if text.startswith("/"):
        return SparkPath(f"{FILE}:", FILE, "", text)
    match = _URI.fullmatch(text)
    if match is None:
        return None
    scheme = match["scheme"].lower()
    return SparkPath(text[: match.start("path")], _ALIASES.get(scheme, scheme), match["authority"] or "", match["path"])


def path_below(root: SparkPath, path: SparkPath, *, encoded: bool = False) -> str | None:
    """Return the part of a path below a root, as it is written, or None if the path is not below it.

    `encoded` is True for a path with percent-encoded characters. A root has none.
    """
    if not path.is_in_same_store(root):
        return None
    segments = [each for each in root.path.split("/") if each]
    parts = path.path.split("/")[1:]
    head = parts[: len(segments)]
    if len(parts) <= len(segments) or [unquote(each) if encoded else each for each in head] != segments:
        return None
    return "/".join(parts[len(segments) :])


def join_below(root: SparkPath, below: str, *, like: SparkPath, encoded: bool = False) -> str:
    """Return the path of a file below a root, written like another path if both are in one file system."""
    base = root.path.rstrip("/")
    prefix = like.prefix if like.is_in_same_store(root) else root.prefix
    return f"{prefix}{_encode(base) if encoded else base}/{below}"


def _encode(path: str) -> str:
    """Encode a path like java.net.URI."""
    return "".join(each if ord(each) > 127 else quote(each, safe=_UNQUOTED) for each in path)
