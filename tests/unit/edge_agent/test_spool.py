"""The spool: what is on disk stays until it is confirmed, and the law holds."""

import sqlite3
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent import errors, spool
from wire import codec, sample

TS = 1_790_000_000_000


def draft(text: str = "") -> sample.Sample:
    return sample.Sample(
        seq=1, ts_unix_ms=TS, interval_ms=1000, gpus=(sample.Gpu(uuid=text or "GPU-1"),)
    )


def event() -> sample.Event:
    return sample.Event(seq=1, ts_unix_ms=TS, event="xid", xid=79)


def open_spool(folder, bytes_max: int = 2**30, node: str = "edge-01") -> spool.Spool:
    return spool.Spool(folder, cluster="demo", node=node, bytes_max=bytes_max)


def seqs(store: spool.Spool) -> list[int]:
    found, start = [], 1
    while rows := store.read(start, 2**53, 1_000_000):
        found += [row.seq for row in rows]
        start = rows[-1].seq + 1
    return found


def test_seqs_are_one_counter_without_holes(tmp_path):
    """Samples and events share one seq; the body holds the seq of its row."""
    store = open_spool(tmp_path)
    rows = store.commit([draft(), event()]).rows + store.commit([draft()]).rows

    assert [(row.seq, row.lane) for row in rows] == [(1, "live"), (2, "events"), (3, "live")]
    assert [codec.decode_record(row.body).seq for row in rows] == [1, 2, 3]
    store.close()


def test_epoch_and_seq_survive_a_restart(tmp_path):
    """Closed and opened again: same epoch, the seq goes on, the rows are there."""
    store = open_spool(tmp_path)
    epoch = store.epoch
    store.commit([draft()] * 3)
    store.confirm([(2, 2)])
    store.close()
    store = open_spool(tmp_path)

    assert len(epoch) == 16
    assert store.epoch == epoch
    assert seqs(store) == [1, 3]
    assert store.commit([draft()]).rows[0].seq == 4
    assert store.counts().delivered == 1
    assert store.law_holds()
    store.close()


def test_rows_go_only_when_confirmed_and_with_the_next_commit(tmp_path):
    """Reading does not delete; a confirmation does, with the next commit, and it is counted."""
    store = open_spool(tmp_path)
    store.commit([draft()] * 5)
    assert seqs(store) == [1, 2, 3, 4, 5]
    store.confirm([(1, 2), (4, 4), (90, 99)])
    committed = store.commit([draft()])

    assert committed.delivered == 3
    assert seqs(store) == [3, 5, 6]
    store.close()


def test_a_sweep_does_not_read_what_is_confirmed(tmp_path):
    """Confirmed rows are gone from the next read, even when no tick came between."""
    store = open_spool(tmp_path)
    store.commit([draft()] * 3)
    store.confirm([(1, 2)])

    assert [row.seq for row in store.read(1, 99, 10_000)] == [3]
    assert store.counts().delivered == 2
    store.close()


def test_reading_is_bounded_by_bytes(tmp_path):
    """At least one row, else as many as fit: a backlog larger than memory is no problem (BR-51)."""
    store = open_spool(tmp_path)
    size = len(store.commit([draft()] * 10).rows[0].body)

    assert len(store.read(1, 99, 3 * size + 5)) == 3
    assert len(store.read(1, 99, 1)) == 1
    assert len(store.read(4, 5, 10**6)) == 2
    store.close()


def test_two_processes_cannot_own_one_spool(tmp_path):
    """BR-54: the second is told who holds it; when the first is gone it may open."""
    code = (
        "import sys, pathlib\n"
        "from edge_agent import spool\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "s = spool.Spool(path, cluster='demo', node='edge-01', bytes_max=2**30)\n"
        "print('mine', flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout.readline() == b"mine\n"
    with pytest.raises(errors.SpoolInUseError, match=f"process {holder.pid}"):
        open_spool(tmp_path)
    holder.kill()
    holder.wait()
    holder.stdin.close()
    holder.stdout.close()

    open_spool(tmp_path).close()


def test_a_spool_of_another_node_is_refused_untouched(tmp_path):
    """A folder that holds records of another node is not taken over."""
    store = open_spool(tmp_path)
    store.commit([draft()])
    store.close()
    with pytest.raises(errors.SpoolError, match="demo/edge-01, not demo/edge-02"):
        open_spool(tmp_path, node="edge-02")
    store = open_spool(tmp_path)

    assert seqs(store) == [1]
    store.close()


def test_a_failed_commit_leaves_everything_as_it_was(tmp_path):
    """Neither rows nor counters nor confirmations are lost when the disk says no."""
    store = open_spool(tmp_path)
    store.commit([draft()] * 2)
    store.confirm([(1, 1)])
    store._db.execute("PRAGMA query_only = ON")
    with pytest.raises(errors.SpoolError, match="cannot commit"):
        store.commit([draft()])
    store._db.execute("PRAGMA query_only = OFF")
    committed = store.commit([draft()])

    assert [row.seq for row in committed.rows] == [3]
    assert committed.delivered == 1
    assert store.law_holds()
    store.close()


def test_a_record_that_is_given_up_becomes_a_loss(tmp_path):
    """Drop: the row is gone, a loss record names it, the law holds; twice is once."""
    store = open_spool(tmp_path)
    store.commit([draft()] * 4)
    committed = store.drop([2, 3], "oversize", "why")
    again = store.drop([2, 3], "oversize", "why")
    loss = codec.decode_record(committed.rows[0].body)

    assert (loss.seq, loss.seq_from, loss.seq_to, loss.cause) == (5, 2, 3, "oversize")
    assert (loss.time_from_unix_ms, loss.lost_epoch) == (TS, store.epoch)
    assert again.rows == ()
    assert store.counts().dropped == 2
    assert store.law_holds()
    store.close()


def test_past_the_limit_the_oldest_samples_go_first(tmp_path):
    """Events stay, samples go oldest first, few loss records, and the size stays below (BR-53)."""
    limit = 1_048_576
    store = open_spool(tmp_path, bytes_max=limit)
    store.commit([event()])
    for _ in range(60):
        store.commit([draft("x" * 96)] * 200)
        assert store.counts().size_bytes <= limit * 1.05
    counts = store.counts()
    left = store.read(1, 2**53, 10**9)
    samples = [row.seq for row in left if row.lane == "live"]
    events = [codec.decode_record(row.body) for row in left if row.lane == "events"]
    losses = [record for record in events if isinstance(record, sample.Loss)]

    assert [record.seq for record in events if record not in losses] == [1]
    assert 0 < len(losses) < counts.dropped / 50
    assert max(loss.seq_to for loss in losses) < min(samples)
    assert counts.dropped == sum(loss.seq_to - loss.seq_from + 1 for loss in losses)
    assert store.law_holds()
    store.close()
    store = open_spool(tmp_path, bytes_max=limit)

    assert store.counts().size_bytes <= limit * 1.05
    store.close()


def test_the_newest_events_are_found_after_a_restart(tmp_path):
    """Undelivered events keep being news: the newest, in order."""
    store = open_spool(tmp_path)
    store.commit([event(), draft(), event(), event()])

    assert [row.seq for row in store.latest_events(2)] == [3, 4]
    store.close()


def test_what_is_no_database_is_an_error_in_words(tmp_path):
    """A damaged file is a `SpoolError`, and the lock is let go."""
    (tmp_path / spool.FILE_NAME).write_bytes(b"no database at all" * 1000)
    for _ in range(2):
        with pytest.raises(errors.SpoolError, match="cannot open"):
            open_spool(tmp_path)


def test_every_commit_is_synced(tmp_path):
    """WAL with `synchronous=FULL`: a power cut loses no commit."""
    store = open_spool(tmp_path)

    assert store._db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    assert store._db.execute("PRAGMA synchronous").fetchone()[0] == 2
    store.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(0, 3)),
        st.tuples(st.just("confirm"), st.integers(1, 20), st.integers(0, 5)),
        st.tuples(st.just("drop"), st.integers(1, 20)),
        st.tuples(st.just("reopen")),
    ),
    max_size=25,
)


@settings(max_examples=40)
@given(STEPS)
def test_the_law_holds_whatever_happens(tmp_path_factory, steps):
    """sampled = delivered + spooled + dropped, and the rows are those of a plain model."""
    folder = tmp_path_factory.mktemp("spool")
    store, model, written, pending = open_spool(folder), set(), 0, set()
    for name, *arguments in steps:
        if name == "commit":
            store.commit([draft()] * arguments[0])
            model |= set(range(written + 1, written + 1 + arguments[0]))
            written += arguments[0]
            model -= pending
        elif name == "confirm":
            first, length = arguments
            store.confirm([(first, first + length)])
            pending = set(range(first, first + length + 1)) & set(range(1, written + 1))
            model -= pending
            store.commit([])
        elif name == "drop":
            losses = len(store.drop(arguments, "size", "").rows)
            model -= set(arguments)
            model |= set(range(written + 1, written + 1 + losses))
            written += losses
        else:
            store.close()
            store = open_spool(folder)
        pending = set()

        assert seqs(store) == sorted(model)
        assert store.law_holds()
    store.close()


def test_the_file_is_plain_sqlite(tmp_path):
    """Anyone can look into a spool with the sqlite3 tool."""
    store = open_spool(tmp_path)
    store.commit([draft()])
    store.close()
    db = sqlite3.connect(tmp_path / spool.FILE_NAME)

    assert db.execute("SELECT seq, lane, ts_unix_ms FROM records").fetchall() == [(1, "live", TS)]
    db.close()
