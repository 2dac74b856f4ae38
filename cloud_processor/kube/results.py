"""What became of a wish, told by a writer to the by-pool step."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from cloud_processor.core import plan
from wire.verdict import Outcome


class Result(Struct, frozen=True, kw_only=True):
    """One answer to one wish. `answered_unix_ms` is when the API server answered, if it did."""

    wish: plan.Wish
    outcome: Outcome
    reason: str
    patch: Mapping[str, Any] | None = None
    answered_unix_ms: int | None = None


Answer = Callable[[Result], None]
