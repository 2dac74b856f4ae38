"""Settings of the processor, and how wrong ones are told."""

import asyncio
import socket

import prometheus_client as prom
import pytest

from cloud_processor import cli, config, errors, telemetry
from cloud_processor.streams import log
from wire.settings import Problems


def test_all_problems_are_named_at_once():
    """Three mistakes, three lines, each with its place."""
    table = {"kafka": {"partitons": 8}, "state": {"store": "redis"}, "kube": {"dry_run": "maybe"}}

    with pytest.raises(Problems) as caught:
        config.read(table, {})

    text = "\n".join(caught.value.lines)
    for place in ("kafka.partitons", "state.store", "kube.dry_run"):
        assert place in text


def test_the_environment_wins():
    """WINDVANE__GROUP__KEY overrides the file."""
    environ = {"WINDVANE__WEB__PORT": "7001", "WINDVANE__KUBE__DRY_RUN": "false"}

    settings = config.read({"web": {"port": 6000}}, environ)

    assert (settings.web.port, settings.kube.dry_run) == (7001, False)


def test_nothing_given_is_a_dry_processor():
    """The defaults write to no cluster."""
    settings = config.read({}, {})

    assert (settings.kube.mode, settings.kube.dry_run) == ("off", True)


def test_cli_prints_the_problems_and_exits_2(tmp_path, capsys):
    """Nothing is started."""
    path = tmp_path / "processor.toml"
    path.write_text('[web]\nport = 70000\n[policy]\ndomain = "!"\n')

    code = cli.main(["--config", str(path)])

    text = capsys.readouterr().err
    assert code == 2
    assert "web.port" in text
    assert "policy.domain" in text


@pytest.mark.parametrize("content", [None, "not toml ["])
def test_an_unreadable_file_is_a_problem_too(tmp_path, capsys, content):
    """A missing file and bad TOML end as one line and exit 2."""
    path = tmp_path / "processor.toml"
    if content is not None:
        path.write_text(content)

    assert cli.main(["--config", str(path)]) == 2
    assert str(path) in capsys.readouterr().err


async def test_kafka_that_does_not_answer_is_given_up_with_a_clear_line():
    """After the time given; a supervisor starts the program again."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        checking = log.check_topics(
            address,
            8,
            changelogs=(),
            wait_s=0.0,
            telemetry=telemetry.Telemetry(prom.CollectorRegistry()),
        )
        with pytest.raises(errors.KafkaUnreachable, match=address):
            await asyncio.wait_for(checking, 5)
