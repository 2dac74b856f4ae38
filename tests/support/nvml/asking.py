"""Short ways to ask the real pynvml in tests of the stand-in."""

from collections.abc import Callable
from typing import Any

import pynvml


def handles() -> list[Any]:
    """Initialised, all GPUs by index."""
    pynvml.nvmlInit()
    return [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]


def code(call: Callable[..., Any], *args: Any) -> int:
    """The result code of a call, 0 where it gave a value."""
    try:
        call(*args)
    except pynvml.NVMLError as error:
        return error.value
    return 0


def address(handle: Any) -> int | None:
    """What makes two handles of one device equal."""
    return pynvml.cast(handle, pynvml.c_void_p).value
