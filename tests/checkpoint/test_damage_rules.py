"""Each rule that parks a job names the method of Spark that fails, or that loses or repeats rows."""

import re
import zipfile
from functools import cache
from pathlib import Path

import pyspark
import pytest

from holdfast.checkpoint.damage_rules import FAILS, LOSES, REPEATS, RULES, DamageRule
from holdfast.checkpoint.finding import DAMAGED, REMARK, UNKNOWN, Finding, damage, doubt, remark

_REFERENCE = re.compile(r"([A-Z]\w+)\.(\w+)")


@cache
def spark_classes() -> dict[str, list[bytes]]:
    """Return the bytes of the class files of PySpark's SQL jars, by the simple name of the class."""
    classes: dict[str, list[bytes]] = {}
    for jar in (Path(pyspark.__file__).parent / "jars").glob("spark-*.jar"):
        if not re.match(r"spark-(sql|catalyst|sql-api)_", jar.name):
            continue
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.search(r"/(streaming|connector/read/streaming)/", name) and name.endswith(".class"):
                    simple = name.rpartition("/")[2].removesuffix(".class").partition("$")[0]
                    classes.setdefault(simple, []).append(archive.read(name))
    return classes


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_rule_names_an_existing_method_of_spark(rule: DamageRule) -> None:
    match = _REFERENCE.fullmatch(rule.spark)
    assert match is not None and rule.effect in (FAILS, LOSES, REPEATS)
    files = spark_classes().get(match[1])
    assert files, f"Spark has no class {match[1]}"
    assert any(match[2].encode() in data for data in files), f"{match[1]} has no method {match[2]}"


def test_finding_of_damage_needs_a_rule() -> None:
    for rule in RULES.values():
        found = damage(rule, "offsets/1", "is empty")
        assert (found.kind, found.harms, found.spark, found.effect) == (DAMAGED, True, rule.spark, rule.effect)
    for found in (doubt("offsets/1", "x"), remark("offsets/1", "x")):
        assert (found.harms, found.rule, found.spark, found.effect) == (False, "", "", "")
    for kind, rule_name in ((DAMAGED, ""), (DAMAGED, "no-such-rule"), (UNKNOWN, "offsets-missing"), (REMARK, "x"), ("?", "")):
        with pytest.raises(ValueError, match="invalid finding"):
            Finding("offsets/1", "x", kind, rule_name)
