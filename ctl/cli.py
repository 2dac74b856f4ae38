"""`windvane`, the operator's command.

Each subcommand is a function that imports what it needs, so that `windvane topics`
works where only Kafka's client is installed.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ctl import errors


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        return int(args.run(args))
    except errors.CtlError as error:
        print(f"windvane: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="windvane",
        description="GPU telemetry from the edge that steers Kubernetes scheduling.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="the whole pipeline on this machine, simulated GPUs")
    demo.add_argument("--once", action="store_true", help="run the story unattended and end")
    demo.add_argument("--kubeconfig", type=Path, help="steer this cluster (default: dry run)")
    demo.add_argument("--nodes", type=int, default=12, help="simulated nodes, 12 or more")
    demo.add_argument(
        "--nvml",
        action="store_true",
        help="read two nodes through NVIDIA's binding and a stand-in library (needs gcc)",
    )
    demo.add_argument("--keep", type=Path, metavar="FOLDER", help="keep all state in FOLDER")
    demo.set_defaults(run=_demo)

    topics = commands.add_parser("topics", help="create or check the Kafka topics")
    topics.add_argument("action", choices=["create", "check"])
    topics.add_argument("--bootstrap", default="127.0.0.1:9092", help="host:port of Kafka")
    topics.add_argument("--partitions", type=int, default=8, help="of every topic (default 8)")
    topics.add_argument("--replication", type=int, default=1, help="copies of each partition")
    topics.set_defaults(run=_topics)

    servers = commands.add_parser("servers", help="fetch the embedded servers, print versions")
    servers.set_defaults(run=_servers)

    schema = commands.add_parser("schema", help="write the contract's JSON Schema files")
    schema.add_argument("folder", type=Path)
    schema.set_defaults(run=_schema)

    _add_matrix(commands.add_parser("matrix", help="do driver, GPU, CUDA and Kubernetes match?"))
    return parser


def _add_matrix(matrix: argparse.ArgumentParser) -> None:
    actions = matrix.add_subparsers(required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="judge versions, or a node",
        epilog="exit code: 0 ok, 3 old, 4 unsupported, 1 unknown or an error; the gravest counts",
    )
    check.add_argument("--driver", help="NVIDIA driver, such as 550.54.15")
    check.add_argument(
        "--gpu",
        action="append",
        default=[],
        help="architecture, compute capability or product (Hopper, 9.0, 'NVIDIA L4'); repeatable",
    )
    check.add_argument("--cuda", help="CUDA release that is to run on the driver, such as 12.4")
    check.add_argument("--kubernetes", help="Kubernetes release, such as 1.31")
    check.add_argument("--kubeedge", help="KubeEdge release in that Kubernetes, such as 1.23")
    check.add_argument("--operator", help="GPU Operator in that Kubernetes, such as 26.3.1")
    check.add_argument("--node", help="driver and GPUs of this node, as the processor knows them")
    check.add_argument("--cluster", help="of the node, where several have the name")
    check.add_argument("--api", default="http://127.0.0.1:6066", help="of the processor")
    check.add_argument("--date", help="judge as of this day, YYYY-MM-DD (default: today, UTC)")
    check.set_defaults(run=_matrix_check)
    show = actions.add_parser("show", help="the rows, each with source and date")
    show.add_argument("table", nargs="?", choices=["drivers", "kubeedge", "operator"])
    show.set_defaults(run=_matrix_show)


def _demo(args: argparse.Namespace) -> int:
    from ctl.demo import run

    return run.demo(
        once=args.once,
        kubeconfig=args.kubeconfig,
        node_count=args.nodes,
        keep=args.keep,
        nvml=args.nvml,
    )


def _topics(args: argparse.Namespace) -> int:
    from ctl import topics

    if args.action == "create":
        for line in topics.create(args.bootstrap, args.partitions, args.replication):
            print(line)
    problems = topics.check(args.bootstrap, args.partitions)
    for line in problems:
        print(line, file=sys.stderr)
    if not problems:
        print(f"all topics are as they should be ({args.partitions} partitions each)")
    return 1 if problems else 0


def _servers(_: argparse.Namespace) -> int:
    from ctl import servers

    for name, version in servers.versions().items():
        print(f"{name} {version}")
    return 0


def _schema(args: argparse.Namespace) -> int:
    from wire import schemas

    args.folder.mkdir(parents=True, exist_ok=True)
    for name, content in schemas.files().items():
        (args.folder / name).write_bytes(content)
        print(args.folder / name)
    return 0


def _matrix_check(args: argparse.Namespace) -> int:
    from ctl import matrix

    question = matrix.Question(
        driver=args.driver,
        gpus=tuple(args.gpu),
        cuda=args.cuda,
        kubernetes=args.kubernetes,
        kubeedge=args.kubeedge,
        operator=args.operator,
        day=matrix.day_of(args.date),
    )
    if args.node is not None:
        question = matrix.of_node(question, args.api, args.node, args.cluster)
    lines, code = matrix.check(question)
    print("\n".join(lines))
    return code


def _matrix_show(args: argparse.Namespace) -> int:
    from ctl import matrix_rows

    print("\n".join(matrix_rows.lines(args.table)))
    return 0
