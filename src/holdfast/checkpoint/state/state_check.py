"""Examination of the state from which the next batch starts."""

from collections.abc import Iterator

from holdfast.checkpoint import log_files
from holdfast.checkpoint.damage_rules import (
    CHECKSUM_BLOCKS_FILE,
    OPERATOR_METADATA_WRONG,
    ROCKSDB_VERSION_MISSING,
    STATE_IDS_MISSING,
    STATE_SCHEMA_UNREADABLE,
    STATE_VERSION_MISSING,
)
from holdfast.checkpoint.file_tree import HERE, FileTree
from holdfast.checkpoint.finding import ONLY_CHECKSUM_LEFT, Finding, damage, doubt, remark
from holdfast.checkpoint.query_logs import STATE, QueryLogs
from holdfast.checkpoint.state import state_store
from holdfast.checkpoint.state.named_schemas import JOIN, TRANSFORM, check_named_schemas
from holdfast.checkpoint.state.state_schema import KeyColumns, read_key_columns
from holdfast.checkpoint.state.state_store import LoadPlan, StateStore

LIMIT = "globalLimit"
"""Name of the operator of a streaming `limit`."""
REPAIRS_SNAPSHOTS = "spark.sql.streaming.stateStore.rowChecksum.enabled"
"""Setting that only Spark 4.1 and later record. These versions also skip a damaged snapshot."""


def find_problems(tree: FileTree, logs: QueryLogs) -> Iterator[Finding]:
    yield from _check_descriptions(tree, logs.next_batch)
    yield from _missing_operators(tree, logs)
    if not tree.subfolders(STATE):
        return
    if logs.committed is not None and logs.newest_commit is None:
        if logs.commit_files[logs.committed].file.path not in logs.torn:
            yield doubt(STATE, f"cannot be judged: commits/{logs.committed}, which lists its files, cannot be interpreted")
        return
    if _lacks_ids(tree, logs):
        yield damage(
            STATE_IDS_MISSING,
            f"commits/{logs.committed}",
            "does not contain the ids of the state files",
        )
        return
    yield from _missing_partitions(tree, logs)
    for plan in state_store.plan_loads(tree, logs, tree.lineages):
        yield from _check_plan(tree, logs, plan)


def _lacks_ids(tree: FileTree, logs: QueryLogs) -> bool:
    commit = logs.newest_commit
    if commit is None or commit.state_ids is not None or logs.next_batch == 0:
        return False
    files = [file for store in state_store.find_stores(tree) for file in store.files]
    return bool(files) and (commit.version == 2 or all(file.id for file in files))


def _missing_operators(tree: FileTree, logs: QueryLogs) -> Iterator[Finding]:
    """Yield operators whose state files the newest commit names, but that have no folder."""
    present = tree.subfolders(STATE)
    for operator in state_store.newest_ids(logs) or {}:
        if str(operator) not in present:
            problem = "is missing, but the newest commit names its files"
            yield damage(ROCKSDB_VERSION_MISSING, f"{STATE}/{operator}", problem)


# Files of one store


def _check_plan(tree: FileTree, logs: QueryLogs, plan: LoadPlan) -> Iterator[Finding]:
    folder, version = plan.store.folder, plan.version
    if plan.missing is not None:
        rule = ROCKSDB_VERSION_MISSING if plan.store.uses_rocksdb else STATE_VERSION_MISSING
        ids = " with the id that the newest commit names" if state_store.newest_ids(logs) is not None else ""
        yield damage(rule, folder, f"has no version {plan.missing} of the state{ids}, which batch {version} needs")
        return
    if plan.lineage_unknown and plan.files[0].file.path not in tree.damage:
        path = plan.files[0].file.path
        yield remark(path, "is compressed, so only its versions were checked, not the ids of the files before it")
    for each in plan.files:
        path = each.file.path
        if (found := tree.damage.get(path)) is not None:
            yield _judge_damaged_snapshot(tree, logs, plan, found) if each.is_snapshot and found.harms else found
        elif path in tree.unreadable:
            yield doubt(path, f"cannot be read: {tree.unreadable[path]}")


