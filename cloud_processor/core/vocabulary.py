"""Words of the decision: orders, buckets, label values."""

import re
from collections.abc import Iterable
from typing import Final

from wire.verdict import Health

LOADS: Final = ("idle", "low", "medium", "high", "saturated")
HEALTHS: Final[tuple[Health, ...]] = ("ok", "unknown", "degraded", "failed")
LABEL_VALUE_MAX: Final = 63
GIB: Final = 2**30

_FOREIGN: Final = re.compile(r"[^A-Za-z0-9._-]+")


def label_value(text: str) -> str:
    """`text` as a valid Kubernetes label or taint value, stable, possibly empty.

    Runs of characters that may not stand in one become a dash; ends must be alphanumeric.
    """
    return _FOREIGN.sub("-", text)[:LABEL_VALUE_MAX].strip("._-")


def worst(healths: Iterable[Health]) -> Health:
    """The worst of some GPUs; `unknown` of none."""
    return max(healths, key=HEALTHS.index, default="unknown")


def memory_bucket(free_bytes: int | None) -> str:
    """Free memory as a label with few values: the power of two GiB that it still holds."""
    if free_bytes is None:
        return "unknown"
    gib = free_bytes // GIB
    return f"{1 << (gib.bit_length() - 1)}Gi" if gib else "0"
