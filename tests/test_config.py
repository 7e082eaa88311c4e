"""Configuration of a node: documentation, validation, and protection of secrets."""

import re
from pathlib import Path

import pytest

from holdfast import config
from holdfast.errors import Refused
from holdfast.zk.session.connection_settings import DigestCredentials, Tls

OPERATIONS = Path(__file__).parents[1] / "docs" / "operations.md"
REQUIRED = "[cluster]\nconnect = 'zk:2181'\n[node]\ndir = 'd'\n"
SECRET = "hunter2-is-secret"


def read_documented_defaults() -> dict[str, str]:
    """Return the defaults by key from the table of settings in docs/operations.md."""
    rows: dict[str, str] = {}
    inside = False
    for line in OPERATIONS.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if [cell.lower() for cell in cells] == ["key", "default", "meaning"]:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not set(line) <= set("|-: "):
            assert len(cells) == 3, f"not three cells: {line}"
            key = re.fullmatch(r"`([^`]+)`", cells[0])
            assert key, f"the key is not in backticks: {line}"
            assert key[1] not in rows, f"{key[1]} is documented twice"
            rows[key[1]] = cells[1]
    return rows


def format_default(key: config.Setting) -> str:
    """Return a default as the documentation writes it: a value in backticks, or words for a missing value."""
    if key.default is None:
        return "required"
    if key.name == "node.id":
        return "host name"
    if key.name == "cluster.storage":
        return "in `node.dir`"
    if key.default == "":
        return "none"
    return f"`{str(key.default).lower() if isinstance(key.default, bool) else key.default}`"


def test_documentation_lists_exactly_the_settings_with_their_defaults() -> None:
    assert read_documented_defaults() == {key.name: format_default(key) for key in config.SETTINGS}


def test_every_setting_has_a_description() -> None:
    assert len({key.name for key in config.SETTINGS}) == len(config.SETTINGS)
    for key in config.SETTINGS:
        assert key.description.endswith("."), key.name


def load_text(tmp_path: Path, text: str) -> config.Config:
    file = tmp_path / "holdfast.toml"
    file.write_text(text)
    return config.load_config(file)


def refusal_message(tmp_path: Path, text: str) -> str:
    with pytest.raises(Refused) as refused:
        load_text(tmp_path, text)
    return str(refused.value)


def test_missing_settings_have_their_defaults(tmp_path: Path) -> None:
    settings = load_text(tmp_path, REQUIRED)
    defaults = {key.name: key.default for key in config.SETTINGS}
    assert settings.cluster == defaults["cluster.name"]
    assert settings.slots == defaults["node.slots"]
    assert f"{settings.api_host}:{settings.api_port}" == defaults["node.api"]
    assert settings.connection.session_timeout_s == defaults["zookeeper.session_timeout_s"]
    assert settings.timing.tick_s == defaults["zookeeper.tick_s"]
    assert settings.timing.sync_limit == defaults["zookeeper.sync_limit"]
    assert settings.timing.heartbeat_s == defaults["timing.heartbeat_s"]
    assert settings.timing.kill_s == defaults["timing.kill_s"]
    assert settings.timing.margin_s == defaults["timing.margin_s"]
    assert settings.connection.tls is None
    assert settings.connection.digest is None


def test_all_settings_are_applied(tmp_path: Path) -> None:
    settings = load_text(
        tmp_path,
        """
        [cluster]
        name = "blue"
        connect = "a:1,b:2/team"
        [node]
        id = "n7"
        dir = "here"
        slots = 9
        api = "[::1]:7070"
        [zookeeper]
        session_timeout_s = 20
        tick_s = 1
        sync_limit = 6
        user = "ann"
        password = "secret"
        tls_ca = "ca.pem"
        tls_certificate = "me.pem"
        tls_key = "me.key"
        tls_key_password = "open"
        tls_check_hostname = false
        [timing]
        heartbeat_s = 2
        kill_s = 3
        margin_s = 7
        """,
    )
    assert (settings.cluster, settings.node, settings.directory, settings.slots) == ("blue", "n7", Path("here"), 9)
    assert (settings.api_host, settings.api_port) == ("::1", 7070)
    ensemble, timing = settings.connection, settings.timing
    assert (ensemble.hosts, ensemble.chroot, ensemble.session_timeout_s) == ((("a", 1), ("b", 2)), "/team", 20.0)
    assert ensemble.digest == DigestCredentials("ann", "secret")
    assert ensemble.tls == Tls(Path("ca.pem"), Path("me.pem"), Path("me.key"), "open", check_hostname=False)
    assert (timing.tick_s, timing.sync_limit, timing.heartbeat_s, timing.kill_s, timing.margin_s) == (1.0, 6, 2.0, 3.0, 7.0)


