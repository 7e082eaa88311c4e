"""Where the storage is, spelled for us, for pyarrow and for Spark.

Spark and pyarrow take the same URI apart differently (pyarrow decodes percent signs, Spark does not; pyarrow wants `s3://` with
the endpoint in the query, Spark `s3a://` with the endpoint in its configuration). A location is therefore admitted only if
both would reach the same place, and it holds no secrets, because it stands in records, logs and sentences.
"""

import importlib.util
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from holdfast.errors import Refused
from holdfast.model.identifiers import is_name

CHECKPOINTS = "checkpoints"
_URI = re.compile(r"(?P<scheme>[a-z][a-z0-9]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_HADOOP = re.compile(r"(?:(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9._-]+(?::[0-9]{1,5})?)?")
_AZURE = re.compile(r"[A-Za-z0-9$-]+@[A-Za-z0-9.-]+")
_AUTHORITIES = {"s3": _BUCKET, "gs": _BUCKET, "hdfs": _HADOOP, "viewfs": _HADOOP, "abfs": _AZURE, "abfss": _AZURE}
_ALIASES = {"s3a": "s3", "gcs": "gs"}
_FOR_SPARK = {"s3": "s3a"}
_SEGMENT = re.compile(r"[A-Za-z0-9._=+@~,-]+")
_SECRET = re.compile("secret|password|token|key", re.IGNORECASE)
_KINDS = "a directory (an absolute path), or s3://, gs://, hdfs://, viewfs://, abfs:// or abfss://"


@dataclass(frozen=True, slots=True)
class Location:
    scheme: str
    """Empty for a directory."""
    authority: str
    """A bucket, a name node, or a container and its account."""
    path: str
    """Absolute for a directory; otherwise without slashes around it, and empty for a whole bucket."""
    query: str = ""

    @property
    def is_directory(self) -> bool:
        return not self.scheme

    @property
    def shown(self) -> str:
        """For people: without the query."""
        return self._spelled(self.scheme)

    @property
    def for_spark(self) -> str:
        return self._spelled(_FOR_SPARK.get(self.scheme, self.scheme))

    def __str__(self) -> str:
        """As we and pyarrow want it; parsing it gives this location again."""
        return self.shown + (f"?{self.query}" if self.query else "")

    def _spelled(self, scheme: str) -> str:
        if self.is_directory:
            return self.path
        return f"{scheme}://{self.authority}" + (f"/{self.path}" if self.path else "")

    def joined(self, *names: str) -> "Location":
        """A place below. Names are single segments, so that nothing leads out."""
        for name in names:
            if _SEGMENT.fullmatch(name) is None or name in (".", ".."):
                raise Refused(f"'{name}' cannot be the name of a folder in {self.shown}")
        path = "/".join((self.path, *names)) if self.path else "/".join(names)
        return Location(self.scheme, self.authority, path, self.query)


def parse(text: str) -> Location:
    """Raises Refused."""
    if text == "" or not text.isprintable():
        raise Refused(f"{text!r} is not a location: expected {_KINDS}")
    if text.startswith("/"):
        return _directory(text, text)
    if text.startswith("file:"):
        return _file_uri(text)
    match = _URI.fullmatch(text)
    if match is None:
        raise Refused(f"'{_without_secrets(text)}' is not a location: expected {_KINDS}")
    scheme = _ALIASES.get(match["scheme"], match["scheme"])
    if scheme not in _AUTHORITIES:
        raise Refused(f"'{match['scheme']}://' is not supported as a location: expected {_KINDS}")
    return _remote(scheme, match["authority"], match["path"] or "", match["query"] or "")


def validate(location: str) -> None:
    """Refuses, in a sentence, what cannot be a location, and what this installation cannot reach. Asks nobody."""
    if not parse(location).is_directory and importlib.util.find_spec("pyarrow") is None:
        raise Refused(f"{parse(location).shown} needs pyarrow, which is not installed: install holdfast[remote]")


def checkpoint_of(location: str, job: str) -> str:
    """The root of a job's checkpoint, as Spark spells it."""
    if not is_name(job):
        raise Refused(f"'{job}' cannot be the name of a job's checkpoint")
    return parse(location).joined(CHECKPOINTS, job).for_spark


def in_storage(checkpoint: str, location: str) -> str:
    """The reverse: a checkpoint as Spark spells it, as `Claims` wants it.

    Where it stands in the same bucket or file system as the storage, it is reached the same way, by the storage's query.
    """
    here, storage = parse(checkpoint), parse(location)
    if (here.scheme, here.authority) != (storage.scheme, storage.authority) or here.query:
        return str(here)
    return str(Location(here.scheme, here.authority, here.path, storage.query))


def spark_conf(location: str) -> dict[str, str]:
    """What Spark must be told to reach the same store: the part of an S3 location that its path has no room for."""
    parsed = parse(location)
    if parsed.scheme != "s3":
        return {}
    asked = dict(parse_qsl(parsed.query))
    conf = {}
    if endpoint := asked.get("endpoint_override"):
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
        conf["spark.hadoop.fs.s3a.endpoint.region"] = asked.get("region", "us-east-1")
    elif region := asked.get("region"):
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    if asked.get("scheme") == "http":
        conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = "false"
    return conf


def _directory(path: str, text: str) -> Location:
    segments = [segment for segment in path.split("/") if segment]
    if not segments:
        raise Refused(f"'{text}' is the root of the file system: name a directory of its own")
    _no_dots(segments, text)
    return Location("", "", "/" + "/".join(segments))


def _file_uri(text: str) -> Location:
    rest = text.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise Refused(
                f"'{text}' names the machine '{host}': a directory must be spelled file:///PATH, as each node sees it"
            )
        rest = slash + rest
    if not rest.startswith("/") or set(rest) & set("?#"):
        raise Refused(f"'{text}' is not a location: expected file:///PATH")
    if "%" in rest:
        raise Refused(f"'{text}' has '%' in its path, which Spark takes as it stands and others decode: give the plain path")
    return _directory(rest, text)


def _remote(scheme: str, authority: str, path: str, query: str) -> Location:
    shown = f"{scheme}://{_without_secrets(authority)}{path}"
    if ":" in authority.rpartition("@")[0]:
        raise Refused(f"{shown} holds a password: leave it out, and give credentials to the nodes by their environment")
    if _AUTHORITIES[scheme].fullmatch(authority) is None:
        raise Refused(f"{shown} does not name where to look: expected {_expected(scheme)}")
    segments = [segment for segment in path.split("/") if segment]
    _no_dots(segments, shown)
    for segment in segments:
        if odd := sorted(set(_SEGMENT.sub("", segment))):
            raise Refused(f"{shown} has '{''.join(odd)}' in its path, which Spark and pyarrow read differently")
    try:
        asked = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError:
        raise Refused(f"{shown} has a query that is not NAME=VALUE&NAME=VALUE…") from None
    for name, _ in asked:
        if _SECRET.search(name):
            raise Refused(f"{shown} holds a secret ('{name}'): give credentials to the nodes by their environment")
    return Location(scheme, authority, "/".join(segments), query)


def _no_dots(segments: list[str], text: str) -> None:
    if "." in segments or ".." in segments:
        raise Refused(f"'{text}' has '.' or '..' in its path: spell it without")


def _expected(scheme: str) -> str:
    if scheme in ("s3", "gs"):
        return f"{scheme}://BUCKET/PATH"
    if scheme in ("abfs", "abfss"):
        return f"{scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
    return f"{scheme}://HOST:PORT/PATH"


def _without_secrets(text: str) -> str:
    """For sentences about what could not be taken apart: what stands before an @ may be a password."""
    head, at, tail = text.rpartition("@")
    return f"…@{tail}" if at and ":" in head else text
