"""Damage on purpose to one file of a checkpoint."""

import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from tests.oracle.scene import QueryScene, checksum_file, remove_file, replace_content

Change = Callable[[Path], None]


def _with_content(change: Callable[[bytes], bytes], *, checksum: str = "removed") -> Change:
    """Return a change of the content. The checksum file is then removed, kept although it no longer matches, or rewritten."""

    def apply(file: Path) -> None:
        data = change(file.read_bytes())
        if checksum == "rewritten":
            replace_content(file, data)
            return
        file.write_bytes(data)
        if checksum == "removed":
            checksum_file(file).unlink(missing_ok=True)

    return apply


def _flip_first_brace(data: bytes) -> bytes:
    """Change the structure of a text. No file proves a changed letter inside of a path or a number without a checksum."""
    return data.replace(b"{", b";", 1)


def _flip(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x40]) + data[middle + 1 :] if data else data


CHANGES: Mapping[str, Change] = {
    "deleted": remove_file,
    "deleted but for its checksum": lambda file: file.unlink(),
    "emptied": _with_content(lambda data: b""),
    "cut in half": _with_content(lambda data: data[: len(data) // 2]),
    "zeroed": _with_content(lambda data: bytes(len(data))),
    "one bit flipped": _with_content(lambda data: _flip_first_brace(data) if data[:1] in b"v{" else _flip(data)),
    "one bit flipped, checksum kept": _with_content(_flip, checksum="kept"),
    "with more at its end": _with_content(lambda data: data + b"\n{"),
}
TEXT_CHANGES: Mapping[str, Change] = {
    "cut after its first line": _with_content(lambda data: data.partition(b"\n")[0]),
    "cut after its second line": _with_content(lambda data: b"\n".join(data.split(b"\n")[:2])),
    "of version 99": _with_content(lambda data: re.sub(rb"\Av[0-9]+", b"v99", data)),
}
UNPROVABLE = {
    # A file sink writes a log file without entries for a batch without rows.
    "cut after its first line": ("sink log",),
    # Only decompression and RocksDB itself see a changed bit in the middle if the file system keeps no checksum.
    "one bit flipped": ("state delta", "state snapshot", "state changelog", "state sst", "state log"),
}
"""Changes of some files that nothing in the names, sizes and small files of a checkpoint proves."""
CHANGES_OF_OLDER_FILES = ("deleted", "cut in half", "zeroed")


def roles(scene: QueryScene) -> Mapping[str, Path]:
    """Return one file of each kind and age in a checkpoint."""
    found = {name: path for name, path in _roles(scene.checkpoint) if path.is_file()}
    if scene.sink_log.is_dir():
        log = sorted(_numbered(scene.sink_log))
        found |= {f"sink log {age}": path for age, (_, path) in _ages(log).items()}
    return found


def is_text(role: str) -> bool:
    return role.split(maxsplit=1)[0] in {"offsets", "commits", "source", "sink", "metadata", "operator"}


def changes_of(role: str) -> Iterable[str]:
    """Return the names of the changes that a file goes through. Files that are not the newest have fewer."""
    if role.endswith(("previous", "oldest")):
        return CHANGES_OF_OLDER_FILES
    changes = (*CHANGES, *(TEXT_CHANGES if is_text(role) else ()))
    return tuple(change for change in changes if not role.startswith(UNPROVABLE.get(change, ("-",))))


def _roles(checkpoint: Path) -> Iterator[tuple[str, Path]]:
    yield "metadata", checkpoint / "metadata"
    for log, folder in (("offsets", "offsets"), ("commits", "commits"), ("source log", "sources/0")):
        if (checkpoint / folder).is_dir():
            yield from ((f"{log} {age}", path) for age, (_, path) in _ages(sorted(_numbered(checkpoint / folder))).items())
    operator = checkpoint / "state" / "0"
    yield "operator metadata", operator / "_metadata" / "metadata"
    for file in sorted(operator.glob("**/*")):
        if "/_metadata/v2/" in str(file) and file.name.isdigit():
            yield "operator metadata v2", file
        if ("/_metadata/schema" in str(file) or "/_stateSchema/" in str(file)) and not file.name.startswith("."):
            yield "state schema", file
    yield from _state_roles(checkpoint)


def _state_roles(checkpoint: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of the store that has most files. Partitions without rows have hardly any."""
    files = [file for file in (checkpoint / "state" / "0").glob("[0-9]*/**/*") if file.is_file()]
    files = [file for file in files if not file.name.startswith(".") and "_metadata" not in str(file)]
    folders = {file.parent for file in files if file.suffix in {".delta", ".changelog", ".zip"}}
    if not folders:
        return
    folder = max(sorted(folders), key=lambda each: sum(1 for _ in each.glob("*")))
    for suffix in ("delta", "changelog", "snapshot", "zip"):
        numbered = sorted((_version(file), file) for file in folder.glob(f"*.{suffix}"))
        yield from ((f"state {suffix} {age}", path) for age, (_, path) in _ages(numbered).items())
        sums = sorted((_version(file), file) for file in folder.glob(f"*.{suffix}.crc") if not file.name.startswith("."))
        if sums:
            yield f"state {suffix} checksum newest", sums[-1][1]
    for name in ("SSTs/*.sst", "logs/*.log"):
        parts = sorted(file for file in folder.glob(name))
        if parts:
            yield f"state {parts[-1].suffix[1:]}", parts[-1]


def _ages(numbered: list[tuple[int, Path]]) -> Mapping[str, tuple[int, Path]]:
    if not numbered:
        return {}
    ages = {"oldest": numbered[0], "previous": numbered[max(0, len(numbered) - 2)], "newest": numbered[-1]}
    return {age: entry for age, entry in ages.items() if age == "newest" or entry != numbered[-1]}


def _numbered(folder: Path) -> Iterator[tuple[int, Path]]:
    for file in folder.iterdir():
        if re.fullmatch(r"[0-9]+(\.compact)?", file.name):
            yield _version(file), file


def _version(file: Path) -> int:
    return int(re.match(r"[0-9]+", file.name)[0])  # type: ignore[index]  # the caller has matched it


def _remove_folder(name: str) -> Callable[[QueryScene], None]:
    return lambda scene: shutil.rmtree(scene.checkpoint / name)


def _swap_versions(scene: QueryScene) -> None:
    """Exchange the newest two files of the state in one partition."""
    found = dict(_state_roles(scene.checkpoint))
    for suffix in ("delta", "changelog", "zip"):
        if f"state {suffix} previous" in found:
            first, second = found[f"state {suffix} previous"], found[f"state {suffix} newest"]
            former, latter = first.read_bytes(), second.read_bytes()
            replace_content(first, latter)
            replace_content(second, former)
            return


def _forget_newest_batch(scene: QueryScene) -> None:
    """Remove offsets and commit of the newest batch, as a copy from before it would lack them. The state stays."""
    batch = str(scene.newest_batch())
    for log in ("offsets", "commits"):
        remove_file(scene.checkpoint / log / batch)


def _add_stray_state(scene: QueryScene) -> None:
    """Add an unreadable file of the newest version under another unique id, as a killed task of format 2 leaves it."""
    for name, path in _state_roles(scene.checkpoint):
        if name.endswith("newest") and "_" in path.name and path.suffix in {".zip", ".changelog", ".delta"}:
            version = path.name.partition("_")[0]
            replace_content(path.with_name(f"{version}_00000000-0000-4000-8000-000000000000{path.suffix}"), b"torn")


def _hide_missing_state(scene: QueryScene) -> None:
    """Move the newest committed file of format 2 to another unique id."""
    for name, path in dict(_state_roles(scene.checkpoint)).items():
        if name.endswith("newest") and "_" in path.name and path.suffix in {".zip", ".changelog", ".delta"}:
            version = path.name.partition("_")[0]
            replace_content(path.with_name(f"{version}_00000000-0000-4000-8000-000000000000{path.suffix}"), path.read_bytes())
            remove_file(path)


def _move_named_schemas(scene: QueryScene) -> None:
    """Let operator metadata name a folder that does not exist, like a copy whose original was deleted."""
    scene.rename_schemas(scene.home, scene.home.with_name(f"{scene.home.name}-deleted"))


SCENE_CHANGES: Mapping[str, Callable[[QueryScene], None]] = {
    "folder offsets removed": _remove_folder("offsets"),
    "folder commits removed": _remove_folder("commits"),
    "folder sources removed": _remove_folder("sources"),
    "folder state removed": _remove_folder("state"),
    "folder state/0/1 removed": _remove_folder("state/0/1"),
    "newest two state files exchanged": _swap_versions,
    "newest batch forgotten": _forget_newest_batch,
    "stray state file added": _add_stray_state,
    "committed state file under another id": _hide_missing_state,
    "named schema files deleted": _move_named_schemas,
}


def apply_damage(name: str, scene: QueryScene) -> bool:
    """Apply damage by its name, `ROLE: CHANGE` or the name of a change of the whole checkpoint. False if it does not apply."""
    role, _, change = name.partition(": ")
    if not change:
        before = _fingerprint(scene)
        if role.startswith("folder") and not (scene.checkpoint / role.split()[1]).is_dir():
            return False
        SCENE_CHANGES[role](scene)
        return _fingerprint(scene) != before
    file = roles(scene).get(role)
    if file is None:
        return False
    before = _fingerprint(scene)
    {**CHANGES, **TEXT_CHANGES}[change](file)
    return _fingerprint(scene) != before


def _fingerprint(scene: QueryScene) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in scene.home.glob("**/*") if file.is_file()}
