"""Health is progress, not life."""

from cloud_processor.web import health

PLACE = ("windvane.live.v1", 3)


def made():
    one = health.Health(stall_s=30, now_s=0.0)
    one.ready()
    return one


def test_lag_without_progress_is_a_problem():
    """BR-91: records wait and nothing is committed: the reason names the place and the lag."""
    one = made()
    for now_s in range(0, 40, 5):
        one.observe({PLACE: (100, 150)}, now_s)

    assert one.problem(20) is None
    assert "windvane.live.v1/3: 50 records wait" in one.problem(35)


def test_lag_with_progress_is_none():
    """A worker that is behind and works is well."""
    one = made()
    for now_s in range(0, 300, 5):
        one.observe({PLACE: (now_s, 10_000)}, now_s)

    assert one.problem(300) is None
    assert one.lag_by_topic() == {"windvane.live.v1": 10_000 - 295}


def test_nothing_to_do_is_well():
    """An idle topic commits nothing and is no problem."""
    one = made()
    one.observe({PLACE: (100, 100)}, 0.0)
    one.observe({PLACE: (100, 100)}, 1000.0)

    assert one.problem(1000) is None


def test_idle_for_long_and_then_a_record_is_not_yet_a_stall():
    """The clock of a stall starts when something begins to wait."""
    one = made()
    one.observe({PLACE: (100, 100)}, 1000.0)
    one.observe({PLACE: (100, 101)}, 1005.0)

    assert one.problem(1005) is None


def test_recovery_that_does_not_end_shows():
    """BR-86: until the assignment is complete it is not well, and says for how long."""
    one = made()
    one.recovering(10.0)

    assert "recovered since 90 s" in one.problem(100.0)
    one.ready()
    assert one.problem(100.0) is None


def test_a_partition_that_left_is_not_our_stall():
    """After a rebalance the old partitions are somebody else's lag."""
    one = made()
    one.observe({PLACE: (100, 150)}, 0.0)
    one.observe({}, 5.0)

    assert one.problem(100.0) is None
