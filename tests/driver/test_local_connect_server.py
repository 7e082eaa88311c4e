"""Port of a Connect server in the driver's JVM."""

import pytest

from holdfast.driver.local_connect_server import is_port_configured


@pytest.mark.parametrize(
    ("options", "arguments", "configured"),
    [
        ({}, "pyspark-shell", False),
        ({"spark.connect.grpc.binding.port": "15009"}, "pyspark-shell", True),
        ({}, "--conf spark.connect.grpc.binding.port=15009 pyspark-shell", True),
    ],
)
def test_port_that_the_job_configures_is_used(options: dict[str, str], arguments: str, configured: bool) -> None:
    assert is_port_configured(options, {"PYSPARK_SUBMIT_ARGS": arguments}) is configured
