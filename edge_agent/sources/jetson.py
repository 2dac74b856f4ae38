"""A Jetson's GPU, through what its sysfs tells without NVML.

The GPU is the devfreq device whose device-tree node is NVIDIA's and named as a GPU. Its
`load` is in permille, its clock in hertz. The temperature is that of the thermal zone whose
type begins with `gpu`. Power is told where the board's INA3221 has a rail for the GPU
alone; on most Orins the rail is shared with the SoC or the CPU, and that is not the GPU's
power. Memory is the CPU's: `unified`, without figures.

The monitor chip's older driver (iio) names a rail in `rail_name_N` and gives milliwatts; the
newer one (hwmon) names it in `inN_label` and gives millivolts and milliamperes. Rails of the
GPU alone are `POM_5V_GPU` (Nano), `VDD_SYS_GPU` (TX2) and `GPU` (AGX Xavier).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from edge_agent import config
from edge_agent.core import reading
from edge_agent.sources import sysfs
from wire.sample import GpuInventory

METHOD: Final = "sysfs"
NODES: Final = frozenset({"gpu", "gp10b", "gv11b", "ga10b"})
RAILS: Final = frozenset({"GPU", "VDD_GPU", "POM_5V_GPU", "VDD_SYS_GPU"})
UNSUPPORTED: Final = (
    "memory_total_bytes",
    "memory_used_bytes",
    "memory_free_bytes",
    "energy_mj",
    "power_limit_mw",
)
PERMILLE_MAX: Final = 1_000
_HOST: Final = config.Host()


class Jetson:
    """The source of the one GPU of a Jetson."""

    name = "jetson"
    finished = False

    def __init__(self, *, host: config.Host = _HOST) -> None:
        self._sys = Path(host.sys)
        self._devfreq: Path | None = None
        self._thermal: Path | None = None
        self._rail: tuple[Path, ...] = ()
        self._uuid = ""

    def available(self) -> reading.Availability:
        """Look for the GPU, its thermal zone and its rail."""
        self._devfreq = _devfreq(self._sys)
        if self._devfreq is None:
            return reading.Availability(state="no device", detail="no Jetson GPU in sysfs")
        self._thermal = _thermal(self._sys)
        self._rail = _rail(self._sys)
        tree = self._sys / "firmware/devicetree/base"
        serial = sysfs.plain(tree / "serial-number")
        self._uuid = f"jetson-{serial or self._devfreq.name}"
        highest = sysfs.scaled(sysfs.number(self._devfreq / "max_freq"), sysfs.mhz)
        inventory = GpuInventory(
            uuid=self._uuid,
            vendor="nvidia",
            name=sysfs.plain(tree / "model") or None,
            serial=serial or None,
            integrated=True,
            method=METHOD,
            graphics_clock_max_mhz=sysfs.or_none(highest),
        )
        return reading.Availability(state="yes", detail="1 GPU", gpus=(inventory,))

    def read(self) -> Sequence[reading.Observation]:
        """The GPU as it is now; none when its folder is gone."""
        if self._devfreq is None or not self._devfreq.exists():
            return (reading.Observation(),)
        readings: dict[str, Any] = dict.fromkeys(UNSUPPORTED, reading.UNSUPPORTED)
        readings |= {
            "utilization_percent": _percent(self._devfreq / "device/load"),
            "graphics_clock_mhz": sysfs.scaled(sysfs.number(self._devfreq / "cur_freq"), sysfs.mhz),
            "temperature_c": reading.UNSUPPORTED
            if self._thermal is None
            else sysfs.scaled(sysfs.number(self._thermal / "temp"), sysfs.celsius),
            "power_mw": _power(self._rail),
            "memory_method": "unified",
        }
        return (reading.Observation(gpus=(reading.RawGpu(uuid=self._uuid, readings=readings),)),)

    def close(self) -> None:
        """Forget the GPU."""
        self._devfreq = None


def _folders(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


def _devfreq(sys: Path) -> Path | None:
    """The GPU's devfreq folder. Other makers name their node `gpu`, too."""
    for one in _folders(sys, "class/devfreq/*"):
        node = one / "device/of_node"
        is_gpu = sysfs.plain(node / "name") in NODES
        if is_gpu and sysfs.plain(node / "compatible").startswith("nvidia,"):
            return one
    return None


def _thermal(sys: Path) -> Path | None:
    zones = _folders(sys, "class/thermal/thermal_zone*")
    return next((one for one in zones if _is_gpu_zone(sysfs.plain(one / "type"))), None)


def _is_gpu_zone(zone_type: str) -> bool:
    return zone_type.lower().replace("_", "-") in ("gpu", "gpu-therm", "gpu-thermal")


def _rail(sys: Path) -> tuple[Path, ...]:
    """The file with the rail's milliwatts, or those with its millivolts and milliamperes."""
    for chip in _folders(sys, "bus/i2c/devices/*"):
        if "ina3221" not in sysfs.plain(chip / "name"):
            continue
        for label in _folders(chip, "hwmon/hwmon*/in[1-3]_label"):
            if sysfs.plain(label) in RAILS:
                number = label.name.removeprefix("in").removesuffix("_label")
                names = (f"in{number}_input", f"curr{number}_input")
                return tuple(label.parent / name for name in names)
        for label in _folders(chip, "iio:device*/rail_name_[0-2]"):
            if sysfs.plain(label) in RAILS:
                return (label.parent / f"in_power{label.name[-1]}_input",)
    return ()


def _power(rail: tuple[Path, ...]) -> Any:
    found = [sysfs.number(file) for file in rail]
    strange = next((one for one in found if not isinstance(one, int)), None)
    if strange is not None or not found:
        return strange or reading.UNSUPPORTED
    return found[0] if len(found) == 1 else round(found[0] * found[1] / 1_000)


def _percent(file: Path) -> Any:
    permille = sysfs.number(file)
    if not isinstance(permille, int):
        return permille
    if not 0 <= permille <= PERMILLE_MAX:
        return sysfs.unclear(file, str(permille))
    return permille / 10
