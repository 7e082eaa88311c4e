"""The options of a Kafka source: what is translated, what is refused, and that no secret is ever shown."""

import pytest

from holdfast.errors import Refused
from holdfast.kafka import client_of, refusals
from holdfast.kafka.check.jaas import Unreadable, login

SERVERS = {"kafka.bootstrap.servers": "b1:9092,b2:9092"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s3cr\\"et";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required\n  username='ann'\n  password=s3cret ;"


def settings_of(**options: str) -> dict[str, str]:
    return dict(client_of(SERVERS | {f"kafka.{key.replace('_', '.')}": value for key, value in options.items()}).settings)


def test_without_security_only_the_servers_are_needed() -> None:
    assert settings_of() == {"bootstrap.servers": "b1:9092,b2:9092", "security.protocol": "plaintext"}


def test_names_of_options_are_known_in_any_case() -> None:
    assert client_of({"Kafka.Bootstrap.Servers": "b1:9092"}).settings["bootstrap.servers"] == "b1:9092"


def test_a_source_without_servers_is_refused() -> None:
    with pytest.raises(Refused, match=r"no kafka\.bootstrap\.servers"):
        client_of({"subscribe": "t"})


@pytest.mark.parametrize(
    ("mechanism", "text", "password"),
    [("PLAIN", PLAIN, 's3cr"et'), ("SCRAM-SHA-512", SCRAM, "s3cret"), ("scram-sha-256", SCRAM, "s3cret")],
)
def test_a_login_with_a_password_is_translated(mechanism: str, text: str, password: str) -> None:
    settings = settings_of(security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=text)
    assert (settings["sasl.mechanism"], settings["sasl.username"], settings["sasl.password"]) == (
        mechanism.upper(),
        "ann",
        password,
    )
    assert settings["security.protocol"] == "sasl_ssl"


def test_a_login_by_a_token_endpoint_is_translated() -> None:
    text = (
        'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="i" clientSecret="s" scope="x";'
    )
    settings = settings_of(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config=text,
        sasl_oauthbearer_token_endpoint_url="https://id.example/token",
        sasl_login_callback_handler_class="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    )
    assert settings["sasl.oauthbearer.client.secret"] == "s"
    assert settings["sasl.oauthbearer.method"] == "oidc"


def test_certificates_in_pem_are_translated() -> None:
    inline = settings_of(
        security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_certificates="CA", ssl_keystore_type="PEM",
        ssl_keystore_key="KEY", ssl_keystore_certificate_chain="CERT", ssl_key_password="pw",
    )  # fmt: skip
    assert {key: value for key, value in inline.items() if key.startswith("ssl")} == {
        "ssl.ca.pem": "CA",
        "ssl.key.pem": "KEY",
        "ssl.certificate.pem": "CERT",
        "ssl.key.password": "pw",
    }
    files = settings_of(
        security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_location="/ca", ssl_keystore_type="PEM",
        ssl_keystore_location="/both", ssl_endpoint_identification_algorithm="",
    )  # fmt: skip
    assert {key: value for key, value in files.items() if key.startswith("ssl")} == {
        "ssl.ca.location": "/ca",
        "ssl.key.location": "/both",
        "ssl.certificate.location": "/both",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_a_key_store_of_type_pkcs12_is_translated() -> None:
    settings = settings_of(
        security_protocol="SSL", ssl_keystore_type="PKCS12", ssl_keystore_location="/k", ssl_keystore_password="pw"
    )
    assert (settings["ssl.keystore.location"], settings["ssl.keystore.password"]) == ("/k", "pw")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"security_protocol": "SSL", "ssl_truststore_location": "/t.jks"}, "kafka.ssl.truststore.location"),
        ({"security_protocol": "SSL", "ssl_truststore_location": "/t", "ssl_truststore_type": "PKCS12"}, "PKCS12"),
        ({"security_protocol": "SSL", "ssl_keystore_location": "/k.jks"}, "kafka.ssl.keystore.location"),
        ({"security_protocol": "SSL", "ssl_engine_factory_class": "x.Y"}, "kafka.ssl.engine.factory.class"),
        ({"security_protocol": "MAGIC"}, "kafka.security.protocol"),
        ({"security_protocol": "SASL_SSL"}, "GSSAPI"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "AWS_MSK_IAM"}, "AWS_MSK_IAM"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "kafka.sasl.jaas.config"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_jaas_config": "x.PlainLoginModule required;"},
            "username",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_login_callback_handler_class": "x.Y"},
            "kafka.sasl.login.callback.handler.class",
        ),
    ],
)
def test_what_cannot_be_translated_is_named(options: dict[str, str], named: str) -> None:
    with pytest.raises(Refused, match=r"the offset guard cannot use kafka\.") as refused:
        settings_of(**options)
    assert named in str(refused.value)
    assert "opt out of the guard by its name: --conf holdfast.guards.off=kafka-offsets" in str(refused.value)


def test_no_secret_is_shown() -> None:
    client = client_of(
        SERVERS | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": PLAIN}
    )
    assert "s3cr" not in f"{client} {client!r} {login(PLAIN)!r}"
    assert "sasl.password" in repr(client)
    for text in ('m required password="s3cret', "s3cret", 'm required username="x" s3cret;'):
        with pytest.raises(Unreadable) as unreadable:
            login(text)
        assert "s3cret" not in str(unreadable.value)


def test_what_is_committed_is_read_if_the_source_says_so() -> None:
    assert client_of(SERVERS | {"kafka.isolation.level": "read_committed"}).read_committed
    assert not client_of(SERVERS).read_committed


def test_options_that_move_offsets_are_refused_with_the_reason() -> None:
    assert refusals(SERVERS | {"subscribe": "t", "failOnDataLoss": "true"}) == ()
    (loss,) = refusals({"failondataloss": "FALSE"})
    assert loss.startswith("failOnDataLoss=false makes Spark jump over lost records")
    (reset,) = refusals({"kafka.auto.offset.reset": "earliest"})
    assert reset.startswith("kafka.auto.offset.reset moves")
    assert "kafka-offsets" in loss and "kafka-offsets" in reset


def test_a_job_that_opted_out_by_name_may_have_them() -> None:
    assert refusals({"failOnDataLoss": "false", "kafka.auto.offset.reset": "latest"}, opted_out=True) == ()