def test_password_file_overrides_the_password_and_its_newline_is_stripped(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from the file\n")
    text = f"[zookeeper]\nuser = 'ann'\npassword = 'x'\npassword_file = '{tmp_path}/password'"
    assert load_text(tmp_path, REQUIRED + text).connection.digest == DigestCredentials("ann", "from the file")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slots = true", "'node.slots' must be a int, not True"),
        ("slots = 1.5", "'node.slots' must be a int, not 1.5"),
        ("slots = 0", "'node.slots' must be more than 0"),
        ("[zookeeper]\ntls_check_hostname = 'no'", "'zookeeper.tls_check_hostname' must be a bool"),
        ("[timing]\nheartbeat_s = true", "'timing.heartbeat_s' must be a float, not True"),
        ("[timing]\nkill_s = -1", "'timing.kill_s' must be more than 0"),
        ("[timing]\npatience_s = 1", "unknown setting 'timing.patience_s'"),
        ("[Timing]\nkill_s = 1", "unknown setting 'Timing.kill_s'"),
        ("api = '7070'", "'node.api' must be HOST:PORT"),
        ("api = 'h:65536'", "'node.api' must be HOST:PORT"),
        ("api = 'h:http'", "'node.api' must be HOST:PORT"),
    ],
)
def test_invalid_setting_is_refused_by_its_name(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal_message(tmp_path, REQUIRED + text)


@pytest.mark.parametrize(
    "text",
    [
        "[timing]\nheartbeat_s = nan",
        "[timing]\nkill_s = nan",
        "[timing]\nmargin_s = nan",
        "[zookeeper]\ntick_s = nan",
        "[zookeeper]\nsession_timeout_s = nan",
        "[zookeeper]\nsession_timeout_s = inf",
    ],
)
def test_duration_that_is_not_finite_is_refused(tmp_path: Path, text: str) -> None:
    refusal_message(tmp_path, REQUIRED + text)


@pytest.mark.parametrize("port", ["²", "1" * 5000])
def test_invalid_port_is_refused(tmp_path: Path, port: str) -> None:
    refusal_message(tmp_path, f"{REQUIRED}api = '127.0.0.1:{port}'")


def test_password_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"\xff\xfe\x00")
    refusal_message(tmp_path, f"{REQUIRED}[zookeeper]\nuser = 'ann'\npassword_file = '{tmp_path}/password'")


@pytest.mark.parametrize("setting", ["tls_certificate = 'me.pem'", "tls_key = 'me.key'", "tls_key_password = 'x'"])
def test_tls_settings_without_a_ca_are_refused(tmp_path: Path, setting: str) -> None:
    refusal_message(tmp_path, f"{REQUIRED}[zookeeper]\n{setting}")


def test_repr_of_the_configuration_contains_no_secret(tmp_path: Path) -> None:
    secrets = f"user = 'ann'\npassword = '{SECRET}'\ntls_ca = 'ca.pem'\ntls_key_password = '{SECRET}'"
    assert SECRET not in repr(load_text(tmp_path, f"{REQUIRED}[zookeeper]\n{secrets}"))


@pytest.mark.parametrize("key", ["password", "tls_key_password"])
def test_message_about_a_secret_of_the_wrong_type_does_not_contain_it(tmp_path: Path, key: str) -> None:
    """A password without quotes is a number in TOML, and the message goes to the log."""
    assert "20261115" not in refusal_message(tmp_path, f"{REQUIRED}[zookeeper]\nuser = 'ann'\n{key} = 20261115")


def test_message_about_invalid_toml_does_not_contain_a_secret(tmp_path: Path) -> None:
    assert SECRET not in refusal_message(tmp_path, f"{REQUIRED}[zookeeper]\nuser = 'ann'\npassword = {SECRET}")


def test_client_needs_only_the_cluster_and_its_zookeeper(tmp_path: Path) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text("[cluster]\nname = 'blue'\nconnect = 'zk:1/x'\n[zookeeper]\nuser = 'ann'\npassword = 'secret'")
    name, ensemble = config.load_connection(file)
    assert (name, ensemble.connect_string, ensemble.digest) == ("blue", "zk:1/x", DigestCredentials("ann", "secret"))


def test_user_is_read_from_the_auth_file(tmp_path: Path) -> None:
    (tmp_path / "auth").write_text("ann:se:cret\n")
    file = tmp_path / "holdfast.toml"
    file.write_text(f"[cluster]\nconnect = 'zk:1'\n[zookeeper]\nauth_file = '{tmp_path}/auth'")
    assert config.load_connection(file)[1].digest == DigestCredentials("ann", "se:cret")


@pytest.mark.parametrize("content", [b"", b"ann", b"ann:", b":x", b"ann:x\nbob:y", b"\xff:x"])
def test_auth_file_without_one_user_is_refused_without_revealing_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "auth").write_bytes(content)
    message = refusal_message(tmp_path, f"{REQUIRED}[zookeeper]\nauth_file = '{tmp_path}/auth'")
    assert f"{tmp_path}/auth" in message and "bob" not in message


def test_auth_file_together_with_a_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "auth").write_text("ann:secret")
    assert "remove the other settings" in refusal_message(
        tmp_path, f"{REQUIRED}[zookeeper]\nuser = 'ann'\nauth_file = '{tmp_path}/auth'"
    )


@pytest.mark.parametrize("name", ["a/b", "", ".."])
def test_invalid_cluster_name_is_refused_for_a_client_too(tmp_path: Path, name: str) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(f"[cluster]\nname = '{name}'\nconnect = 'zk:1'")
    with pytest.raises(Refused):
        config.load_connection(file)


@pytest.mark.parametrize(("setting", "expected_s"), [("", None), ("'forever'", None), ("3600", 3600.0), ("86400.5", 86400.5)])
def test_period_of_checkpoints_is_forever_or_a_number_of_seconds(
    tmp_path: Path, setting: str, expected_s: float | None
) -> None:
    line = f"keep_checkpoints = {setting}\n" if setting else ""
    loaded = load_text(tmp_path, REQUIRED.replace("[node]", f"{line}[node]"))
    assert loaded.retention.checkpoints_s == expected_s


@pytest.mark.parametrize("setting", ["'never'", "'3600'", "3599", "0", "-1", "inf", "nan", "true"])
def test_other_periods_of_checkpoints_are_refused(tmp_path: Path, setting: str) -> None:
    with pytest.raises(Refused, match=r"cluster\.keep_checkpoints"):
        load_text(tmp_path, REQUIRED.replace("[node]", f"keep_checkpoints = {setting}\n[node]"))
