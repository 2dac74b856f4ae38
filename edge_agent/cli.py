"""The command `windvane-agent`."""

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence

from edge_agent import app, config
from edge_agent.errors import AgentError
from wire.settings import Problems

GARBAGE_MAX = 50_000
LOG_LEVELS = ("debug", "info", "warning", "error")
DESCRIPTION = """Reads the GPUs of this node, keeps what it read on disk, sends it by MQTT.

Settings come from --config FILE (TOML) and from WINDVANE__GROUP__KEY=value, which wins.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent; 0 after a signal, 1 when it cannot go on, 2 when the settings are wrong."""
    parser = argparse.ArgumentParser(prog="windvane-agent", description=DESCRIPTION)
    parser.add_argument("--config", metavar="FILE", default="", help="settings in TOML")
    parser.add_argument("--log-level", default="info", choices=LOG_LEVELS)
    parser.add_argument(
        "--aliases",
        metavar="NAMES",
        help="show the values also as these exporters do: dcgm, kepler, or dcgm,kepler",
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(
        level=given.log_level.upper(),
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    try:
        settings = config.load(given.config, _environment(given.aliases))
    except Problems as problems:
        for line in problems.lines:
            print(f"windvane-agent: {line}", file=sys.stderr)  # noqa: T201 - for a person
        return 2
    gc.freeze()  # what was made so far stays: not worth a look at each collection
    gc.set_threshold(GARBAGE_MAX)
    try:
        asyncio.run(_until_signalled(settings))
    except AgentError as error:
        print(f"windvane-agent: {error}", file=sys.stderr)  # noqa: T201 - for a person
        return 1
    return 0


def _environment(aliases: str | None) -> dict[str, str]:
    """The environment, with what the command line says in its grammar."""
    if aliases is None:
        return dict(os.environ)
    names = [name.strip() for name in aliases.split(",") if name.strip()]
    return {**os.environ, "WINDVANE__EXPORTER__ALIASES": json.dumps(names)}


async def _until_signalled(settings: config.Settings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await app.run(settings, stopping)
