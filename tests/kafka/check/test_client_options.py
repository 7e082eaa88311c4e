"""Translation and refusal of a Kafka source's options; secrets are never shown."""

import pytest

from holdfast.errors import Refused
from holdfast.kafka.check.client_options import find_unsafe_options, translate_options
from holdfast.kafka.check.jaas import MalformedJaas, parse_login

SERVERS = {"kafka.bootstrap.servers": "b1:9092,b2:9092"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s3cr\\"et";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required\n  username='ann'\n  password=s3cret ;"


def translate_settings(**options: str) -> dict[str, str]:
    return dict(
        translate_options(SERVERS | {f"kafka.{key.replace('_', '.')}": value for key, value in options.items()}).settings
    )


def test_plaintext_needs_only_the_servers() -> None:
    assert translate_settings() == {"bootstrap.servers": "b1:9092,b2:9092", "security.protocol": "plaintext"}


def test_option_names_are_case_insensitive() -> None:
    assert translate_options({"Kafka.Bootstrap.Servers": "b1:9092"}).settings["bootstrap.servers"] == "b1:9092"


def test_source_without_servers_is_refused() -> None:
    with pytest.raises(Refused, match=r"no option kafka\.bootstrap\.servers"):
        translate_options({"subscribe": "t"})


@pytest.mark.parametrize(
    ("mechanism", "text", "password"),
    [("PLAIN", PLAIN, 's3cr"et'), ("SCRAM-SHA-512", SCRAM, "s3cret"), ("scram-sha-256", SCRAM, "s3cret")],
)
def test_password_login_is_translated(mechanism: str, text: str, password: str) -> None:
    settings = translate_settings(security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=text)
    assert (settings["sasl.mechanism"], settings["sasl.username"], settings["sasl.password"]) == (
        mechanism.upper(),
        "ann",
        password,
    )
    assert settings["security.protocol"] == "sasl_ssl"


def test_oauth_login_is_translated() -> None:
    text = (
        'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="i" clientSecret="s" scope="x";'
    )
    settings = translate_settings(
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_jaas_config=text,
        sasl_oauthbearer_token_endpoint_url="https://id.example/token",
        sasl_login_callback_handler_class="org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    )
    assert settings["sasl.oauthbearer.client.secret"] == "s"
    assert settings["sasl.oauthbearer.method"] == "oidc"


def test_pem_certificates_are_translated() -> None:
    inline = translate_settings(
        security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_certificates="CA", ssl_keystore_type="PEM",
        ssl_keystore_key="KEY", ssl_keystore_certificate_chain="CERT", ssl_key_password="pw",
    )  # fmt: skip  # one item per line is harder to read
    assert {key: value for key, value in inline.items() if key.startswith("ssl")} == {
        "ssl.ca.pem": "CA",
        "ssl.key.pem": "KEY",
        "ssl.certificate.pem": "CERT",
        "ssl.key.password": "pw",
    }
    files = translate_settings(
        security_protocol="SSL", ssl_truststore_type="PEM", ssl_truststore_location="/ca", ssl_keystore_type="PEM",
        ssl_keystore_location="/both", ssl_endpoint_identification_algorithm="",
    )  # fmt: skip  # one item per line is harder to read
    assert {key: value for key, value in files.items() if key.startswith("ssl")} == {
        "ssl.ca.location": "/ca",
        "ssl.key.location": "/both",
        "ssl.certificate.location": "/both",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_pkcs12_key_store_is_translated() -> None:
    settings = translate_settings(
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
def test_refusal_names_the_untranslatable_option(options: dict[str, str], named: str) -> None:
    with pytest.raises(Refused, match=r"the offset check cannot use kafka\.") as refused:
        translate_settings(**options)
    assert named in str(refused.value)
    assert "disable the offset check with --conf holdfast.guards.off=kafka-offsets" in str(refused.value)


def test_secrets_are_not_shown() -> None:
    client = translate_options(
        SERVERS | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": PLAIN}
    )
    assert "s3cr" not in f"{client} {client!r} {parse_login(PLAIN)!r}"
    assert "sasl.password" in repr(client)
    for text in ('m required password="s3cret', "s3cret", 'm required username="x" s3cret;'):
        with pytest.raises(MalformedJaas) as unreadable:
            parse_login(text)
        assert "s3cret" not in str(unreadable.value)


def test_isolation_level_is_translated() -> None:
    assert translate_options(SERVERS | {"kafka.isolation.level": "read_committed"}).read_committed
    assert not translate_options(SERVERS).read_committed


def test_options_that_change_offsets_are_reported() -> None:
    assert find_unsafe_options(SERVERS | {"subscribe": "t", "failOnDataLoss": "true"}) == ()
    (loss,) = find_unsafe_options({"failondataloss": "FALSE"})
    assert loss.startswith("failOnDataLoss=false makes Spark skip lost records")
    (reset,) = find_unsafe_options({"kafka.auto.offset.reset": "earliest"})
    assert reset.startswith("kafka.auto.offset.reset changes the offset")
    assert "kafka-offsets" in loss and "kafka-offsets" in reset
