"""The fleet's last words."""

from cloud_processor.web import fleet
from support import steering
from wire.aggregate import Aggregate
from wire.codec import encode
from wire.verdict import Decision, DriverVerdict

NOW_MS = 2_000_000


def take(view, verdict, partition=0):
    key = f"{verdict.cluster}/{verdict.node}".encode()
    view.take_verdict(key, encode(verdict), partition)


def decision(node="edge-01", *, outcome="applied", taints=(), ts=1):
    return Decision(
        v=1,
        id=f"{node}-{ts}",
        ts_unix_ms=ts,
        cluster="demo",
        node=node,
        pool="default",
        outcome=outcome,
        reason="r",
        labels={},
        taints=taints,
        withheld=(),
        budget=steering.BUDGET,
        verdict=steering.verdict(node),
    )


def test_rows_are_sorted_and_carry_the_last_word():
    """The newest verdict stands, however they came."""
    view = fleet.Fleet()
    take(view, steering.verdict("edge-02", load="high", revision=3))
    take(view, steering.verdict("edge-02", load="low", revision=2))
    take(view, steering.verdict("edge-01"))

    rows = view.rows(NOW_MS)

    assert [(row["node"], row["load"]) for row in rows] == [("edge-01", "low"), ("edge-02", "high")]
    assert rows[0]["freshness_ms"] == 1_000_000
    assert rows[0]["intake"]["missing"] == 0


def test_the_driver_is_a_word_in_the_row_and_whole_in_the_detail():
    """What `windvane matrix check --node` asks for; null where the node has told of none."""
    told = DriverVerdict(
        compatibility="old",
        reasons=("why",),
        version="550.54.15",
        cuda_version="12.4",
        architectures=("Ada", None),
    )
    view = fleet.Fleet()
    take(view, steering.verdict("edge-01", driver=told))
    take(view, steering.verdict("edge-02"))
    (seen,) = view.find("edge-01", None)

    assert [row["driver"] for row in view.rows(NOW_MS)] == ["old", None]
    assert view.detail(seen, NOW_MS)["verdict"]["driver"] == {
        "compatibility": "old",
        "reasons": ("why",),
        "version": "550.54.15",
        "cuda_version": "12.4",
        "architectures": ("Ada", None),
    }


def test_local_arrivals_are_fresher_than_the_last_verdict():
    """For nodes of this worker the page does not wait for the heartbeat."""
    view = fleet.Fleet(arrival_of={"demo/edge-01": NOW_MS - 40}.get)
    take(view, steering.verdict("edge-01"))

    assert view.rows(NOW_MS)[0]["freshness_ms"] == 40


def test_a_tombstone_takes_back_only_its_own_partition():
    """A node that changed pools: the tombstone in the old partition may come last."""
    view = fleet.Fleet()
    take(view, steering.verdict("edge-01", pool="a", revision=1), partition=1)
    take(view, steering.verdict("edge-01", pool="b", revision=2), partition=2)

    view.take_verdict(b"demo/edge-01", None, 1)
    kept = view.rows(NOW_MS)
    view.take_verdict(b"demo/edge-01", None, 2)

    assert [row["pool"] for row in kept] == ["b"]
    assert view.rows(NOW_MS) == []


def test_decisions_and_aggregates_are_shown_with_their_node():
    """The detail has the whole verdict, decisions newest first, the newest window."""
    view = fleet.Fleet()
    take(view, steering.verdict("edge-01"))
    for ts in range(1, 40):
        view.take_decision(encode(decision(ts=ts, taints=(steering.FAILED,))))
    for start, revision in ((10_000, 4), (10_000, 9), (0, 10)):
        view.take_aggregate(
            encode(
                Aggregate(
                    v=1,
                    cluster="demo",
                    node="edge-01",
                    window_start_unix_ms=start,
                    window_ms=10_000,
                    revision=revision,
                    samples=revision,
                    closed_by="watermark",
                    gpus=(),
                )
            )
        )

    (seen,) = view.find("edge-01", None)
    page = view.detail(seen, NOW_MS)

    assert len(page["decisions"]) == fleet.DECISIONS_KEPT
    assert page["decisions"][0]["ts_unix_ms"] == 39
    assert page["taints"][0]["key"] == "windvane.io/gpu-failed"
    assert (page["aggregate"]["window_start_unix_ms"], page["aggregate"]["revision"]) == (10_000, 9)
    assert page["verdict"]["cause"]["kind"] == "sample"


def test_one_name_in_two_clusters_is_two_nodes():
    """The cluster says which."""
    view = fleet.Fleet()
    take(view, steering.verdict("edge-01", cluster="a"))
    take(view, steering.verdict("edge-01", cluster="b"))

    assert len(view.find("edge-01", None)) == 2
    assert [seen.cluster for seen in view.find("edge-01", "b")] == ["b"]
    assert view.find("nobody", None) == []


def test_what_cannot_be_read_is_counted_and_left():
    """A record of a newer program does not end the view."""
    view = fleet.Fleet()
    view.take_verdict(b"k", b"junk", 0)
    view.take_decision(b'{"v":9}')

    assert view.refused_count == 2
