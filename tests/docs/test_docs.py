"""Consistency of the documentation with the code: packages, invariants, settings, commands, paths, links, make targets."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import config, explain
from holdfast.client import Cluster
from holdfast.runner.watchdog.isolation import ISOLATION_VARIABLE
from tests.docs.command_reference import REFERENCE, render_reference

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "src" / "holdfast"
GUIDES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
DOCUMENTS = [*GUIDES, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
IN_DOCUMENTS = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))

_BLOCK = re.MULTILINE | re.DOTALL
_FENCE = re.compile(r"^```.*?^```", _BLOCK)
_INLINE_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_PATH = re.compile(r"(?:src|tests|docs|examples|bench|tools)/[\w./*-]*|[\w./*-]+\.md")
_MAKE_TARGET = re.compile(r"\bmake ([a-z][a-z-]*)")
_SETTING = re.compile(r"`((?:cluster|node|zookeeper|timing)\.[a-z_]+)`")
_NUMBERED_INVARIANTS = re.compile(r"\b[Ii]nvariants? (\d[^:.\"\n]*)")
_NUMBERED_RULES = re.compile(r"\b[Rr]ules? (\d+(?:(?:, | and )\d+)*)")


def read(document: Path) -> str:
    return document.read_text(encoding="utf-8")


def inline_code(text: str) -> list[str]:
    """Return all texts in backticks outside of code blocks."""
    return _INLINE_CODE.findall(_FENCE.sub("", text))


def table_rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the rows below the table heading `heading`, such as `| # | invariant | tests |`."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.strip() == heading:
            next(lines)
            return [_cells(row) for row in _until_blank(lines)]
    raise AssertionError(f"there is no table {heading}")


def _until_blank(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("|"):
            return
        yield line


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


# Layout


def packages_in_tree() -> set[str]:
    """Return the packages below src/holdfast, at any depth."""
    return {f"{path.parent.relative_to(ROOT)}/" for path in PACKAGES.glob("*/**/__init__.py")}


def folders_of_tests() -> set[str]:
    return {f"tests/{path.parent.name}/" for path in (ROOT / "tests").glob("*/*.py")}


def documented_folders(heading: str) -> list[str]:
    return [cells[0].strip("`") for cells in table_rows(read(ROOT / "CONTRIBUTING.md"), heading)]


def test_contributing_lists_exactly_the_packages_in_order() -> None:
    assert documented_folders("| package | content |") == sorted(packages_in_tree())


def test_contributing_lists_exactly_the_test_folders_in_order() -> None:
    assert documented_folders("| folder | content |") == sorted(folders_of_tests())


def test_each_package_has_a_docstring() -> None:
    assert [
        package for package in sorted(packages_in_tree()) if not read(ROOT / package / "__init__.py").startswith('"""')
    ] == []


def test_no_package_has_more_modules_than_contributing_allows() -> None:
    (limit,) = re.findall(r"A package of `src/` has at most (\d+) modules", read(ROOT / "CONTRIBUTING.md"))
    for package in {file.parent for file in PACKAGES.rglob("*.py")}:
        modules = [file.stem for file in package.glob("*.py") if file.stem not in ("__init__", "__main__")]
        assert len(modules) <= int(limit), f"{package.relative_to(ROOT)} has {len(modules)} modules"


def test_benchmarks_use_only_the_harness_of_the_tests() -> None:
    for file in sorted((ROOT / "bench").rglob("*.py")):
        assert not re.search(r"\btests\.(?!harness\b)", read(file)), file.relative_to(ROOT)


def test_architecture_names_only_modules_that_exist() -> None:
    names = {path.name for path in PACKAGES.iterdir()}
    for code in inline_code(read(ROOT / "docs" / "architecture.md")):
        parts = code.split(".")
        if len(parts) > 1 and parts[0] in names and re.fullmatch(r"[a-z_.]+", code):
            module = PACKAGES.joinpath(*parts)
            assert module.is_dir() or module.with_suffix(".py").exists(), f"there is no module holdfast.{code}"


def test_diagram_of_explain_names_every_step_of_the_pipeline() -> None:
    steps = [line for line in (explain.__doc__ or "").splitlines() if re.match(r" *\d+\. ", line)]
    modules = {name.rpartition(".")[2] for line in steps for name in re.findall(r"`([a-z_.]+)`", line)}
    (diagram,) = re.findall(r"^## From a log line to a diagnosis.*?^## ", read(ROOT / "docs" / "architecture.md"), _BLOCK)
    assert steps and {name for name in modules if name not in diagram} == set()


@IN_DOCUMENTS
def test_diagrams_have_no_characters_that_mermaid_treats_as_syntax(document: Path) -> None:
    for diagram in re.findall(r"^```mermaid\n(.*?)^```", read(document), _BLOCK):
        assert not re.search("[;#<]", diagram)


def test_glossary_defines_each_term_once() -> None:
    terms = re.findall(r"^\| ([^|]+) \|", read(ROOT / "docs" / "glossary.md"), re.MULTILINE)
    defined = [term for term in terms if term != "term"]
    assert len(set(defined)) == len(defined)


# Invariants and promises


def invariant_rows() -> dict[int, list[str]]:
    return {number: _INLINE_CODE.findall(cells[2]) for number, cells in numbered_rows("| # | invariant | tests |").items()}


