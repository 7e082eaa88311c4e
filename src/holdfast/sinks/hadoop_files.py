"""Files below one path, accessed through Spark's Hadoop file system."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError

from holdfast.errors import Unavailable

_MISSING = "java.io.FileNotFoundException"


class HadoopFolder:
    """Folder on any Hadoop file system. Names are relative to it.

    A missing file gives None, False or an empty list. Any other problem raises Unavailable.
    """

    def __init__(self, session: Any, path: str) -> None:
        self._jvm = session._jvm
        self._label = path
        with self._raising_unavailable():
            root = self._path(path)
            self._files = root.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
            self._root = self._files.makeQualified(root)
        self.scheme = str(self._files.getScheme())

    def uri(self, name: str) -> str:
        return str(self._path_of(name).toString())

    def list_names(self, name: str = "") -> list[str]:
        with self._raising_unavailable(), _ignoring_missing():
            paths = self._jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(self._files.listStatus(self._path_of(name)))
            # One call converts all paths, because each py4j call costs a millisecond. The result is `{parent/a,parent/b}`.
            text = str(self._jvm.org.apache.commons.lang3.ArrayUtils.toString(paths))
            return [part[:-1] for part in text.split(f"{self.uri(name)}/")[1:]]
        return []

    def exists(self, name: str) -> bool:
        with self._raising_unavailable():
            return bool(self._files.exists(self._path_of(name)))

    def read(self, name: str) -> str | None:
        with self._raising_unavailable(), _ignoring_missing():
            stream = self._files.open(self._path_of(name))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()
        return None

    def write(self, name: str, text: str) -> None:
        with self._raising_unavailable():
            stream = self._files.create(self._path_of(name), True)
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or folder. Return False if that failed.

        The caller must ensure that the target does not exist: file systems differ in that case.
        """
        with self._raising_unavailable(), _ignoring_missing():
            return bool(self._files.rename(self._path_of(source), self._path_of(target)))
        return False

    def remove(self, name: str) -> None:
        with self._raising_unavailable(), _ignoring_missing():
            self._files.delete(self._path_of(name), True)

    def _path_of(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path)

    @contextmanager
    def _raising_unavailable(self) -> Iterator[None]:
        try:
            yield
        except Py4JJavaError as error:
            problem = " ".join(str(error.java_exception.toString()).split())
            raise Unavailable(f"cannot access {self._label}: {problem}") from error


@contextmanager
def _ignoring_missing() -> Iterator[None]:
    try:
        yield
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != _MISSING:
            raise
