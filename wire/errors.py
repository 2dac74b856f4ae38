"""What can be wrong with something another program said.

Every refusal carries a short, fixed `reason` (it becomes a metric label and a
dead-letter header, so it has few values) and a `detail` for a person.
"""

from typing import Literal

Reason = Literal[
    "malformed",
    "unknown-version",
    "foreign-topic",
    "foreign-node",
    "invalid-name",
    "oversize",
    "no-value",
]


class WireError(ValueError):
    """Something received, or about to be sent, breaks the contract."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail
