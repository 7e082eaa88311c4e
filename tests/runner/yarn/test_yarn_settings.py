"""Settings that a job on YARN gets in addition to its own."""

from holdfast.runner.yarn.yarn_settings import yarn_conf


def test_job_on_another_master_gets_no_settings() -> None:
    assert yarn_conf({}, "j1", 1) == yarn_conf({"spark.master": "spark://a:7077"}, "j1", 1) == {}


def test_application_is_tagged_with_job_and_attempt_beside_the_tags_of_the_user() -> None:
    conf = yarn_conf({"spark.master": "yarn", "spark.yarn.tags": "team-a, nightly"}, "jab12", 7)
    assert conf["spark.yarn.tags"] == "team-a,nightly,holdfast-job-jab12,holdfast-attempt-7"


def test_failures_expire_unless_the_job_says_otherwise() -> None:
    validity, older = "spark.executor.failuresValidityInterval", "spark.yarn.executor.failuresValidityInterval"
    assert yarn_conf({"spark.master": "yarn"}, "j1", 1)[validity] == "1h"
    for name in (validity, older):
        assert validity not in yarn_conf({"spark.master": "yarn", name: "5m"}, "j1", 1)
