"""Starts everything, tells the story, ends everything.

All state lives in one folder, which is removed at the end unless it is to be kept.
Whatever happens, including Ctrl-C in the middle of starting, the programs and servers
that were started are ended.
"""

import contextlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ctl import children, errors, pipeline, servers, topics
from ctl.demo import relay, screen, standin, story

CLUSTER = "demo"
PARTITIONS = 4
NODES_MIN = 12


def demo(
    *, once: bool, kubeconfig: Path | None, node_count: int, keep: Path | None, nvml: bool = False
) -> int:
    """Run the demo; exit code 0 when it ended well (with `once`: when the story came true)."""
    if node_count < NODES_MIN:
        raise errors.CtlError(f"--nodes {node_count}: the story needs {NODES_MIN} nodes or more")
    if kubeconfig is not None and not kubeconfig.is_file():
        raise errors.CtlError(f"--kubeconfig {kubeconfig}: no such file")
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        with _folder(keep) as folder, screen.Screen() as shown:
            fleet = standin.Fleet(folder) if nvml else None
            return _run(
                folder, shown, fleet, once=once, kubeconfig=kubeconfig, node_count=node_count
            )
    except KeyboardInterrupt:
        print("\nended")
        return 0 if not once else 130


def _run(
    folder: Path,
    shown: screen.Screen,
    fleet: standin.Fleet | None,
    *,
    once: bool,
    kubeconfig: Path | None,
    node_count: int,
) -> int:
    shown.say(f"state of this demo: {folder}")
    with contextlib.ExitStack() as stack:
        mosquitto = stack.enter_context(servers.Mosquitto(folder))
        kafka = stack.enter_context(servers.Kafka(folder))
        shown.say(f"Mosquitto on port {mosquitto.port}, Kafka on {kafka.bootstrap}")
        topics.create(kafka.bootstrap, PARTITIONS)
        link = stack.enter_context(relay.Relay(mosquitto.port))
        pipe = pipeline.Pipeline(
            folder,
            mqtt_port=mosquitto.port,
            bootstrap=kafka.bootstrap,
            partitions=PARTITIONS,
            cluster=CLUSTER,
        )
        stack.callback(_end, pipe, steering=kubeconfig is not None)
        _start(pipe, link, fleet, kubeconfig, node_count)
        cut_node = f"edge-{node_count:02d}"
        shown.say(f"API and metrics: http://127.0.0.1:{pipe.api_ports[0]}/api/nodes")
        shown.say("steering: " + (f"real, {kubeconfig}" if kubeconfig else "dry run, no cluster"))
        fault = fleet.fault if fleet else pipe.fault
        teller = story.write(pipe, link, cut_node=cut_node, fault=fault)
        _wait_for_fleet(teller, shown, node_count)
        _check_known(teller, (story.BUSY, story.BROKEN, cut_node))
        teller.run(lambda: shown.show(teller.nodes, teller.lines))
        came_true = _verdict_on(teller, shown)
        if not once:
            shown.say(f"it goes on until Ctrl-C; more faults: append lines to {pipe.control_file}")
        while not once:
            teller.poll(lambda: shown.show(teller.nodes, teller.lines))
    return 0 if came_true else 1


def _end(pipe: pipeline.Pipeline, *, steering: bool) -> None:
    """Stop the programs; a cluster gets its nodes back as they were."""
    pipe.stop()
    if steering and "processor" in pipe.programs:
        pipe.clear_nodes()


def _start(
    pipe: pipeline.Pipeline,
    link: relay.Relay,
    fleet: standin.Fleet | None,
    kubeconfig: Path | None,
    node_count: int,
) -> None:
    pipe.start_bridge()
    pipe.start_processor(
        kube={"mode": "kubeconfig", "kubeconfig": str(kubeconfig), "dry_run": False}
        if kubeconfig
        else {"mode": "off"},
    )
    if fleet is None:
        pipe.start_agents(count=node_count - 1)
    else:
        fleet.start(pipe)
        numbers = [n for n in range(1, node_count) if f"edge-{n:02d}" not in standin.NODES]
        for first, last in _runs(numbers):
            pipe.start_agents(f"agents-{first:02d}", count=last - first + 1, first=first)
    pipe.start_agents(
        "agents-far",
        count=1,
        first=node_count,
        mqtt_port=link.port,
        mqtt={"port": link.port, "host": "127.0.0.1", "backoff_max_ms": 10_000},
    )


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as closed ranges."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _wait_for_fleet(teller: story.Teller, shown: screen.Screen, node_count: int) -> None:
    def all_fresh() -> bool:
        teller.poll(lambda: shown.show(teller.nodes, teller.lines))
        fresh = [n for n in teller.nodes.values() if n["telemetry"] == "fresh"]
        return len(fresh) == node_count

    running = list(teller.pipe.programs.values())
    children.wait_until("the fleet", all_fresh, timeout_s=60, children=running)
    shown.say(f"{node_count} nodes report")


def _check_known(teller: story.Teller, names: Sequence[str]) -> None:
    """A node that the cluster does not have is shown and never steered: no story without."""
    unknown = [name for name in names if teller.nodes[name]["pool"] is None]
    if unknown:
        raise errors.CtlError(
            f"the cluster has no node named {', '.join(unknown)}: the demo steers nodes of its own"
            " names only; create them there, or run it without --kubeconfig"
        )


def _verdict_on(teller: story.Teller, shown: screen.Screen) -> bool:
    missing = {n: v["intake"]["missing"] for n, v in teller.nodes.items() if v.get("intake")}
    lost = sum(missing.values())
    if lost:
        teller.failures.append(f"{lost} records missing: {missing}")
    received = sum(v["intake"]["received"] for v in teller.nodes.values() if v.get("intake"))
    shown.say(f"records received {received}, missing {lost}")
    for failure in teller.failures:
        shown.say(f"FAILED: {failure}")
    shown.say("the story came true" if not teller.failures else "the story did not come true")
    return not teller.failures


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise errors.CtlError(f"--keep {keep}: the folder is not empty")
        yield keep.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="windvane-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_interrupt(*_: object) -> None:
    sys.stderr.flush()
    raise KeyboardInterrupt
