"""Settings: everything wrong is told at once, and the environment wins."""

from typing import Annotated

import msgspec
import pytest

from wire import names, settings


class Mqtt(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 1883
    password: str = ""


class Pair(msgspec.Struct, frozen=True):
    low: int = 1
    high: int = 2

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise ValueError(f"low {self.low} must be below high {self.high}")


class Program(msgspec.Struct, frozen=True):
    node: names.NodeName
    mqtt: Mqtt = Mqtt()
    pair: Pair = Pair()
    tags: tuple[str, ...] = ()


def test_defaults_and_table() -> None:
    """What the table gives wins over defaults; groups may be left out."""
    read = settings.read(Program, {"node": "edge-01", "mqtt": {"port": 1884}}, {})

    assert Program(node="edge-01", mqtt=Mqtt(port=1884)) == read


def test_environment_wins_and_keeps_text() -> None:
    """A number is read as one, a password that looks like one stays text."""
    environ = {
        "WINDVANE__MQTT__PORT": "1999",
        "WINDVANE__MQTT__PASSWORD": "12345",
        "WINDVANE__TAGS": '["a","b"]',
        "WINDVANE__NODE": "edge-02",
        "HOME": "/root",
    }
    read = settings.read(Program, {"node": "edge-01", "mqtt": {"port": 1}}, environ)

    assert Program("edge-02", Mqtt(port=1999, password="12345"), tags=("a", "b")) == read


def test_all_problems_at_once() -> None:
    """Each wrong key or value is named with its place, none hides another."""
    table = {
        "mqtt": {"port": "x", "prot": 1},
        "pair": {"low": 3},
        "tags": 4,
        "colour": "red",
    }
    with pytest.raises(settings.Problems) as found:
        settings.read(Program, table, {"WINDVANE__MQTT__HOST": "h", "WINDVANE__SHAPE": "{"})

    text = str(found.value)
    assert len(found.value.lines) == 7
    for place in ("mqtt.port", "mqtt.prot", "pair: low 3", "tags", "colour", "shape", "node"):
        assert place in text


@pytest.mark.parametrize("table", [{"node": "a", "mqtt": 3}, {"node": "a", "mqtt": [1]}])
def test_group_must_be_a_table(table: dict[str, object]) -> None:
    """A value where a group must stand is a problem, also under the environment's keys."""
    with pytest.raises(settings.Problems, match="mqtt"):
        settings.read(Program, table, {"WINDVANE__MQTT__PORT": "1"})


def test_whole_table_must_be_one() -> None:
    """Rules across fields hold for what the environment sets as well."""
    with pytest.raises(settings.Problems, match="low 5 must be below"):
        settings.read(Program, {"node": "a"}, {"WINDVANE__PAIR__LOW": "5"})
