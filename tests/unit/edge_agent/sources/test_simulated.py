"""Simulated GPUs and the faults that are asked of them."""

import json

from edge_agent import config
from edge_agent.core import normalize
from edge_agent.sources import simulated


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def make(node="edge-01", clock=None, skipped=None, **more) -> simulated.Simulated:
    clock = clock or Clock()
    settings = config.Simulated(**more)
    return simulated.Simulated(
        settings,
        node,
        tick_ms=1000,
        skipped=skipped or (lambda _line, _problem: None),
        clock=clock,
        sleep=clock.sleep,
    )


def ask(file, **fault) -> None:
    with file.open("a") as out:
        out.write(json.dumps(fault) + "\n")


def test_same_seed_node_and_tick_give_the_same():
    """Deterministic in (seed, node, tick); another node or seed is another story."""
    first, second = make(), make()
    runs = [[one.read() for _ in range(50)] for one in (first, second)]

    assert runs[0] == runs[1]
    assert make(node="edge-02").read() != runs[0][0]
    assert make(seed=2).read() != runs[0][0]


def test_every_reading_is_sound():
    """What the model says passes the same checks as a real GPU, with nothing thrown out."""
    source = make(gpus=4)
    for _ in range(100):
        (observation,) = source.read()
        found = [normalize.normalize(gpu) for gpu in observation.gpus]
        assert [one.invalid_count for one in found] == [0] * 4
        assert all(one.unsupported == () for one in found)
    assert len(source.available().gpus) == 4


def test_nodes_have_different_characters():
    """In a fleet of 30 all four kinds of load occur; busy nodes are busy on request."""
    nodes = [make(node=f"edge-{n:02d}") for n in range(30)]
    characters = {gpu.character for node in nodes for gpu in node._gpus}

    assert characters == {"idle", "wave", "bursty", "busy"}
    busy = make(busy_nodes=("edge-01",), profile="idle")
    assert {gpu.character for gpu in busy._gpus} == {"busy"}
    assert {gpu.character for gpu in make(profile="idle")._gpus} == {"idle"}


def test_an_xid_off_the_bus_loses_the_gpu_for_its_time(tmp_path):
    """XID 79: one event at once, the GPU is lost for `duration_s`, then back."""
    file, clock = tmp_path / "control.jsonl", Clock()
    source = make(clock=clock, control_file=str(file))
    source.read()
    ask(file, node="edge-01", fault="xid", xid=79, gpu=1, duration_s=3)
    ask(file, node="edge-02", fault="xid", xid=48)
    events, states = [], []
    for _ in range(6):
        clock.now_s += 1
        (observation,) = source.read()
        events.append([(event.event, event.xid) for event in observation.events])
        states.append([gpu.state for gpu in observation.gpus])

    assert events == [[("xid", 79)], [], [], [], [], []]
    assert states[:3] == [["ok", "lost"]] * 3
    assert states[3:] == [["ok", "ok"]] * 3


def test_an_xid_that_needs_a_reset_says_so(tmp_path):
    """XID 48 asks for a reset; XID 31 is an application's and is told as event only."""
    file, clock = tmp_path / "control.jsonl", Clock()
    source = make(clock=clock, control_file=str(file))
    ask(file, node="edge-01", fault="xid", xid=48, duration_s=2)
    ask(file, node="edge-01", fault="xid", xid=31, gpu=1, duration_s=2)
    (observation,) = source.read()

    assert [event.xid for event in observation.events] == [48, 31]
    assert [gpu.readings["recovery_action"] for gpu in observation.gpus] == ["gpu-reset", "none"]
    clock.now_s = 2.0
    (observation,) = source.read()
    assert observation.gpus[0].readings["recovery_action"] == "none"


def test_a_schedule_can_stand_in_the_file_at_the_start(tmp_path):
    """`at_s` counts from the agent's start."""
    file, clock = tmp_path / "control.jsonl", Clock()
    ask(file, node="edge-01", fault="xid", xid=79, at_s=2.5)
    source = make(clock=clock, control_file=str(file))
    found = []
    for _ in range(5):
        (observation,) = source.read()
        found.append(len(observation.events))
        clock.now_s += 1

    assert found == [0, 0, 0, 1, 0]


def test_load_heat_silence_and_hanging(tmp_path):
    """The other faults do what they say, for as long as they say."""
    file, clock = tmp_path / "control.jsonl", Clock()
    source = make(clock=clock, control_file=str(file), profile="idle")
    ask(file, node="edge-01", fault="load", utilization_percent=97, duration_s=500)
    ask(file, node="edge-01", fault="hot", duration_s=500)
    for _ in range(400):
        (observation,) = source.read()
        clock.now_s += 1
    gpu = observation.gpus[0].readings
    assert gpu["utilization_percent"] == 97
    assert gpu["throttle_reasons"] == ("hw-thermal-slowdown",)

    ask(file, node="edge-01", fault="silent", duration_s=1)
    assert source.read() == ()
    clock.now_s += 1
    ask(file, node="edge-01", fault="hang", duration_s=30)
    before = clock.now_s
    source.read()
    assert clock.now_s == before + 30


def test_bad_lines_are_told_once_and_skipped(tmp_path):
    """Nonsense, a missing GPU and half a line: the good lines still count."""
    file, told = tmp_path / "control.jsonl", []
    source = make(control_file=str(file), skipped=lambda line, problem: told.append(problem))
    source.read()
    with file.open("a") as out:
        out.write("nonsense\n\n")
        out.write('{"node":"edge-01","fault":"xid","xid":79,"gpu":9}\n')
        out.write('{"node":"edge-01","fault":"xid"')
    source.read()
    with file.open("a") as out:
        out.write(',"xid":31}\n')
    (observation,) = source.read()
    source.read()

    assert len(told) == 2
    assert [event.xid for event in observation.events] == [31]
