"""The token bucket with a brake."""

from cloud_processor.kube import limiter


def test_burst_then_rate():
    """`burst` go at once, then one each 1/per_second."""
    bucket = limiter.Limiter(per_second=10, burst=3, now_s=0.0)

    waits = [bucket.take(0.0) for _ in range(4)]

    assert waits[:3] == [0.0, 0.0, 0.0]
    assert abs(waits[3] - 0.1) < 1e-9
    assert bucket.take(0.1001) == 0.0


def test_hold_stops_everyone_and_is_never_shortened():
    """BR-104: after Retry-After 7 nothing goes for 7 s."""
    bucket = limiter.Limiter(per_second=10, burst=3, now_s=0.0)

    bucket.hold(0.0, 7.0)
    bucket.hold(0.0, 1.0)

    assert bucket.take(6.9) > 0
    assert bucket.take(7.0) == 0.0
