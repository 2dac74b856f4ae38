"""A recording: each row once, at its moment, whoever replays it."""

import gzip
import math

import pytest

from edge_agent import config
from edge_agent.sources import recorded

CSV = """value,timestamp_anon,container_ip
1.5,100.0,b
2.5,100.0,a
nonsense,100.0,a
3.5,157.0,a
4.5,157.0,c
5.5,214.0,b
,214.0,b
nan,214.0,c
"""


class Clock:
    now_s = 1_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text(CSV)
    return path


def make(file, index=0, node_count=1, speed=1.0, clock=None) -> recorded.Recorded:
    source = recorded.Recorded(
        config.Recorded(file=str(file), speed=speed),
        index=index,
        node_count=node_count,
        clock=clock or Clock(),
    )
    assert source.available().state == "yes"
    return source


def play(source, clock, step_s=10.0):
    found = []
    while not source.finished:
        found += source.read()
        clock.now_s += step_s
    return found + list(source.read())


def values(observations):
    return [
        (
            o.ts_unix_ms - 1_000_000_000,
            [(g.uuid, g.readings["utilization_percent"]) for g in o.gpus],
        )
        for o in observations
    ]


def test_each_moment_is_one_observation_and_each_row_comes_once(file):
    """Rows of one moment together, at `start + (t - t0) / speed`; bad rows counted and skipped."""
    clock = Clock()
    source = make(file, clock=clock, speed=2.0)
    found = play(source, clock)

    assert values(found)[:2] == [
        (0, [("REC-b", 1.5), ("REC-a", 2.5)]),
        (28_500, [("REC-a", 3.5), ("REC-c", 4.5)]),
    ]
    assert found[2].ts_unix_ms == 1_000_000_000 + 57_000
    assert math.isnan(found[2].gpus[1].readings["utilization_percent"])
    assert not any(o.complete for o in found)
    assert (source.rows, source.skipped) == (6, 2)


def test_the_series_are_dealt_out_to_the_fleet(file):
    """Three series, two nodes: a and c to the first, b to the second; together every row once."""
    clock = Clock()
    nodes = [make(file, index, 2, clock=clock) for index in (0, 1)]
    names = [[gpu.uuid for gpu in node.available().gpus] for node in nodes]
    rows = [play(node, clock, 1000) for node in nodes]

    assert names == [["REC-a", "REC-c"], ["REC-b"]]
    assert sum(len(o.gpus) for found in rows for o in found) == 6


def test_nothing_comes_before_its_time(file):
    """A read gives what is due and no more."""
    clock = Clock()
    source = make(file, clock=clock)
    counts = []
    for _ in range(3):
        counts.append(len(source.read()))
        clock.now_s += 57

    assert counts == [1, 1, 1]
    assert source.finished


def test_unsorted_and_repeated_rows_are_all_replayed(tmp_path):
    """Rows in any order; a series that speaks twice in a moment gives two observations."""
    path = tmp_path / "trace.csv.gz"
    with gzip.open(path, "wt") as out:
        out.write("id,timestamp,value\na,20,3\na,10,1\na,10,2\n")
    clock = Clock()
    found = play(make(path, clock=clock), clock)

    assert [v for _, gpus in values(found) for _, v in gpus] == [1, 2, 3]
    assert len(found) == 3


def test_more_nodes_than_series_leaves_some_with_nothing(file):
    """A node without a series is finished from the start."""
    assert make(file, index=7, node_count=9).finished


@pytest.mark.parametrize(
    "text", ["", "a,b\n1,2\n", "value,timestamp,x,y\n"], ids=["empty", "two", "four"]
)
def test_a_file_of_another_shape_is_no_device(tmp_path, text):
    """The columns are found by their names, or the source says what it found instead."""
    path = tmp_path / "other.csv"
    path.write_text(text)
    source = recorded.Recorded(config.Recorded(file=str(path)), index=0, node_count=1)
    found = source.available()

    assert found.state == "no device"
    assert "columns must be" in found.detail
    assert source.read() == ()


def test_a_missing_or_broken_file_is_no_device(tmp_path):
    """Absent, or called .gz and not gzipped: told, not raised."""
    broken = tmp_path / "x.csv.gz"
    broken.write_text("no gzip")
    for path in (tmp_path / "absent.csv", broken):
        source = recorded.Recorded(config.Recorded(file=str(path)), index=0, node_count=1)

        assert source.available().state == "no device"


def test_the_recorded_trace_is_dealt_out_whole(traces):
    """157,417 rows of 143 series over 100 nodes: each row exactly once."""
    file = traces / "pod_gpu_duty_cycle_anon.csv.gz"
    clock = Clock()
    total = 0
    for index in range(100):
        source = make(file, index, 100, clock=clock)
        clock.now_s += 1e6
        while not source.finished:
            total += sum(len(o.gpus) for o in source.read())
        assert source.skipped == 0

    assert total == 157_417
