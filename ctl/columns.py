"""Rows of words as lines with straight columns."""

from collections.abc import Sequence

GAP = "  "


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Each column as wide as its widest word; all rows have as many words."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        GAP.join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
