"""The spool: every record on disk from the tick it was taken until Kafka has it.

One SQLite file per node, WAL, `synchronous=FULL`. One commit per tick holds the tick's
records, the deletions that were confirmed since, and the counters; so after a kill or a
power cut the file says one consistent thing, and the law

    sampled = delivered + spooled + dropped

can be counted. The seq of a record is given inside that commit: one counter per epoch,
no holes. The epoch is made with the file and lives as long as it does.

Deletions wait in memory for the next commit. If they are lost with the process, the
rows are sent again, which is harmless.

All methods block and may be called from any thread; a lock makes them one at a time.
"""

import collections
import contextlib
import fcntl
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import msgspec

from edge_agent.core.parcels import Committed, Counts, Lane, Range, Row
from edge_agent.errors import SpoolError, SpoolInUseError
from wire import codec
from wire.sample import Counted, Loss, LossCause, Sample
from wire.topics import to_ranges

FILE_NAME: Final = "spool.db"
LOCK_NAME: Final = "lock"
FREE_SHARE: Final = 0.05  # what is freed at once past the limit, so that losses come in few records

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS records(
    seq INTEGER PRIMARY KEY, lane TEXT NOT NULL, ts_unix_ms INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS meta(
    one INTEGER PRIMARY KEY CHECK (one = 1), cluster TEXT NOT NULL, node TEXT NOT NULL,
    epoch TEXT NOT NULL, next_seq INTEGER NOT NULL, sampled INTEGER NOT NULL,
    delivered INTEGER NOT NULL, dropped INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS memory(one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
"""


class Spool:
    """One node's records on disk; open it, and nobody else can."""

    def __init__(self, folder: Path, *, cluster: str, node: str, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._mutex = threading.Lock()
        self._taken: list[Range] = []
        self._confirmed: collections.deque[Range] = collections.deque()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _own(folder / LOCK_NAME)
        except OSError as error:
            raise SpoolError(f"spool {folder}: {error.strerror or error}") from error
        try:
            self._open(folder / FILE_NAME, cluster, node)
        except BaseException:
            self._lock.close()
            raise

    def _open(self, file: Path, cluster: str, node: str) -> None:
        with _sqlite_errors(f"cannot open {file}"):
            self._db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        try:
            self._load(file, cluster, node)
        except BaseException:
            self._db.close()
            raise

    def _load(self, file: Path, cluster: str, node: str) -> None:
        with _sqlite_errors(f"cannot open {file}"):
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA cache_size=-512")
            self._db.executescript(SCHEMA)
            self._db.execute(
                "INSERT OR IGNORE INTO meta VALUES (1, ?, ?, ?, 1, 0, 0, 0)",
                (cluster, node, secrets.token_hex(8)),
            )
            owner = self._db.execute(
                "SELECT cluster, node, epoch, next_seq, sampled, delivered, dropped FROM meta"
            ).fetchone()
            spooled = self._db.execute("SELECT COUNT(*) FROM records").fetchone()[0]
        if owner[:2] != (cluster, node):
            raise SpoolError(
                f"spool {file} holds records of {owner[0]}/{owner[1]}, not {cluster}/{node}: "
                "let them be delivered, or move the folder away"
            )
        self.epoch: str = owner[2]
        self._next_seq, self._sampled, self._delivered, self._dropped = owner[3:]
        self._spooled: int = spooled

    @property
    def highest_seq(self) -> int:
        """The last seq that was given."""
        return int(self._next_seq) - 1

    def commit(self, drafts: Sequence[Counted], memory: bytes | None = None) -> Committed:
        """Write the records (their seq is given here) and delete what was confirmed.

        `memory` is what led to these records: it is kept in the same transaction, so that
        after a restart nothing is said twice, and nothing is thought said that was not.
        """
        with self._mutex, _sqlite_errors("cannot commit"):
            if not drafts and not self._confirmed and memory is None:
                return Committed(counts=self._counts())
            with self._transaction():
                delivered = self._delete_confirmed()
                rows = [self._insert(draft) for draft in drafts]
                losses, more = self._make_room()
                self._save()
                if memory is not None:
                    self._db.execute("INSERT OR REPLACE INTO memory VALUES (1, ?)", (memory,))
            return Committed(
                counts=self._counts(), rows=(*rows, *more), delivered=delivered, losses=losses
            )

    def memory(self) -> bytes:
        """What was given to remember last; empty at first."""
        with self._mutex, _sqlite_errors("cannot read"):
            row = self._db.execute("SELECT body FROM memory").fetchone()
        return bytes(row[0]) if row else b""

    def confirm(self, ranges: Iterable[Range]) -> None:
        """Kafka has these rows: delete them with the next commit. Alone of all, never blocks."""
        self._confirmed.extend(ranges)

    def read(self, from_seq: int, to_seq: int, bytes_max: int) -> tuple[Row, ...]:
        """Rows in order of seq: at least one if there is one, else as many as fit."""
        with self._mutex, _sqlite_errors("cannot read"):
            if self._confirmed:
                with self._transaction():
                    self._delete_confirmed()
                    self._save()
            rows: list[Row] = []
            size_bytes = 0
            found = self._db.execute(
                "SELECT seq, lane, body, ts_unix_ms FROM records"
                " WHERE seq BETWEEN ? AND ? ORDER BY seq",
                (from_seq, to_seq),
            )
            for row in found:
                size_bytes += len(row[2])
                if rows and size_bytes > bytes_max:
                    break
                rows.append(Row(*row))
            found.close()
            return tuple(rows)

    def latest_events(self, count_max: int) -> tuple[Row, ...]:
        """The newest undelivered events, oldest first; `at_ms` is their wall clock time."""
        with self._mutex, _sqlite_errors("cannot read"):
            found = self._db.execute(
                "SELECT seq, lane, body, ts_unix_ms FROM records"
                " WHERE lane = 'events' ORDER BY seq DESC LIMIT ?",
                (count_max,),
            ).fetchall()
        return tuple(Row(*row) for row in reversed(found))

    def drop(self, seqs: Iterable[int], cause: LossCause, detail: str) -> Committed:
        """Give up these rows and write down that they are lost."""
        with self._mutex, _sqlite_errors("cannot drop"):
            with self._transaction():
                losses, rows = self._give_up(sorted(set(seqs)), cause, detail)
                self._save()
            return Committed(counts=self._counts(), rows=rows, losses=losses)

    def counts(self) -> Counts:
        """The counters as of the last commit."""
        with self._mutex, _sqlite_errors("cannot read"):
            return self._counts()

    def _counts(self) -> Counts:
        return Counts(
            sampled=self._sampled,
            delivered=self._delivered,
            spooled=self._spooled,
            dropped=self._dropped,
            size_bytes=self._size_bytes(),
        )

    def law_holds(self) -> bool:
        """Count the rows and compare: sampled = delivered + spooled + dropped."""
        with self._mutex, _sqlite_errors("cannot count"):
            spooled = self._db.execute("SELECT COUNT(*) FROM records").fetchone()[0]
            accounted = self._delivered + spooled + self._dropped
            return bool(self._sampled == accounted == self._next_seq - 1)

    def close(self) -> None:
        """Delete what was confirmed, close the file and let go of the lock."""
        with self._mutex:
            try:
                with _sqlite_errors("cannot close"), self._transaction():
                    self._delete_confirmed()
                    self._save()
            finally:
                self._db.close()
                self._lock.close()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing, the counters in memory included."""
        before = (self._next_seq, self._sampled, self._delivered, self._dropped, self._spooled)
        self._taken = []
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            self._next_seq, self._sampled, self._delivered, self._dropped, self._spooled = before
            self._confirmed.extendleft(self._taken)
            raise

    def _insert(self, draft: Counted) -> Row:
        record = msgspec.structs.replace(draft, seq=self._next_seq)
        body = codec.encode(record)
        lane: Lane = "live" if isinstance(record, Sample) else "events"
        self._db.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?)",
            (record.seq, lane, record.ts_unix_ms, body),
        )
        self._next_seq += 1
        self._sampled += 1
        self._spooled += 1
        return Row(record.seq, lane, body, record.ts_unix_ms)

    def _delete_confirmed(self) -> int:
        deleted = 0
        while self._confirmed:
            taken = self._confirmed.popleft()
            self._taken.append(taken)
            deleted += self._db.execute(
                "DELETE FROM records WHERE seq BETWEEN ? AND ?", taken
            ).rowcount
        self._delivered += deleted
        self._spooled -= deleted
        return deleted

    def _save(self) -> None:
        self._db.execute(
            "UPDATE meta SET next_seq = ?, sampled = ?, delivered = ?, dropped = ?",
            (self._next_seq, self._sampled, self._delivered, self._dropped),
        )

    def _size_bytes(self) -> int:
        """Pages in use: what the file would be without its free pages."""
        pages, free, size = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return int((pages - free) * size)

    def _make_room(self) -> tuple[tuple[Loss, ...], tuple[Row, ...]]:
        """Past the limit: the oldest samples first, events only when no sample is left."""
        if self._size_bytes() <= self._bytes_max:
            return (), ()
        seqs: list[int] = []
        goal_bytes = int(self._bytes_max * (1 - FREE_SHARE))
        excess_bytes = self._size_bytes() - goal_bytes
        for lane in ("live", "events"):
            found = self._db.execute(
                "SELECT seq, LENGTH(body) FROM records WHERE lane = ? ORDER BY seq", (lane,)
            )
            for seq, length in found:
                if excess_bytes <= 0:
                    break
                seqs.append(seq)
                excess_bytes -= length
            found.close()
        return self._give_up(sorted(seqs), "size", f"spool limit {self._bytes_max} bytes")

    def _give_up(
        self, seqs: Sequence[int], cause: LossCause, detail: str
    ) -> tuple[tuple[Loss, ...], tuple[Row, ...]]:
        losses: list[Loss] = []
        rows: list[Row] = []
        for first, last in to_ranges(seqs):
            times = self._db.execute(
                "SELECT MIN(ts_unix_ms), MAX(ts_unix_ms) FROM records WHERE seq BETWEEN ? AND ?",
                (first, last),
            ).fetchone()
            deleted = self._db.execute(
                "DELETE FROM records WHERE seq BETWEEN ? AND ?", (first, last)
            ).rowcount
            if deleted == 0:
                continue
            self._dropped += deleted
            self._spooled -= deleted
            loss = Loss(
                seq=1,
                ts_unix_ms=int(time.time() * 1000),
                lost_epoch=self.epoch,
                seq_from=first,
                seq_to=last,
                time_from_unix_ms=times[0],
                time_to_unix_ms=times[1],
                cause=cause,
                detail=detail,
            )
            losses.append(loss)
            rows.append(self._insert(loss))
        return tuple(losses), tuple(rows)


def _own(file: Path) -> IO[str]:
    """The lock file, locked and with our pid in it; the kernel lets go when we die."""
    lock = file.open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise SpoolInUseError(
            f"spool {file.parent} is in use by process {holder}: one agent per spool"
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


@contextlib.contextmanager
def _sqlite_errors(what: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise SpoolError(f"spool: {what}: {error}") from error
