"""One small file of sysfs or procfs, as a reading.

The kernel says "this device has no such thing" in several ways: the file is not there, it
is empty, or it is there and answers ENODEV, EOPNOTSUPP or EINVAL. All of these are
`UNSUPPORTED`. Any other error, and text that is not what the file should hold, is
`Failed`: the value exists and could not be had this time.
"""

import errno
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from edge_agent.core import reading

READ_BYTES_MAX: Final = 16_384
NOT_THERE: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP, errno.EINVAL}
)
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}")
_SHOWN_MAX: Final = 40

Text = str | reading.Unsupported | reading.Failed


def text(file: Path) -> Text:
    """What stands in a file, without the blanks around it."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.read(descriptor, READ_BYTES_MAX)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in NOT_THERE:
            return reading.UNSUPPORTED
        return reading.Failed(f"{file.name}: {error.strerror or error}")
    return found.decode(errors="replace").strip().strip("\0") or reading.UNSUPPORTED


def plain(file: Path) -> str:
    """The same where it does not matter why there is nothing: empty then."""
    found = text(file)
    return found if isinstance(found, str) else ""


def number(file: Path) -> Any:
    """The whole number a file holds."""
    found = text(file)
    if not isinstance(found, str):
        return found
    return int(found) if _WHOLE.fullmatch(found) else unclear(file, found)


def unclear(file: Path, found: str) -> reading.Failed:
    """A file that holds something else than it should."""
    return reading.Failed(f"{file.name}: cannot be read as a value: {found[:_SHOWN_MAX]!r}")


def first(files: Iterable[Path]) -> Any:
    """The number in the first of these files that the device has."""
    for file in files:
        found = number(file)
        if not isinstance(found, reading.Unsupported):
            return found
    return reading.UNSUPPORTED


def scaled(value: Any, scale: Callable[[int], Any]) -> Any:
    """A number in another unit; what is no number stays what it is."""
    return scale(value) if isinstance(value, int) else value


def or_none(value: Any) -> Any:
    """The value where only a value helps, as in the inventory."""
    return None if isinstance(value, reading.Unsupported | reading.Failed) else value


def same(value: int) -> int:
    """The unit is already ours."""
    return value


def thousandth(value: int) -> int:
    """From micro to milli."""
    return value // 1_000


def celsius(millidegrees: int) -> float:
    """From millidegree."""
    return millidegrees / 1_000


def mhz(hertz: int) -> int:
    """From hertz."""
    return round(hertz / 1_000_000)
