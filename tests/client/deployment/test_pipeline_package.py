"""Packages of declarative pipelines: checks, contents, and unpacking on a node."""

import os
import zipfile
from pathlib import Path

import pytest

from holdfast.client.deployment.job_request import check_request
from holdfast.client.deployment.pipeline_package import PipelinePackage, read_pipeline
from holdfast.errors import Refused
from holdfast.runner.execution.pipeline_archive import unpack_pipeline

GOOD = "name: words\nlibraries:\n  - glob:\n      include: flows/**\n  - glob: {include: extra.sql}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Specification of a pipeline, with three files that it names and two files that it does not name."""
    (tmp_path / "flows" / "deep").mkdir(parents=True)
    (tmp_path / "flows" / "one.py").write_text("X = 1\n")
    (tmp_path / "flows" / "deep" / "two.sql").write_text("CREATE STREAMING TABLE two")
    (tmp_path / "flows" / "__pycache__").mkdir()
    (tmp_path / "flows" / "__pycache__" / "one.pyc").write_bytes(b"\0")
    (tmp_path / "extra.sql").write_text("SELECT 1")
    (tmp_path / "notes.txt").write_text("not for Spark")
    (tmp_path / "pipeline.yml").write_text(GOOD)
    return tmp_path / "pipeline.yml"


def read(file: Path) -> PipelinePackage:
    return read_pipeline(file, lambda path, what: None)


def request_name(file: Path, *arguments: str, name: str | None = None) -> str:
    proposal = check_request(file, name=name, restart_strategy="never", slots=1, arguments=arguments, conf={}, py_files=())
    assert proposal.script == file and zipfile.is_zipfile(proposal.code)
    return proposal.name


def test_only_listed_files_are_packed(file: Path, tmp_path: Path) -> None:
    package = read(file).pack()
    unpack_pipeline(package, tmp_path / "out")
    found = {path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert found == {"pipeline.yml", "flows/one.py", "flows/deep/two.sql", "extra.sql"}
    assert (tmp_path / "out" / "flows" / "one.py").read_text() == "X = 1\n"


def test_package_bytes_do_not_depend_on_file_times(file: Path) -> None:
    before = read(file).pack().read_bytes()
    for path in file.parent.rglob("*"):
        os.utime(path, (1, 1_000_000_000))
        path.chmod(0o700)
    assert read(file).pack().read_bytes() == before
    (file.parent / "extra.sql").write_text("SELECT 2")
    assert read(file).pack().read_bytes() != before


def test_default_name_is_the_name_of_the_pipeline(file: Path) -> None:
    assert request_name(file) == "words"
    assert request_name(file, name="w") == "w"
    file.write_text(GOOD.replace("words", "my wörds"))
    assert request_name(file) == "my-w-rds"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("name: [", "is not YAML, line 1"),
        ("a: b: c", "is not YAML, line 1: mapping values are not allowed here"),
        ("\0", "is not YAML"),
        ("", "is not a pipeline specification"),
        ("- name: words", "is not a pipeline specification"),
        ("!!python/object:os.system {}", "is not YAML"),
        ("libraries: []", "has no name"),
        ("name: 7", "has no name"),
        ("name: words", "names no files"),
        ("name: words\nlibraries: x", "are not a list"),
        ("name: words\nlibraries: [flows]", "not '- glob: {include: PATH}': 'flows'"),
        ("name: words\nlibraries: [{glob: {include: 1}}]", "not '- glob: {include: PATH}'"),
        ("name: words\nlibrarys: []", "has the unknown key 'librarys'"),
        ("name: words\nlibraries: [{glob: {include: none.py}}]", "names 'none.py', and there is no such file"),
        ("name: words\nlibraries: [{glob: {include: none/**}}]", "names 'none/**', and there is no such file"),
        ("name: words\nlibraries: [{glob: {include: ../x.py}}]", "is outside of its directory"),
        ("name: words\nlibraries: [{glob: {include: /etc/**}}]", "is outside of its directory"),
        ("name: words\nlibraries: [{glob: {include: 'flows/*.py'}}]", "Spark accepts a file, or a folder"),
        ("name: words\nlibraries: [{glob: {include: notes.txt}}]", "neither Python nor SQL"),
    ],
)
def test_invalid_pipeline_is_refused_with_one_sentence(file: Path, content: str, says: str) -> None:
    file.write_text(content)
    with pytest.raises(Refused) as refused:
        read(file)
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_link_out_of_the_directory_is_refused(file: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "secret.sql"
    elsewhere.write_text("SELECT 'secret'")
    (file.parent / "flows" / "linked.sql").symlink_to(elsewhere)
    with pytest.raises(Refused, match="is a link to a file outside"):
        read(file)


def test_arguments_and_invalid_python_are_refused(file: Path) -> None:
    with pytest.raises(Refused, match="takes no arguments"):
        request_name(file, "--full-refresh-all")
    (file.parent / "flows" / "one.py").write_text("x = (\n")
    with pytest.raises(Refused, match="is not Python, line 1"):
        request_name(file)
    with pytest.raises(Refused, match="there is no file"):
        request_name(file.with_name("none.yml"))


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "a/../../evil.py"])
def test_package_entry_outside_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(Refused, match="lies outside of its folder"):
        unpack_pipeline(tmp_path / "package.zip", tmp_path / "out")


def test_invalid_package_is_refused(tmp_path: Path) -> None:
    (tmp_path / "package.zip").write_bytes(b"PK")
    with pytest.raises(Refused, match="cannot be unpacked"):
        unpack_pipeline(tmp_path / "package.zip", tmp_path / "out")
