"""The command `windvane-bridge`.

Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot go on (a supervisor starts it
again), 2 when a person has to mend settings or topics first.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence

from bridge import app, config
from bridge.errors import BridgeError, WrongTopics
from wire.settings import Problems

DESCRIPTION = """Carries messages from the MQTT broker to Kafka; acknowledges what Kafka holds.

Settings come from --config FILE (TOML) and from WINDVANE__GROUP__KEY=value, which wins.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bridge; the exit code."""
    parser = argparse.ArgumentParser(prog="windvane-bridge", description=DESCRIPTION)
    parser.add_argument("--config", metavar="FILE", default="", help="settings in TOML")
    parser.add_argument(
        "--log-level", default="info", choices=["debug", "info", "warning", "error"]
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(
        level=given.log_level.upper(),
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    if given.log_level != "debug":
        # It logs each of its tries while Kafka is away; we say it once for each of ours.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        settings = config.load(given.config, os.environ)
    except Problems as problems:
        return _say(*problems.lines, code=2)
    try:
        asyncio.run(_until_signalled(settings))
    except WrongTopics as error:
        return _say(str(error), code=2)
    except BridgeError as error:
        return _say(str(error), code=1)
    return 0


async def _until_signalled(settings: config.Settings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    await app.run(settings, stopping)


def _say(*lines: str, code: int) -> int:
    for line in lines:
        print(f"windvane-bridge: {line}", file=sys.stderr)  # noqa: T201 - for a person
    return code
