"""Storage locations, and their form for pyarrow and for Spark.

Spark and pyarrow parse the same URI differently. pyarrow decodes percent signs, Spark does not. pyarrow takes `s3://` with the
endpoint in the query, Spark `s3a://` with the endpoint in its configuration. A location is valid only if both reach the same
files. It may not contain secrets, because it appears in records, logs and messages.
"""

import importlib.util
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl

from holdfast.errors import Refused
from holdfast.model.identifiers import is_valid_name

CHECKPOINTS = "checkpoints"
_URI = re.compile(r"(?P<scheme>[a-z][a-z0-9]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_HADOOP = re.compile(r"(?:(?:[A-Za-z0-9._-]+@)?[A-Za-z0-9._-]+(?::[0-9]{1,5})?)?")
_AZURE = re.compile(r"[A-Za-z0-9$-]+@[A-Za-z0-9.-]+")
_AUTHORITIES = {"s3": _BUCKET, "gs": _BUCKET, "hdfs": _HADOOP, "viewfs": _HADOOP, "abfs": _AZURE, "abfss": _AZURE}
HADOOP_SCHEMES = ("hdfs", "viewfs")
"""Schemes that Hadoop's own client serves. It reads its settings from HADOOP_CONF_DIR, as Spark does."""
_ALIASES = {"s3a": "s3", "gcs": "gs"}
_SPARK_SCHEMES = {"s3": "s3a"}
_SEGMENT = re.compile(r"[A-Za-z0-9._=+@~,-]+")
_SECRET = re.compile("secret|password|token|key", re.IGNORECASE)
_VALID_FORMS = "a directory (an absolute path), or s3://, gs://, hdfs://, viewfs://, abfs:// or abfss://"


@dataclass(frozen=True, slots=True)
class Location:
    scheme: str
    """Empty for a directory."""
    authority: str
    """Bucket, name node, or container and account."""
    path: str
    """Absolute path of a directory; otherwise without leading and trailing slashes, and empty for a whole bucket."""
    query: str = ""

    @property
    def is_directory(self) -> bool:
        return not self.scheme

    @property
    def display_name(self) -> str:
        """Location without its query, for messages."""
        return self._with_scheme(self.scheme)

    @property
    def spark_uri(self) -> str:
        return self._with_scheme(_SPARK_SCHEMES.get(self.scheme, self.scheme))

    def __str__(self) -> str:
        """Return the form for Holdfast and pyarrow. Parsing it returns an equal location."""
        return self.display_name + (f"?{self.query}" if self.query else "")

    def _with_scheme(self, scheme: str) -> str:
        if self.is_directory:
            return self.path
        return f"{scheme}://{self.authority}" + (f"/{self.path}" if self.path else "")

    @property
    def name(self) -> str:
        """Last segment of the path."""
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> "Location | None":
        """Location of the folder above, or None for a folder at the root of the file system and for a whole bucket."""
        path = self.path.rpartition("/")[0]
        return Location(self.scheme, self.authority, path, self.query) if path else None

    def join(self, *names: str) -> "Location":
        """Return the location of a folder below. Raises Refused for a name that is not a single path segment."""
        for name in names:
            if _SEGMENT.fullmatch(name) is None or name in (".", ".."):
                raise Refused(f"'{name}' cannot be the name of a folder in {self.display_name}")
        path = "/".join((self.path, *names)) if self.path else "/".join(names)
        return Location(self.scheme, self.authority, path, self.query)


def parse_location(text: str) -> Location:
    """Parse a location. Raises Refused."""
    if text == "" or not text.isprintable():
        raise Refused(f"{text!r} is not a location: expected {_VALID_FORMS}")
    if text.startswith("/"):
        return _parse_directory(text, text)
    if text.startswith("file:"):
        return _parse_file_uri(text)
    match = _URI.fullmatch(text)
    if match is None:
        raise Refused(f"'{_without_secrets(text)}' is not a location: expected {_VALID_FORMS}")
    scheme = _ALIASES.get(match["scheme"], match["scheme"])
    if scheme not in _AUTHORITIES:
        raise Refused(f"'{match['scheme']}://' is not supported as a location: expected {_VALID_FORMS}")
    return _parse_remote(scheme, match["authority"], match["path"] or "", match["query"] or "")


def check_location(location: str) -> None:
    """Raise Refused for an invalid location, and for one that needs a package that is not installed."""
    parsed = parse_location(location)
    if parsed.is_directory:
        return
    if importlib.util.find_spec("pyarrow") is None:
        raise Refused(f"{parsed.display_name} needs pyarrow, which is not installed: install holdfast[remote]")
    if parsed.scheme in HADOOP_SCHEMES and not all(map(importlib.util.find_spec, ("pyspark", "py4j"))):
        raise Refused(
            f"{parsed.display_name} needs the Hadoop client of PySpark, which is not installed: install holdfast[spark]"
        )


def spark_checkpoint_uri(storage: str, job: str) -> str:
    """Return the root of a job's checkpoint in Spark's form. Raises Refused for an invalid job id."""
    if not is_valid_name(job):
        raise Refused(f"'{job}' cannot be the name of a job's checkpoint")
    return parse_location(storage).join(CHECKPOINTS, job).spark_uri


def checkpoint_location(spark_uri: str, storage_location: str) -> str:
    """Convert a checkpoint's URI in Spark's form to a location for `Claims` and `Checkpoints`.

    A checkpoint in the same bucket or file system as the storage gets the query of the storage's location.
    """
    checkpoint, storage = parse_location(spark_uri), parse_location(storage_location)
    if (checkpoint.scheme, checkpoint.authority) != (storage.scheme, storage.authority) or checkpoint.query:
        return str(checkpoint)
    return str(Location(checkpoint.scheme, checkpoint.authority, checkpoint.path, storage.query))


def enclosing_folders(location: Location) -> list[Location]:
    """Return the folders above a location that can be the checkpoint root of a job.

    These are the folder directly above, because a job can choose its root, and each folder in a folder `checkpoints`.
    """
    folders = []
    above = location.parent
    while above is not None:
        if above == location.parent or (above.parent is not None and above.parent.name == CHECKPOINTS):
            folders.append(above)
        above = above.parent
    return folders


def spark_conf(location: str) -> dict[str, str]:
    """Return the Spark settings for a location: endpoint and region of S3, which Spark's form of the URI cannot contain."""
    parsed = parse_location(location)
    if parsed.scheme != "s3":
        return {}
    parameters = dict(parse_qsl(parsed.query))
    conf = {}
    if endpoint := parameters.get("endpoint_override"):
        conf["spark.hadoop.fs.s3a.endpoint"] = endpoint
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
        conf["spark.hadoop.fs.s3a.endpoint.region"] = parameters.get("region", "us-east-1")
    elif region := parameters.get("region"):
        conf["spark.hadoop.fs.s3a.endpoint.region"] = region
    if parameters.get("scheme") == "http":
        conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = "false"
    return conf


def _parse_directory(path: str, text: str) -> Location:
    segments = [segment for segment in path.split("/") if segment]
    if not segments:
        raise Refused(f"'{text}' is the root of the file system: use a directory below it")
    _refuse_dots(segments, text)
    return Location("", "", "/" + "/".join(segments))


def _parse_file_uri(text: str) -> Location:
    rest = text.removeprefix("file:")
    if rest.startswith("//"):
        host, slash, rest = rest[2:].partition("/")
        if host not in ("", "localhost"):
            raise Refused(f"'{text}' contains the host name '{host}': use file:///PATH, with the path on each node")
        rest = slash + rest
    if not rest.startswith("/") or set(rest) & set("?#"):
        raise Refused(f"'{text}' is not a location: expected file:///PATH")
    if "%" in rest:
        raise Refused(f"'{text}' has '%' in its path, which Spark does not decode but pyarrow does: use a path without it")
    return _parse_directory(rest, text)


def _parse_remote(scheme: str, authority: str, path: str, query: str) -> Location:
    display_name = f"{scheme}://{_without_secrets(authority)}{path}"
    if ":" in authority.rpartition("@")[0]:
        raise Refused(f"{display_name} contains a password: remove it and pass credentials to the nodes in their environment")
    if _AUTHORITIES[scheme].fullmatch(authority) is None:
        raise Refused(f"{display_name} has no valid host or bucket: expected {_expected_form(scheme)}")
    segments = [segment for segment in path.split("/") if segment]
    _refuse_dots(segments, display_name)
    for segment in segments:
        if invalid := sorted(set(_SEGMENT.sub("", segment))):
            raise Refused(f"{display_name} has '{''.join(invalid)}' in its path, which Spark and pyarrow parse differently")
    try:
        parameters = parse_qsl(query, strict_parsing=True) if query else []
    except ValueError:
        raise Refused(f"{display_name} has a query that is not NAME=VALUE&NAME=VALUE…") from None
    for name, _ in parameters:
        if _SECRET.search(name):
            raise Refused(f"{display_name} contains a secret ('{name}'): pass credentials to the nodes in their environment")
    if scheme in HADOOP_SCHEMES and query:
        raise Refused(f"{display_name} has a query, which Hadoop does not know: put settings into HADOOP_CONF_DIR")
    return Location(scheme, authority, "/".join(segments), query)


def _refuse_dots(segments: list[str], text: str) -> None:
    if "." in segments or ".." in segments:
        raise Refused(f"'{text}' has '.' or '..' in its path: use a path without them")


def _expected_form(scheme: str) -> str:
    if scheme in ("s3", "gs"):
        return f"{scheme}://BUCKET/PATH"
    if scheme in ("abfs", "abfss"):
        return f"{scheme}://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH"
    return f"{scheme}://HOST:PORT/PATH"


def _without_secrets(text: str) -> str:
    """Hide the part before an @ if it may contain a password."""
    head, at, tail = text.rpartition("@")
    return f"…@{tail}" if at and ":" in head else text
