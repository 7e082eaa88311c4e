"""Files below one path, through the file system that the Spark session has for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError

from holdfast.errors import Unavailable

_MISSING = "java.io.FileNotFoundException"


class Folder:
    """Names are relative to it; what is not there is None, False or nothing. Raises Unavailable for everything else."""

    def __init__(self, session: Any, path: str) -> None:
        self._jvm = session._jvm
        self._shown = path
        with self._failing():
            root = self._path(path)
            self._files = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
            self._root = self._files.makeQualified(root)
        self.scheme = str(self._files.getScheme())

    def uri(self, name: str) -> str:
        return str(self._at(name).toString())

    def names(self, name: str = "") -> list[str]:
        with self._failing(), _absent_is_fine():
            paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(self._files.listStatus(self._at(name)))
            # One question for all of them, since each costs a millisecond. The answer is `{parent/a,parent/b}`.
            text = str(self._jvm.org.apache.commons.lang3.ArrayUtils.toString(paths))
            return [part[:-1] for part in text.split(f"{self.uri(name)}/")[1:]]
        return []

    def exists(self, name: str) -> bool:
        with self._failing():
            return bool(self._files.exists(self._at(name)))

    def read(self, name: str) -> str | None:
        with self._failing(), _absent_is_fine():
            stream = self._files.open(self._at(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        return None

    def write(self, name: str, text: str) -> None:
        with self._failing():
            stream = self._files.create(self._at(name), True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()

    def rename(self, source: str, target: str) -> bool:
        """Whether it was done. A target that exists must be ruled out before: file systems differ in what they do then."""
        with self._failing(), _absent_is_fine():
            return bool(self._files.rename(self._at(source), self._at(target)))
        return False

    def remove(self, name: str) -> None:
        with self._failing(), _absent_is_fine():
            self._files.delete(self._at(name), True)

    def _at(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            problem = " ".join(str(error.java_exception.toString()).split())
            raise Unavailable(f"{self._shown} cannot be used: {problem}") from error


@contextmanager
def _absent_is_fine() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _MISSING:
            raise
