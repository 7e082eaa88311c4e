"""Check of the Spark master of a job at its submission."""

import pytest

from holdfast.client.deployment.master_settings import check_master_settings
from holdfast.errors import Refused

KUBERNETES = {"spark.master": "k8s://https://10.0.0.1:6443", "spark.kubernetes.container.image": "spark:4.3.0"}


@pytest.mark.parametrize(
    "conf",
    [
        {},
        {"spark.master": "local[*]"},
        {"spark.master": "spark://a:7077,b:7077"},
        {"spark.master": "yarn", "spark.yarn.queue": "streams"},
        {"spark.driver.host": "127.0.0.1", "spark.kubernetes.driver.pod.name": "ignored by other masters"},
        KUBERNETES,
        {"spark.master": "k8s://api.example.org", "spark.kubernetes.executor.container.image": "spark:4.3.0"},
        {**KUBERNETES, "spark.master": "k8s://http://[fd00::1]:8001/k8s/clusters/c-1"},
        {**KUBERNETES, "spark.driver.host": "node-1.example.org", "spark.driver.port": "7078"},
        {**KUBERNETES, "spark.kubernetes.authenticate.driver.serviceAccountName": "spark"},
    ],
)
def test_settings_that_a_master_accepts_are_accepted(conf: dict[str, str]) -> None:
    check_master_settings(conf)


@pytest.mark.parametrize(
    ("conf", "says"),
    [
        ({"spark.master": "yarn-cluster"}, "use spark.master=yarn"),
        ({"spark.master": "k8s://https://10.0.0.1:6443"}, "add --conf spark.kubernetes.container.image=IMAGE"),
        ({**KUBERNETES, "spark.kubernetes.container.image": " "}, "needs the image of its executors"),
        ({**KUBERNETES, "spark.master": "k8s://"}, "expected k8s://https://HOST:PORT"),
        ({**KUBERNETES, "spark.master": "k8s://ftp://10.0.0.1"}, "does not name an API server"),
        ({**KUBERNETES, "spark.master": "k8s://10.0.0.1:66000"}, "does not name an API server"),
        ({**KUBERNETES, "spark.kubernetes.driver.pod.name": "driver"}, "the driver runs on a node"),
        (
            {**KUBERNETES, "spark.kubernetes.authenticate.driver.oauthTokenFile": "/t"},
            "use spark.kubernetes.authenticate.oauthTokenFile",
        ),
        ({**KUBERNETES, "spark.driver.host": "127.0.0.2"}, "is a loopback address, which pods cannot reach"),
        ({**KUBERNETES, "spark.driver.host": "localhost"}, "set SPARK_LOCAL_IP on each node"),
        ({**KUBERNETES, "spark.driver.host": "[::1]"}, "is a loopback address, which pods cannot reach"),
        ({**KUBERNETES, "spark.driver.port": "many"}, "spark.driver.port=many is not a port"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_remedy(conf: dict[str, str], says: str) -> None:
    with pytest.raises(Refused) as caught:
        check_master_settings(conf)
    assert says in str(caught.value)