def _judge_damaged_snapshot(tree: FileTree, logs: QueryLogs, plan: LoadPlan, found: Finding) -> Finding:
    """Return the finding about a damaged snapshot. Spark 4.1 and later load an older snapshot instead, if there is one."""
    older = state_store.older_plan(plan)
    if older is None or any(each.file.path in tree.damage for each in older.files):
        return found
    newest = logs.newest_offsets
    if newest is not None and REPAIRS_SNAPSHOTS in newest.conf and not older.lineage_unknown:
        return remark(found.file, f"{found.problem}; Spark loads the older state and its changes instead")
    return doubt(found.file, f"{found.problem}; only Spark 4.1 and later load the older state and its changes instead")


# Metadata of the operators


def operator_description(tree: FileTree, operator: str, batch: int) -> str | None:
    """Return the path of an operator's metadata: version 2 has one file for each change, named by its batch."""
    plain = f"{STATE}/{operator}/_metadata/metadata"
    if plain in tree.files:
        return plain
    versions = [number for number in tree.numbered_files(f"{STATE}/{operator}/_metadata/v2") if number < max(batch, 1)]
    return f"{STATE}/{operator}/_metadata/v2/{max(versions)}" if versions else None


def schema_files(tree: FileTree, operator: str) -> list[str]:
    """Return the paths of the schemas of an operator's stores. Partition 0 holds them."""
    folder = f"{STATE}/{operator}/0/"
    return sorted(path for path in tree.files if path.startswith(folder) and path.endswith("/_metadata/schema"))


def _shared_schemas(tree: FileTree, operator: str) -> list[str]:
    """Return the paths of the schemas that all partitions share. Only transformWithState has them."""
    folder = f"{STATE}/{operator}/_stateSchema/"
    return sorted(file.path for file in state_store.metadata_files(tree) if file.path.startswith(folder))


def named_schemas(tree: FileTree, logs: QueryLogs) -> list[str]:
    """Return the absolute paths of the schema files that Spark reads when the query starts."""
    described = (_describe(tree, operator, logs.next_batch)[0] for operator in _operators(tree))
    return [path for operator in described if operator is not None for path in operator.schema_files]


def _operators(tree: FileTree) -> list[str]:
    return [name for name in tree.subfolders(STATE) if name.isascii() and name.isdigit() and len(name) < 10]


def _check_descriptions(tree: FileTree, batch: int) -> Iterator[Finding]:
    """Yield unreadable schemas, and checksum files that prevent Spark from writing the metadata of an operator."""
    folders = {path.rpartition("/")[0] for path in tree.files if path.startswith(f"{STATE}/")}
    for folder in sorted(folder for folder in folders if folder.endswith("/_metadata")):
        yield from (damage(CHECKSUM_BLOCKS_FILE, path, ONLY_CHECKSUM_LEFT) for path in tree.missing_but_checksummed(folder))
    for operator in tree.subfolders(STATE):
        for path in schema_files(tree, operator):
            data = tree.contents.get(path)
            if data is None:
                continue
            try:
                read_key_columns(data)
            except log_files.TornFile as torn:
                yield damage(STATE_SCHEMA_UNREADABLE, path, str(torn))
            except log_files.UnknownFormat as unknown:
                yield doubt(path, str(unknown))
            else:
                yield from _mismatch(tree, path)
        yield from _check_shared_schemas(tree, operator, batch)


def _check_shared_schemas(tree: FileTree, operator: str, batch: int) -> Iterator[Finding]:
    described = _describe(tree, operator, batch)[0]
    names = described.schema_files if described is not None and described.name.startswith((TRANSFORM, JOIN)) else ()
    needed = {name.rpartition("/")[2] for name in names if tree.named_files.get(name) == HERE}
    for path in _shared_schemas(tree, operator):
        data = tree.contents.get(path)
        try:
            read_key_columns(data or b"")
        except log_files.TornFile as torn:
            if data is not None and path.rpartition("/")[2] in needed:
                yield damage(STATE_SCHEMA_UNREADABLE, path, str(torn))
            else:
                yield doubt(path, f"{torn}; Spark reads the schema at the path that the operator's metadata names")
        except log_files.UnknownFormat as unknown:
            yield doubt(path, str(unknown))
        else:
            yield from _mismatch(tree, path)


def _mismatch(tree: FileTree, path: str) -> Iterator[Finding]:
    """Yield a checksum that does not match a schema which can be read. Spark does not compare the checksum."""
    if path in tree.damage:
        yield tree.damage[path]


