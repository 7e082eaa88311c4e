"""Hadoop configuration of a node, from files as administrators write them."""

from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.runner.yarn.hadoop_configuration import (
    qualify_local_path,
    read_hadoop_configuration,
    resource_manager_addresses,
)


def write(directory: Path, file: str, **properties: str) -> None:
    directory.mkdir(exist_ok=True)
    entries = "".join(
        f"<property>\n <name>{name.replace('__', '.').replace('_', '-')}</name>\n <value> {value} </value></property>"
        for name, value in properties.items()
    )
    text = f'<?xml version="1.0"?>\n<!-- site -->\n<configuration>{entries}</configuration>'
    (directory / file).write_text(text)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, [("0.0.0.0", 8032)]),
        ({"yarn.resourcemanager.hostname": "rm"}, [("rm", 8032)]),
        (
            {"yarn.resourcemanager.hostname": "rm", "yarn.resourcemanager.address": "${yarn.resourcemanager.hostname}:9"},
            [("rm", 9)],
        ),
        ({"yarn.resourcemanager.address": "[fd00::1]:8050"}, [("fd00::1", 8050)]),
        ({"yarn.resourcemanager.address": "nonsense"}, []),
        ({"yarn.resourcemanager.address": "${unknown}:8032"}, [("${unknown}", 8032)]),
        (
            {
                "yarn.resourcemanager.ha.enabled": "true",
                "yarn.resourcemanager.ha.rm-ids": "rm1, rm2",
                "yarn.resourcemanager.hostname.rm1": "a",
                "yarn.resourcemanager.address.rm2": "b:1",
            },
            [("a", 8032), ("b", 1)],
        ),
    ],
)
def test_addresses_of_resource_managers(properties: dict[str, str], expected: list[tuple[str, int]]) -> None:
    assert resource_manager_addresses(properties) == expected


def test_a_property_that_refers_to_itself_ends() -> None:
    assert resource_manager_addresses({"yarn.resourcemanager.address": "${yarn.resourcemanager.address}:1"}) != []


def test_settings_of_the_job_and_the_first_directory_win(tmp_path: Path) -> None:
    write(tmp_path / "hadoop", "core-site.xml", fs__defaultFS="hdfs://n:8020")
    write(tmp_path / "hadoop", "yarn-site.xml", a="hadoop", b="hadoop")
    write(tmp_path / "yarn", "yarn-site.xml", a="yarn")
    environ = {"HADOOP_CONF_DIR": str(tmp_path / "hadoop"), "YARN_CONF_DIR": str(tmp_path / "yarn")}
    properties = read_hadoop_configuration(environ, {"spark.hadoop.c": "job", "spark.d": "not Hadoop's"})
    assert properties == {"fs.defaultFS": "hdfs://n:8020", "a": "yarn", "c": "job"}


def test_node_without_a_configuration_is_told_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="set HADOOP_CONF_DIR in the environment of the node"):
        read_hadoop_configuration({"HADOOP_CONF_DIR": ""}, {})
    with pytest.raises(Unavailable, match=f"there is no core-site.xml or yarn-site.xml in {tmp_path}"):
        read_hadoop_configuration({"HADOOP_CONF_DIR": str(tmp_path)}, {})


def test_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration><property>")
    with pytest.raises(Unavailable, match=r"yarn-site\.xml is not XML"):
        read_hadoop_configuration({"HADOOP_CONF_DIR": str(tmp_path)}, {})


def test_local_path_is_marked_as_local_if_the_default_file_system_is_another_one(tmp_path: Path) -> None:
    write(tmp_path, "core-site.xml", fs__defaultFS="hdfs://n:8020")
    environ = {"HADOOP_CONF_DIR": str(tmp_path)}
    assert qualify_local_path("/data/checkpoints/j1", environ, {}) == "file:///data/checkpoints/j1"
    assert qualify_local_path("/data/j1", environ, {"spark.hadoop.fs.defaultFS": "file:///"}) == "/data/j1"
    assert qualify_local_path("hdfs://n:8020/j1", environ, {}) == "hdfs://n:8020/j1"
    assert qualify_local_path("/data/j1", {}, {}) == "/data/j1"
    assert qualify_local_path("/data/j1", {}, {"spark.hadoop.fs.defaultFS": "s3a://bucket"}) == "file:///data/j1"
