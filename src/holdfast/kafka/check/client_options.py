"""Translation of a Spark Kafka source's options to librdkafka settings, and options that conflict with the check. Pure.

Spark passes every option that starts with `kafka.` to the Java client, whose security settings differ from librdkafka's.
An option that cannot be translated is refused by name. Messages never show values, because many of them are secret.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.driver_protocol.kafka_messages import OFFSET_CHECK_NAME
from holdfast.errors import Refused
from holdfast.kafka.check import jaas

PREFIX = "kafka."
OPT_OUT = f"or disable the offset check with --conf holdfast.guards.off={OFFSET_CHECK_NAME}"


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Connection settings for librdkafka. They contain passwords, so `repr` shows only their names."""

    settings: Mapping[str, str] = field(repr=False)
    read_committed: bool = False

    def __repr__(self) -> str:
        return f"ClientOptions({', '.join(sorted(self.settings))}; values hidden)"


def find_unsafe_options(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return a message for each option that lets Spark or Kafka change the job's offsets silently."""
    lowercase = {key.lower(): value for key, value in options.items()}
    messages = []
    if lowercase.get("failondataloss", "true").strip().lower() != "true":
        messages.append(
            "failOnDataLoss=false makes Spark skip lost records and only log a warning: remove the option, " + OPT_OUT
        )
    if "kafka.auto.offset.reset" in lowercase:
        messages.append(
            "kafka.auto.offset.reset changes the offset when the saved one is out of range: remove the option "
            "(startingOffsets sets where a new query begins), " + OPT_OUT
        )
    return tuple(messages)


def translate_options(options: Mapping[str, str]) -> ClientOptions:
    """Return librdkafka settings for the source's options. Raise Refused, naming an option that cannot be translated."""
    java = {key.lower().removeprefix(PREFIX): value for key, value in options.items() if key.lower().startswith(PREFIX)}
    if not java.get("bootstrap.servers", "").strip():
        raise Refused("the Kafka source has no option kafka.bootstrap.servers: set it in the script")
    settings = {"bootstrap.servers": java["bootstrap.servers"]}
    protocol = java.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise _untranslatable_error("security.protocol", "it is not a Kafka protocol")
    settings["security.protocol"] = protocol.lower()
    if protocol.startswith("SASL"):
        settings |= dict(_translate_sasl(java))
    if protocol.endswith("SSL"):
        settings |= dict(_translate_tls(java))
    return ClientOptions(settings, java.get("isolation.level", "").strip().lower() == "read_committed")


def _untranslatable_error(option: str, reason: str) -> Refused:
    return Refused(f"the offset check cannot use kafka.{option}: {reason}; change the option, {OPT_OUT}")


# SASL


def _translate_sasl(java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for handler in ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class"):
        if java.get(handler) and not java[handler].endswith(".OAuthBearerLoginCallbackHandler"):
            raise _untranslatable_error(handler, "it is Java code")
    mechanism = java.get("sasl.mechanism", "GSSAPI").strip().upper()
    translate = _MECHANISMS.get(mechanism)
    if translate is None:
        known = ", ".join(sorted(_MECHANISMS))
        raise _untranslatable_error("sasl.mechanism", f"{mechanism} is not supported, only {known}")
    text = java.get("sasl.jaas.config", "")
    if not text:
        raise _untranslatable_error("sasl.jaas.config", "it is not set (Java login files are not read)")
    try:
        login = jaas.parse_login(text)
    except jaas.MalformedJaas as error:
        raise _untranslatable_error("sasl.jaas.config", str(error)) from None
    yield "sasl.mechanism", mechanism
    yield from translate(login, java)


def _translate_password(login: jaas.JaasLogin, _java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if login.module not in ("PlainLoginModule", "ScramLoginModule"):
        raise _untranslatable_error("sasl.jaas.config", f"its module {login.module} does not fit the mechanism")
    if login.options.get("tokenauth", "").lower() == "true":
        raise _untranslatable_error("sasl.jaas.config", "only the Java client supports delegation tokens (tokenauth)")
    for name in ("username", "password"):
        if name not in login.options:
            raise _untranslatable_error("sasl.jaas.config", f"it has no {name}")
        yield f"sasl.{name}", login.options[name]


def _translate_oauth(login: jaas.JaasLogin, java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    url = java.get("sasl.oauthbearer.token.endpoint.url", "")
    if not url or "clientId" not in login.options or "clientSecret" not in login.options:
        raise _untranslatable_error(
            "sasl.jaas.config", "OAUTHBEARER needs clientId, clientSecret and kafka.sasl.oauthbearer.token.endpoint.url"
        )
    yield "sasl.oauthbearer.method", "oidc"
    yield "sasl.oauthbearer.token.endpoint.url", url
    yield "sasl.oauthbearer.client.id", login.options["clientId"]
    yield "sasl.oauthbearer.client.secret", login.options["clientSecret"]
    if "scope" in login.options:
        yield "sasl.oauthbearer.scope", login.options["scope"]


_MECHANISMS: Mapping[str, Callable[[jaas.JaasLogin, Mapping[str, str]], Iterator[tuple[str, str]]]] = {
    "PLAIN": _translate_password,
    "SCRAM-SHA-256": _translate_password,
    "SCRAM-SHA-512": _translate_password,
    "OAUTHBEARER": _translate_oauth,
}


# TLS


def _translate_tls(java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    # An empty value disables the host name check. If the option is not set, both clients check the host name.
    if java.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        yield "ssl.endpoint.identification.algorithm", "none"
    if java.get("ssl.engine.factory.class"):
        raise _untranslatable_error("ssl.engine.factory.class", "it is Java code")
    yield from _translate_trust_store(java)
    yield from _translate_key_store(java)


def _translate_trust_store(java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    kind = java.get("ssl.truststore.type", "JKS").strip().upper()
    if java.get("ssl.truststore.certificates"):
        yield "ssl.ca.pem", java["ssl.truststore.certificates"]
    elif java.get("ssl.truststore.location"):
        if kind != "PEM":
            raise _untranslatable_error("ssl.truststore.location", f"only Java can read a {kind} trust store: {_TO_PEM}")
        yield "ssl.ca.location", java["ssl.truststore.location"]


def _translate_key_store(java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    kind = java.get("ssl.keystore.type", "JKS").strip().upper()
    location = java.get("ssl.keystore.location", "")
    if java.get("ssl.keystore.key"):
        yield "ssl.key.pem", java["ssl.keystore.key"]
        yield "ssl.certificate.pem", java.get("ssl.keystore.certificate.chain", "")
    elif location and kind == "PEM":
        yield "ssl.key.location", location
        yield "ssl.certificate.location", location
    elif location and kind == "PKCS12":
        yield "ssl.keystore.location", location
        yield "ssl.keystore.password", java.get("ssl.keystore.password", "")
    elif location:
        raise _untranslatable_error("ssl.keystore.location", f"only Java can read a {kind} key store: {_TO_PEM}")
    else:
        return
    if java.get("ssl.key.password"):
        yield "ssl.key.password", java["ssl.key.password"]


_TO_PEM = "convert it with 'keytool -importkeystore -deststoretype PKCS12' and 'openssl pkcs12', and set the store type to PEM"
