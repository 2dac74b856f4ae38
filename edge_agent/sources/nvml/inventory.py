"""What does not change about a GPU while the driver is loaded."""

from collections.abc import Mapping
from typing import Any, Final

from edge_agent.core import checks
from edge_agent.sources.nvml import codes
from wire.sample import GpuInventory

ARCHITECTURES: Final[Mapping[int, str]] = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
CLOCKS: Final = {"graphics": 0, "sm": 1, "memory": 2, "video": 3}
CAPABILITY_MAX: Final = 99
SOUND: Final = {
    "bytes": checks.GPU["memory_total_bytes"],
    "mw": checks.GPU["power_limit_mw"],
    "c": checks.GPU["temperature_c"],
    "mhz": checks.GPU["graphics_clock_mhz"],
}
"""What can be true, by unit."""
_small: Final = checks.GPU["pcie_width"]


def look(lib: codes.Library, handle: Any, uuid: str) -> GpuInventory:
    """All that the GPU tells of itself; what it does not tell, or cannot be true, is None."""

    def tried(function: str, *args: Any) -> Any:
        return codes.tried(lib, function, handle, *args)

    def text(function: str) -> str | None:
        return codes.text(tried(function))

    pci = tried("nvmlDeviceGetPciInfo")
    capability = tried("nvmlDeviceGetCudaComputeCapability")
    limits_mw = tried("nvmlDeviceGetPowerManagementLimitConstraints") or (None, None)
    numbers = {
        "memory_total_bytes": getattr(tried("nvmlDeviceGetMemoryInfo"), "total", None),
        "power_limit_default_mw": tried("nvmlDeviceGetPowerManagementDefaultLimit"),
        "power_limit_min_mw": limits_mw[0],
        "power_limit_max_mw": limits_mw[1],
        "temperature_shutdown_c": tried("nvmlDeviceGetTemperatureThreshold", 0),
        **{
            f"{name}_clock_max_mhz": tried("nvmlDeviceGetMaxClockInfo", kind)
            for name, kind in CLOCKS.items()
        },
    }
    small = {
        "numa_node": tried("nvmlDeviceGetNumaNodeId"),
        "pcie_generation_max": tried("nvmlDeviceGetMaxPcieLinkGeneration"),
        "pcie_width_max": tried("nvmlDeviceGetMaxPcieLinkWidth"),
        "nvlink_count": _links(lib, handle),
    }
    return GpuInventory(
        uuid=uuid,
        vendor="nvidia",
        name=text("nvmlDeviceGetName"),
        serial=text("nvmlDeviceGetSerial"),
        pci_bus_id=codes.text(codes.told(pci, "busId")),
        architecture=ARCHITECTURES.get(tried("nvmlDeviceGetArchitecture")),
        compute_capability=_capability(capability),
        vbios_version=text("nvmlDeviceGetVbiosVersion"),
        board_part_number=text("nvmlDeviceGetBoardPartNumber"),
        **{name: SOUND[name.rpartition("_")[2]](value) for name, value in numbers.items()},
        **{name: _small(value) for name, value in small.items()},
    )


def _capability(found: Any) -> str | None:
    is_sound = found is not None and all(0 <= part <= CAPABILITY_MAX for part in found)
    return "{}.{}".format(*found) if is_sound else None


def _links(lib: codes.Library, handle: Any) -> int | None:
    answer = codes.tried(lib, "nvmlDeviceGetFieldValues", handle, [91])
    entry = answer[0] if answer else None
    return int(entry.value.uiVal) if entry is not None and entry.nvmlReturn == 0 else None
