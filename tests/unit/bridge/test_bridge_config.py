"""Settings of the bridge."""

import pytest

from bridge import cli, config
from wire.settings import Problems


def test_defaults_need_only_a_name() -> None:
    """POD_NAME names the session; all else has a default."""
    found = config.read({}, {"POD_NAME": "bridge-0"})

    assert found.mqtt.client_id == "bridge-0"
    assert found.mqtt.receive_maximum == 500
    assert found.mqtt.session_expiry_s == 86_400
    assert found.kafka.message_bytes_max == 900_000


def test_client_id_is_not_guessed() -> None:
    """BR-56: without a name of its own a bridge does not start, and all problems are told."""
    with pytest.raises(Problems) as raised:
        config.read({"mqtt": {"port": 0}, "kafka": {"bootstap": "x"}}, {})

    lines = raised.value.lines
    assert len(lines) == 3
    assert any(line.startswith("mqtt.client_id: missing") for line in lines)
    assert any(line.startswith("kafka.bootstap: unknown key") for line in lines)


@pytest.mark.parametrize("name", ["a/b", "a+b", "#", "ü"])
def test_names_that_mqtt_forbids(name: str) -> None:
    """The group is part of a topic filter, so wildcards and slashes may not be in it."""
    with pytest.raises(Problems):
        config.read({"mqtt": {"client_id": "x", "group": name}}, {})


def test_environment_wins() -> None:
    """WINDVANE__GROUP__KEY overrides the file and POD_NAME."""
    found = config.read(
        {"mqtt": {"port": 1884}},
        {"POD_NAME": "p", "WINDVANE__MQTT__CLIENT_ID": "q", "WINDVANE__MQTT__PORT": "1885"},
    )

    assert (found.mqtt.client_id, found.mqtt.port) == ("q", 1885)


def test_session_must_outlive_a_disconnect() -> None:
    """BR-70: a session that ends with the connection cannot be configured."""
    with pytest.raises(Problems):
        config.read({"mqtt": {"client_id": "x", "session_expiry_s": 0}}, {})


def test_wrong_together() -> None:
    """Settings that are sound alone are refused when they are wrong together."""
    for table in ({"backoff_min_ms": 10, "backoff_max_ms": 5}, {"tls_cert_file": "x"}):
        with pytest.raises(Problems):
            config.read({"mqtt": {"client_id": "x", **table}}, {})


def test_cli_says_all_and_starts_nothing(
    tmp_path: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong file ends with code 2 and every problem on stderr."""
    monkeypatch.delenv("POD_NAME", raising=False)
    file = f"{tmp_path}/b.toml"
    with open(file, "w") as out:  # noqa: PTH123
        out.write("[mqtt]\nport = 99999\n[web]\nport = -1\n")

    assert cli.main(["--config", file]) == 2

    said = capsys.readouterr().err
    assert said.count("windvane-bridge: ") == 3
    assert cli.main(["--config", f"{tmp_path}/none.toml"]) == 2
