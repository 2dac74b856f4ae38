"""How an answer of NVML becomes readings: the functions behind the table's lines.

Each takes the binding and a handle and makes one call, or takes the values of fields, and
gives as many readings as its line has names; None for one that is not there.
"""

import ctypes
from collections.abc import Mapping
from typing import Any, Final

from edge_agent.core import reading
from edge_agent.sources.nvml.codes import Library

LINKS_MAX: Final = 36
THROTTLE_REASONS: Final[Mapping[int, str]] = {
    0x1: "gpu-idle",
    0x2: "applications-clocks-setting",
    0x4: "sw-power-cap",
    0x8: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal-slowdown",
    0x40: "hw-thermal-slowdown",
    0x80: "hw-power-brake-slowdown",
    0x100: "display-clock-setting",
}
RECOVERY_ACTIONS: Final[Mapping[int, str]] = {
    0: "none",
    1: "gpu-reset",
    2: "node-reboot",
    3: "drain-p2p",
    4: "drain-and-reset",
    5: "drain-and-reset",  # recover the IMEX domain: nothing can run on the GPU until then
    6: "gpu-reset",
    7: "node-reboot",
}
FABRIC_STATES: Final = ("not-supported", "not-started", "in-progress", "completed")
THROTTLED: Final[Mapping[int, str]] = {
    74: "sw-power-cap",
    76: "sync-boost",
    269: "sw-thermal-slowdown",
    270: "hw-thermal-slowdown",
    271: "hw-power-brake-slowdown",
}


def throttled(*ns: int | None) -> tuple[dict[str, int], ...]:
    named = zip(THROTTLED.values(), ns, strict=True)
    return ({name: value // 1_000_000 for name, value in named if value is not None},)


def violations(lib: Library, handle: Any) -> tuple[Any, ...]:
    kinds = {"sw-power-cap": 0, "sw-thermal-slowdown": 1, "sync-boost": 2}
    status = lib.nvmlDeviceGetViolationStatus
    return ({name: status(handle, n).violationTime // 1_000_000 for name, n in kinds.items()},)


def reasons(bits: int) -> tuple[tuple[str, ...]]:
    return (tuple(name for bit, name in THROTTLE_REASONS.items() if bits & bit),)


def memory_v2(_version: int, total: int, reserved: int, free: int, used: int) -> tuple[Any, ...]:
    return total, used, free, reserved, "reserved-apart"


def memory_v1(lib: Library, handle: Any) -> tuple[Any, ...]:
    found = lib.nvmlDeviceGetMemoryInfo(handle)
    return found.total, found.used, found.free, reading.UNSUPPORTED, "reserved-in-used"


def no_memory(_lib: Library, _handle: Any) -> tuple[Any, ...]:
    return (*(reading.UNSUPPORTED,) * 4, "unified")


def bar1(lib: Library, handle: Any) -> tuple[Any, ...]:
    found = lib.nvmlDeviceGetBAR1MemoryInfo(handle)
    return found.bar1Total, found.bar1Used


def confidential(lib: Library, _handle: Any) -> tuple[Any, ...]:
    state = lib.nvmlSystemGetConfComputeState()
    return ("devtools" if state.devToolsMode else ("off", "on")[bool(state.ccFeature)],)


def fabric(lib: Library, handle: Any) -> tuple[Any, ...]:
    info = lib.c_nvmlGpuFabricInfoV_t()
    lib.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    state = int(info.state)
    known = FABRIC_STATES[state] if state < len(FABRIC_STATES) else f"unknown ({state})"
    return (known if state else reading.UNSUPPORTED,)


def links(lib: Library, handle: Any) -> tuple[Any, ...]:
    """How many links are up, and which are not; a GPU without links raises at the first."""
    states: list[int] = []
    while len(states) < LINKS_MAX:
        try:
            states.append(lib.nvmlDeviceGetNvLinkState(handle, len(states)))
        except lib.NVMLError:
            if not states:
                raise
            break
    return sum(states), tuple(link for link, state in enumerate(states) if not state)


def retired(lib: Library, handle: Any, cause: int) -> tuple[Any, ...]:
    return (len(lib.nvmlDeviceGetRetiredPages(handle, cause)),)


def remapped(lib: Library, handle: Any) -> tuple[Any, ...]:
    corrected, uncorrected, pending, failed = lib.nvmlDeviceGetRemappedRows(handle)
    return corrected, uncorrected, bool(pending), bool(failed)


def flags(*values: int | None) -> tuple[Any, ...]:
    return tuple(None if value is None else bool(value) for value in values)


def remapped_fields(*values: int | None) -> tuple[Any, ...]:
    return (*values[:2], *flags(*values[2:]))


def total(*values: int | None) -> tuple[Any, ...]:
    return (sum(value for value in values if value is not None),)


def kib(value: int | None) -> tuple[Any, ...]:
    return (None if value is None else value * 1024,)


def state(state: int) -> tuple[Any, ...]:
    return (reading.Failed("the driver does not know it") if state == 32 else state,)


def ecc(lib: Library, handle: Any, error: int, counter: int) -> tuple[Any, ...]:
    return (lib.nvmlDeviceGetTotalEccErrors(handle, error, counter),)


def recovery(action: int | None) -> tuple[Any, ...]:
    """The recovery action by its name; a number that is not known stays one, and is refused."""
    return (None if action is None else RECOVERY_ACTIONS.get(action, action),)