def numbered_rows(heading: str) -> dict[int, list[str]]:
    """Return the rows of a table in docs/architecture.md by their number. The numbers must be contiguous from 1."""
    rows = table_rows(read(ROOT / "docs" / "architecture.md"), heading)
    assert [int(cells[0]) for cells in rows] == list(range(1, len(rows) + 1))
    return {int(cells[0]): cells for cells in rows}


def test_every_invariant_named_in_tests_is_in_the_table() -> None:
    check_numbers_in_tests(_NUMBERED_INVARIANTS, set(invariant_rows()))


def test_every_rule_named_in_tests_is_in_the_table() -> None:
    check_numbers_in_tests(_NUMBERED_RULES, set(numbered_rows("| # | rule |")))


def check_numbers_in_tests(pattern: re.Pattern[str], known: set[int]) -> None:
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for match in pattern.finditer(read(file)):
            numbers = {int(number) for number in re.findall(r"\d+", match[1])}
            assert numbers <= known, f"{file.relative_to(ROOT)}: '{match[0]}' is not in docs/architecture.md"


def test_every_invariant_has_tests_that_exist() -> None:
    for number, tests in invariant_rows().items():
        assert tests, f"invariant {number} names no test"
        for test in tests:
            assert (ROOT / test).is_file(), f"invariant {number}: there is no {test}"


def test_every_promise_has_tests_that_exist() -> None:
    for promise, evidence in table_rows(read(ROOT / "README.md"), "| promise | tests |"):
        tests = [code for code in _INLINE_CODE.findall(evidence) if code.startswith("tests/")]
        assert tests, f"no test for: {promise}"
        assert all((ROOT / test).is_file() for test in tests), f"a test is missing: {evidence}"


# Settings and commands


def test_operations_lists_exactly_the_settings() -> None:
    rows = table_rows(read(ROOT / "docs" / "operations.md"), "| key | default | meaning |")
    assert sorted(cells[0].strip("`") for cells in rows) == sorted(setting.name for setting in config.SETTINGS)


def test_guides_name_only_settings_that_exist() -> None:
    known = {setting.name for setting in config.SETTINGS}
    for name in ("README.md", "docs/operations.md", "docs/kafka.md", "docs/explain.md", "docs/sinks.md"):
        named = {each for each in _SETTING.findall(read(ROOT / name)) if not each.endswith((".json", ".log", ".toml"))}
        assert named <= known, f"{name} names the unknown settings {sorted(named - known)}"


def test_operations_names_every_environment_variable_of_users() -> None:
    reads = re.compile(r'environ(?:\.get\(|\[)"(HOLDFAST_[A-Z_]+)"')
    variables = {match[1] for file in PACKAGES.rglob("*.py") for match in reads.finditer(read(file))} | {ISOLATION_VARIABLE}
    named = set(inline_code(read(ROOT / "docs" / "operations.md")))
    assert {name for name in variables if not any(code.startswith(name) for code in named)} == set()


def test_client_guide_names_every_method_of_a_cluster() -> None:
    methods = {name for name in vars(Cluster) if not name.startswith("_")} - {"close"}
    guide = read(ROOT / "docs" / "client.md")
    assert {name for name in methods if not re.search(rf"(?:`|\.){name}\b", guide)} == set()


def test_explain_guide_lists_exactly_the_signatures_in_order() -> None:
    rows = table_rows(read(ROOT / "docs" / "explain.md"), "| name | evidence | ruled out by |")
    declared = tomllib.loads(read(PACKAGES / "explain" / "library" / "signatures.toml"))["signature"]
    assert [cells[0].strip("`") for cells in rows] == sorted(signature["name"] for signature in declared)


def test_command_reference_is_up_to_date() -> None:
    """Compare the committed file with the options. `python -m tests.docs.command_reference` writes it again."""
    assert read(REFERENCE) == render_reference()


# Paths, links and make targets


def named_paths(text: str) -> set[str]:
    """Return the repository paths in backticks and in the commands of code blocks."""
    words = [word for code in inline_code(text) for word in code.split()]
    words += [word for block in _FENCE.findall(text) for line in block.splitlines() if "$ " in line for word in line.split()]
    return {word for word in words if _PATH.fullmatch(word)}


@IN_DOCUMENTS
def test_paths_exist(document: Path) -> None:
    for path in sorted(named_paths(read(document))):
        exists = any(any(folder.glob(path.rstrip("/"))) for folder in (ROOT, document.parent))
        assert exists, f"there is no {path}"


@IN_DOCUMENTS
def test_relative_links_lead_to_files_and_headings(document: Path) -> None:
    for link in _LINK.findall(_FENCE.sub("", read(document))):
        target, _, fragment = link.partition("#")
        if "://" in target:
            continue
        file = document.parent / target if target else document
        assert file.exists(), f"broken link: {link}"
        assert not fragment or fragment in anchors(read(file)), f"there is no heading for {link}"


def anchors(text: str) -> set[str]:
    """Return the fragments of the headings, as GitHub builds them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@IN_DOCUMENTS
def test_make_targets_exist(document: Path) -> None:
    text = read(document)
    commands = [*inline_code(text), *(line for block in _FENCE.findall(text) for line in block.splitlines())]
    targets = {match[1] for command in commands for match in _MAKE_TARGET.finditer(command)}
    assert targets <= set(re.findall(r"^([a-z][a-z-]*):", read(ROOT / "Makefile"), re.MULTILINE))
