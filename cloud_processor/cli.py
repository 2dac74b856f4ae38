"""`windvane-processor`: read settings, run until told to stop.

Exit codes: 0 after SIGTERM or SIGINT, 1 when it cannot go on (a supervisor starts it
again), 2 when a person has to mend settings or topics first.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
import threading
import tomllib
from collections.abc import Sequence
from pathlib import Path

from cloud_processor import app, config, errors
from cloud_processor.kube import clearing
from wire.settings import Problems

EXIT_OK, EXIT_FAILED, EXIT_UNUSABLE = 0, 1, 2
HARD_STOP_S = 4.0
QUIET = (
    "cloud_processor.streams.transport",
    "aiokafka",
    "faust",
    "mode",
    "aiohttp",
    "urllib3",
    "kubernetes",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program; the exit code."""
    parser = argparse.ArgumentParser(prog="windvane-processor", description=__doc__)
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    parser.add_argument(
        "--clear",
        action="store_true",
        help="take all labels, taints and annotations of ours off the nodes, and end"
        " (kube.dry_run: only list them); stop the processors first",
    )
    arguments = parser.parse_args(argv)
    try:
        settings = config.read(_table(arguments.config), os.environ)
    except Problems as problems:
        sys.stderr.write("".join(f"{line}\n" for line in problems.lines))
        return EXIT_UNUSABLE
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        if arguments.clear:
            clearing.run(settings.kube, settings.policy.domain, sys.stdout.write)
        else:
            asyncio.run(_run(settings))
    except (errors.WrongTopics, errors.KubeUnusable) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_UNUSABLE
    except errors.ProcessorError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_FAILED
    except Exception:
        logging.getLogger(__name__).exception("the processor ends")
        return EXIT_FAILED
    return EXIT_OK


async def _run(settings: config.Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _end, stop)
    await app.serve(settings, stop)


def _end(stop: asyncio.Event) -> None:
    """End in good order; but Faust waits for a Kafka that is away, and a stop must not."""
    stop.set()
    hard = threading.Timer(HARD_STOP_S, _leave)
    hard.daemon = True
    hard.start()


def _leave() -> None:
    logging.getLogger(__name__).warning(
        "not ended in %.0f s; what is not acknowledged will be read again", HARD_STOP_S
    )
    os._exit(EXIT_OK)


def _table(path: Path | None) -> dict[str, object]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise Problems([f"--config: {error}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise Problems([f"--config: {path}: {error}"]) from error


if __name__ == "__main__":
    sys.exit(main())