def _missing_partitions(tree: FileTree, logs: QueryLogs) -> Iterator[Finding]:
    """Yield partitions and stores without any file, although the next batch loads a version of them."""
    batch = logs.next_batch
    stores = state_store.find_stores(tree)
    for operator in _operators(tree):
        described, problem = _describe(tree, operator, batch)
        if problem is not None:
            yield problem
        metadata = operator_description(tree, operator, batch)
        if batch > 0 and described is not None and metadata is not None:
            yield from check_named_schemas(tree, metadata, described)  # batch 0 begins without earlier schemas
        if batch == 0:
            continue  # Spark writes the metadata before the first task runs, and version 0 has no file
        own = [store for store in stores if store.operator == int(operator) and state_store.is_loaded(store, logs)]
        yield from _missing_stores(operator, own, batch)
        present = {store.partition for store in own}
        count, certain = _count_partitions(tree, logs, operator, described)
        missing = next((partition for partition in range(count) if partition not in present), None)
        if missing is not None:
            path, plural = f"{STATE}/{operator}/{missing}", "" if count == 1 else "s"
            if certain or missing == 0:
                problem_text = f"is missing, but batch {batch} needs it: the state has {count} partition{plural}"
                yield damage(STATE_VERSION_MISSING, path, problem_text)
            else:
                yield doubt(path, "is missing, and the schema that says how many partitions the state has is missing, too")


def _missing_stores(operator: str, stores: list[StateStore], batch: int) -> Iterator[Finding]:
    """Yield findings about stores that only some partitions of the operator have. A join has four stores in each partition."""
    names = {store.name for store in stores}
    for partition in sorted({store.partition for store in stores}):
        present = {store.name for store in stores if store.partition == partition}
        for name in sorted(names - present):
            path = f"{STATE}/{operator}/{partition}/{name}".rstrip("/")
            yield damage(STATE_VERSION_MISSING, path, f"is missing, but batch {batch} needs it: the other partitions have it")


def _describe(tree: FileTree, operator: str, batch: int) -> tuple[log_files.StatefulOperator | None, Finding | None]:
    path = operator_description(tree, operator, batch)
    data = tree.contents.get(path) if path is not None else None
    if path is None and batch > 0 and _shared_schemas(tree, operator):
        problem = "has no file of an earlier batch, but the schemas of the operator need it"
        return None, damage(OPERATOR_METADATA_WRONG, f"{STATE}/{operator}/_metadata/v2", problem)
    if path is None or data is None:
        return None, None
    try:
        return log_files.parse_operator(data), None
    except log_files.TornFile as torn:
        if path.endswith("/_metadata/metadata"):
            return None, remark(path, f"{torn}; Spark continues without it")
        if _shared_schemas(tree, operator) and batch > 0:
            return None, damage(OPERATOR_METADATA_WRONG, path, str(torn))
        return None, doubt(path, f"{torn}, and it is not known whether the operator needs it")
    except log_files.UnknownFormat as unknown:
        return None, doubt(path, str(unknown))


def _count_partitions(
    tree: FileTree, logs: QueryLogs, operator: str, described: log_files.StatefulOperator | None
) -> tuple[int, bool]:
    """Return the number of partitions that the operator needs, and True if it is certain.

    A limit and a global aggregate have one partition: without a key, all rows go to partition 0. Their metadata records the
    query's number of shuffle partitions, like that of any other operator.
    """
    ids = state_store.newest_ids(logs)
    if ids is not None:
        return len(ids.get(int(operator), ())), True
    newest = logs.newest_offsets
    recorded = newest.shuffle_partitions if newest is not None else None
    count = recorded if recorded is not None else (described.shuffle_partitions if described is not None else None)
    if count is None:
        return 1, True
    keys = [_key_columns(tree, path) for path in schema_files(tree, operator)]
    if (described is not None and described.name == LIMIT) or (keys and all(key is KeyColumns.NONE for key in keys)):
        return 1, True
    return count, KeyColumns.SOME in keys


def _key_columns(tree: FileTree, path: str) -> KeyColumns:
    try:
        return read_key_columns(tree.contents.get(path, b""))
    except (log_files.TornFile, log_files.UnknownFormat):
        return KeyColumns.UNKNOWN
