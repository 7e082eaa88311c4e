"""Moments of death: brings a checkpoint into the state that a crash at that moment leaves.

The query stopped after its last batch. A death removes exactly the files that Spark would not have written yet.
"""

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.oracle.scene import QueryScene, remove_file, replace_content

_VERSIONED = re.compile(r"([0-9]+)(?:_[\w-]+)?\.(delta|snapshot|zip|changelog)(\.crc)?")
_TEMPORARY = ".{batch}.0d6cb1a4-54a7-4bb0-9c37-9d1d2f0f2b11.tmp"


def stop_cleanly(scene: QueryScene) -> None:
    """Change nothing: the query was stopped between two batches."""


def die_before_commit(scene: QueryScene) -> None:
    """Remove the newest commit: the batch reached state and sink."""
    remove_file(scene.checkpoint / "commits" / str(scene.newest_batch()))


def die_before_sink(scene: QueryScene) -> None:
    """Remove what the newest batch wrote to the sink, and its commit. The state is written."""
    batch = scene.newest_batch()
    die_before_commit(scene)
    remove_file(scene.sink_log / str(batch))
    remove_file(scene.sink_log / f"{batch}.compact")
    for file in scene.out.glob(f"{batch}*.json"):
        file.unlink()


def die_between_tasks(scene: QueryScene) -> None:
    """Remove also the new version of the state of the last partitions: only some tasks were finished."""
    die_before_sink(scene)
    _remove_state(scene, scene.newest_batch() + 1, lambda partition: partition > 0)


def die_before_tasks(scene: QueryScene) -> None:
    """Remove also the new version of the state: the offsets are written and no task has run."""
    die_before_sink(scene)
    _remove_state(scene, scene.newest_batch() + 1, lambda partition: True)


def die_in_log_write(scene: QueryScene) -> None:
    """Leave the temporary file of the next offsets, which is not renamed yet."""
    file = scene.checkpoint / "offsets" / _TEMPORARY.format(batch=scene.newest_batch() + 1)
    replace_content(file, b"v1\n{")


def die_in_rename(scene: QueryScene) -> None:
    """Leave the newest commit without its checksum file, which Hadoop's local file system renames second."""
    commit = scene.checkpoint / "commits" / str(scene.newest_batch())
    (commit.parent / f".{commit.name}.crc").unlink()


def die_in_first_batch(scene: QueryScene) -> None:
    """Keep only what Spark writes before the first task: offsets, the log of the source, and metadata of the state."""
    for log in ("offsets", "commits"):
        for file in (scene.checkpoint / log).iterdir():
            if log == "commits" or _number(file) != 0:
                file.unlink()
    for file in scene.checkpoint.glob("sources/*/*"):
        if _number(file) != 0:
            file.unlink()
    for file in [file for file in scene.checkpoint.glob("state/**/*") if file.is_file() and "_metadata" not in str(file)]:
        file.unlink()
    for file in [file for file in scene.checkpoint.glob("state/**/*") if _number(file) > 0 and "_metadata" in str(file)]:
        file.unlink()
    shutil.rmtree(scene.out, ignore_errors=True)


def die_before_first_batch(scene: QueryScene) -> None:
    """Keep only the query's metadata."""
    for folder in ("offsets", "commits", "sources", "state"):
        shutil.rmtree(scene.checkpoint / folder, ignore_errors=True)
    shutil.rmtree(scene.out, ignore_errors=True)


def _remove_state(scene: QueryScene, version: int, concerns: Callable[[int], bool]) -> None:
    for file in [file for file in (scene.checkpoint / "state").glob("[0-9]*/[0-9]*/**/*") if file.is_file()]:
        partition = int(file.relative_to(scene.checkpoint).parts[2])
        if _number(file) == version and _VERSIONED.fullmatch(file.name.removeprefix(".")) and concerns(partition):
            file.unlink(missing_ok=True)
            (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def _number(file: Path) -> int:
    """Return the batch or version that a file name starts with, or -1."""
    match = re.match(r"\.?([0-9]+)", file.name)
    return int(match[1]) if match is not None else -1


DEATHS: Mapping[str, Callable[[QueryScene], None]] = {
    "clean stop": stop_cleanly,
    "before commit": die_before_commit,
    "before sink": die_before_sink,
    "between tasks": die_between_tasks,
    "before tasks": die_before_tasks,
    "in log write": die_in_log_write,
    "in rename": die_in_rename,
    "in first batch": die_in_first_batch,
    "before first batch": die_before_first_batch,
}
