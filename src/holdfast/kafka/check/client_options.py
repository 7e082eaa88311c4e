"""From the options of a Spark Kafka source to a client of our own, and which options the guard cannot live with. Pure.

Spark hands every option that begins with `kafka.` to Java's client, whose security settings are not those of librdkafka. What
cannot be translated is refused by its name; values are never shown, because many of them are secret.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.errors import Refused
from holdfast.kafka.check import jaas

GUARD = "kafka-offsets"
"""The name by which a job opts out."""
PREFIX = "kafka."
OPT_OUT = f"or opt out of the guard by its name: --conf holdfast.guards.off={GUARD}"


@dataclass(frozen=True, slots=True)
class Client:
    """How to reach the brokers. Its settings hold passwords, so it shows only their names."""

    settings: Mapping[str, str] = field(repr=False)
    read_committed: bool = False

    def __repr__(self) -> str:
        return f"Client({', '.join(sorted(self.settings))}; values are not shown)"


def refusals(options: Mapping[str, str], *, opted_out: bool = False) -> tuple[str, ...]:
    """A sentence for each option that would move the job's offsets behind its back. A job that opted out may have them."""
    if opted_out:
        return ()
    found = {key.lower(): value for key, value in options.items()}
    sentences = []
    if found.get("failondataloss", "true").strip().lower() != "true":
        sentences.append(
            "failOnDataLoss=false makes Spark jump over lost records with nothing but a line in a log: remove it, " + OPT_OUT
        )
    if "kafka.auto.offset.reset" in found:
        sentences.append(
            "kafka.auto.offset.reset moves to another offset when the saved one is out of range: remove it (a new query begins "
            "where startingOffsets says), " + OPT_OUT
        )
    return tuple(sentences)


def client_of(options: Mapping[str, str]) -> Client:
    """Raises Refused, with a sentence that names the option that cannot be translated."""
    java = {key.lower().removeprefix(PREFIX): value for key, value in options.items() if key.lower().startswith(PREFIX)}
    if not java.get("bootstrap.servers", "").strip():
        raise Refused("the source has no kafka.bootstrap.servers")
    settings = {"bootstrap.servers": java["bootstrap.servers"]}
    protocol = java.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
        raise _untranslatable("security.protocol", "it is none of Kafka's")
    settings["security.protocol"] = protocol.lower()
    if protocol.startswith("SASL"):
        settings |= dict(_sasl(java))
    if protocol.endswith("SSL"):
        settings |= dict(_tls(java))
    return Client(settings, java.get("isolation.level", "").strip().lower() == "read_committed")


def _untranslatable(option: str, why: str) -> Refused:
    return Refused(f"the offset guard cannot use kafka.{option}: {why}; change it, {OPT_OUT}")


# SASL


def _sasl(java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for handler in ("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "sasl.login.class"):
        if java.get(handler) and not java[handler].endswith(".OAuthBearerLoginCallbackHandler"):
            raise _untranslatable(handler, "it is Java code")
    mechanism = java.get("sasl.mechanism", "GSSAPI").strip().upper()
    translate = _MECHANISMS.get(mechanism)
    if translate is None:
        known = ", ".join(sorted(_MECHANISMS))
        raise _untranslatable("sasl.mechanism", f"of the mechanisms only {known} are understood, not {mechanism}")
    text = java.get("sasl.jaas.config", "")
    if not text:
        raise _untranslatable("sasl.jaas.config", "it is not among the options (a login file of Java is not read)")
    try:
        login = jaas.login(text)
    except jaas.Unreadable as error:
        raise _untranslatable("sasl.jaas.config", str(error)) from None
    yield "sasl.mechanism", mechanism
    yield from translate(login, java)


def _password(login: jaas.Login, _java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if login.module not in ("PlainLoginModule", "ScramLoginModule"):
        raise _untranslatable("sasl.jaas.config", f"its module is {login.module}, and not that of the mechanism")
    if login.options.get("tokenauth", "").lower() == "true":
        raise _untranslatable("sasl.jaas.config", "delegation tokens (tokenauth) are known to Java's client alone")
    for name in ("username", "password"):
        if name not in login.options:
            raise _untranslatable("sasl.jaas.config", f"it names no {name}")
        yield f"sasl.{name}", login.options[name]


def _oauth(login: jaas.Login, java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    url = java.get("sasl.oauthbearer.token.endpoint.url", "")
    if not url or "clientId" not in login.options or "clientSecret" not in login.options:
        raise _untranslatable(
            "sasl.jaas.config", "OAUTHBEARER needs clientId, clientSecret and kafka.sasl.oauthbearer.token.endpoint.url"
        )
    yield "sasl.oauthbearer.method", "oidc"
    yield "sasl.oauthbearer.token.endpoint.url", url
    yield "sasl.oauthbearer.client.id", login.options["clientId"]
    yield "sasl.oauthbearer.client.secret", login.options["clientSecret"]
    if "scope" in login.options:
        yield "sasl.oauthbearer.scope", login.options["scope"]


_MECHANISMS: Mapping[str, Callable[[jaas.Login, Mapping[str, str]], Iterator[tuple[str, str]]]] = {
    "PLAIN": _password,
    "SCRAM-SHA-256": _password,
    "SCRAM-SHA-512": _password,
    "OAUTHBEARER": _oauth,
}


# TLS


def _tls(java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    # Set to nothing, it lets a broker show a certificate of any name. Not set, both clients check the name.
    if java.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        yield "ssl.endpoint.identification.algorithm", "none"
    if java.get("ssl.engine.factory.class"):
        raise _untranslatable("ssl.engine.factory.class", "it is Java code")
    yield from _trust(java)
    yield from _key(java)


def _trust(java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    kind = java.get("ssl.truststore.type", "JKS").strip().upper()
    if java.get("ssl.truststore.certificates"):
        yield "ssl.ca.pem", java["ssl.truststore.certificates"]
    elif java.get("ssl.truststore.location"):
        if kind != "PEM":
            raise _untranslatable(
                "ssl.truststore.location", f"it is a store of type {kind}, of which only Java reads one: {_TO_PEM}"
            )
        yield "ssl.ca.location", java["ssl.truststore.location"]


def _key(java: Mapping[str, str]) -> Iterator[tuple[str, str]]:
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
        raise _untranslatable("ssl.keystore.location", f"it is a store of type {kind}, of which only Java reads one: {_TO_PEM}")
    else:
        return
    if java.get("ssl.key.password"):
        yield "ssl.key.password", java["ssl.key.password"]


_TO_PEM = "convert it with 'keytool -importkeystore -deststoretype PKCS12' and 'openssl pkcs12', and name its type PEM"
