"""Settings: all problems at once, names by rule, nothing guessed."""

import pytest

from edge_agent import cli, config
from wire.settings import Problems

GOOD = {"cluster": "demo", "node": "edge-01"}


def lines(table, environ=None) -> str:
    with pytest.raises(Problems) as caught:
        config.read(table, environ or {})
    return "\n".join(caught.value.lines)


def test_two_keys_are_enough():
    """Everything else has a default."""
    found = config.read(GOOD, {})

    assert (found.cluster, found.node, found.tick_ms, found.source.kind) == (
        "demo",
        "edge-01",
        1000,
        "auto",
    )
    assert config.node_names(found) == ("edge-01",)


def test_the_node_comes_from_the_downward_api():
    """BR-119: NODE_NAME is the node, whatever HOSTNAME says."""
    environ = {"NODE_NAME": "node-1", "HOSTNAME": "agent-abc12"}

    assert config.read({"cluster": "demo"}, environ).node == "node-1"


def test_without_a_node_name_nothing_is_guessed():
    """BR-119: neither setting nor NODE_NAME: a problem, though there is a HOSTNAME."""
    assert "node: missing" in lines({"cluster": "demo"}, {"HOSTNAME": "agent-xyz99"})


def test_all_problems_are_told_at_once():
    """Wrong key, wrong value, wrong name and missing name in one answer."""
    found = lines({"cluster": "De/mo", "tick": 5, "mqtt": {"port": 0}, "source": {"kind": "amd"}})

    assert found.count("\n") == 4
    for part in (
        "tick: unknown key",
        "mqtt.port",
        "source.kind",
        "RFC 1123 label",
        "node: missing",
    ):
        assert part in found


def test_names_are_refused_with_the_rule():
    """A node that MQTT or Kubernetes would not take is refused before anything starts."""
    assert "RFC 1123 subdomain" in lines({"cluster": "demo", "node": "edge/01"})
    assert "fleet.prefix" in lines({"cluster": "demo", "fleet": {"count": 2, "prefix": "E#"}})


def test_a_fleet_counts_with_two_digits_or_more():
    """edge-01 … edge-12; with a hundred, three digits."""
    twelve = config.read({"cluster": "d", "fleet": {"count": 12}}, {})
    hundred = config.read({"cluster": "d", "fleet": {"count": 100}}, {})

    assert config.node_names(twelve)[0::11] == ("edge-01", "edge-12")
    assert config.node_names(hundred)[0::99] == ("edge-001", "edge-100")


def test_settings_that_do_not_go_together_are_refused():
    """Recorded without a file; half a client certificate; a back-off upside down."""
    assert "recorded.file" in lines({**GOOD, "source": {"kind": "recorded"}})
    assert "tls_key_file" in lines({**GOOD, "mqtt": {"tls_cert_file": "x"}})
    assert "backoff_max_ms" in lines({**GOOD, "mqtt": {"backoff_max_ms": 10}})


def test_the_environment_wins():
    """WINDVANE__GROUP__KEY overrides the file."""
    found = config.read(GOOD, {"WINDVANE__MQTT__PORT": "1999", "WINDVANE__NODE": "n2"})

    assert (found.mqtt.port, found.node) == (1999, "n2")


def test_a_wrong_setting_leaves_the_spool_untouched(tmp_path, capsys, monkeypatch):
    """BR-52: exit 2 with the problems on stderr; no file or folder was made."""
    monkeypatch.delenv("NODE_NAME", raising=False)
    file = tmp_path / "agent.toml"
    spools = tmp_path / "spools"
    file.write_text(f'cluster = "demo"\nspool_dir = "{spools}"\n[mqtt]\nprot = 1\n')

    assert cli.main(["--config", str(file)]) == 2
    told = capsys.readouterr().err
    assert "mqtt.prot" in told
    assert "node: missing" in told
    assert not spools.exists()


@pytest.mark.parametrize("text", [None, "= nonsense"], ids=["missing", "no TOML"])
def test_a_file_that_cannot_be_read_is_a_problem(tmp_path, capsys, text):
    """A missing file or one that is no TOML is told by name, exit 2."""
    file = tmp_path / "agent.toml"
    if text is not None:
        file.write_text(text)

    assert cli.main(["--config", str(file)]) == 2
    assert "agent.toml" in capsys.readouterr().err
