"""The brake: how many nodes of a pool may carry a taint, and how fast new ones may come.

Pure arithmetic on a token bucket. Taking a taint away needs no leave and gives no token
back. After a burst the bucket refills one token at a time, so the brake opens again by
itself, for one node first.
"""

import math
from collections.abc import Collection, Iterable

from cloud_processor.core.model import Bucket
from cloud_processor.core.policy import Limits


def cap(pool_nodes: int, limits: Limits) -> int:
    """How many nodes of the pool may carry such a taint: the share, but at least one node
    where the share is not zero.
    """
    if pool_nodes == 0 or limits.share_max == 0:
        return 0
    return max(1, math.floor(limits.share_max * pool_nodes))


def refill(bucket: Bucket, *, pool_nodes: int, limits: Limits, now_ms: int) -> Bucket:
    """The bucket as it stands now; time that runs backwards adds nothing."""
    capacity = float(max(1, math.ceil(limits.rate_share * pool_nodes)))
    if bucket.tokens is None:
        return Bucket(capacity, now_ms)
    gained = max(0, now_ms - bucket.filled_ms) / limits.refill_ms
    return Bucket(min(capacity, bucket.tokens + gained), now_ms)


def allow(
    candidates: Iterable[str],
    *,
    tainted: Collection[str],
    pool_nodes: int,
    bucket: Bucket,
    limits: Limits,
) -> tuple[frozenset[str], Bucket]:
    """Which candidates may be tainted, and the bucket after it. `bucket` is refilled.

    Candidates come most urgent first; those that carry such a taint already cost nothing.
    """
    tokens = bucket.tokens or 0.0
    carrying = set(tainted)
    room = cap(pool_nodes, limits) - len(carrying)
    allowed = set()
    for name in candidates:
        if name in carrying:
            allowed.add(name)
        elif room > 0 and tokens >= 1:
            allowed.add(name)
            room -= 1
            tokens -= 1
    return frozenset(allowed), Bucket(tokens, bucket.filled_ms)
