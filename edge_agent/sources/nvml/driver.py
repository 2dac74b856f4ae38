"""The library and the driver behind it: open, versions, devices, and what is missing.

An init has one shutdown. Handles are good as long as the library stays open; a device whose
handle or UUID cannot be had is passed over, and it is told why. UUIDs are the names, indices
only the way to them.
"""

import importlib.metadata
from pathlib import Path
from typing import Any, Final

from edge_agent.core import reading
from edge_agent.sources.nvml import codes

DEVICES_MAX: Final = 1_024
TOLD_MAX: Final = 8
CUDA_MAX: Final = 100_000
REFUSED: Final = frozenset({codes.UNKNOWN, codes.NO_PERMISSION})
"""What a container answers whose device files or rights are gone."""
MAY_COME: Final = frozenset({codes.GPU_IS_LOST, codes.RESET_REQUIRED, codes.UNKNOWN})
"""Why a device is passed over that may answer when the library is opened again."""


class Driver:
    """NVML as it was opened last.

    `count` is how many devices it told of, `passed_over` why some of them are not used;
    `may_grow` says that one of those may answer later.
    """

    def __init__(self, lib: codes.Library, sys_root: str) -> None:
        self.versions: dict[str, str] = {}
        self.is_open = False
        self.count = 0
        self.passed_over: list[str] = []
        self.may_grow = False
        self._driver_version: str | None = None
        self._lib = lib
        self._sys_root = sys_root

    def open(self) -> reading.RawEvent | None:
        """Init; an event when the driver is another than it was."""
        before = self._driver_version
        self._lib.nvmlInit()
        self.is_open = True
        self.versions = _versions(self._lib)
        driver = self.versions.get("driver", before)
        self._driver_version = driver
        if before in {None, driver}:
            return None
        return reading.RawEvent(event="driver-changed", detail=f"{before} before, {driver} now")

    def shut(self) -> None:
        """Let the library go, once for each time it was opened."""
        if self.is_open:
            self.is_open = False
            codes.tried(self._lib, "nvmlShutdown")

    def devices(self) -> dict[str, Any]:
        """Fresh handles of the GPUs that answer, by UUID.

        Raises when all of them refuse as they do to a container that lost its rights.
        """
        self.passed_over, self.may_grow = [], False
        self.count = self._lib.nvmlDeviceGetCount()
        handles: dict[str, Any] = {}
        refused: Exception | None = None
        for index in range(min(self.count, DEVICES_MAX)):
            try:
                handle = self._lib.nvmlDeviceGetHandleByIndex(index)
                uuid = codes.text(self._lib.nvmlDeviceGetUUID(handle))
            except self._lib.NVMLError as error:
                if error.value in codes.LIBRARY_GONE:
                    raise
                refused = error if error.value in REFUSED else refused
                self.may_grow = self.may_grow or error.value in MAY_COME
                self.passed_over.append(f"device {index}: {error}")
            except UnicodeDecodeError:
                self.passed_over.append(f"device {index}: its UUID is no text")
            else:
                if uuid:
                    handles[uuid] = handle
                else:
                    self.passed_over.append(f"device {index}: it has no UUID")
        if refused is not None and not handles:
            raise refused
        return handles

    def found(self, count: int) -> reading.Availability:
        """What there is when the library opened; `count` GPUs are known."""
        passed_over = "; ".join(self.passed_over[:TOLD_MAX])
        if count:
            told = f"{count} GPUs; passed over: {passed_over}" if passed_over else f"{count} GPUs"
            return self.availability("yes", told)
        if passed_over:
            return self.availability("failed", passed_over)
        return self.availability("no device", "the driver answers and has no GPU")

    def missing(self, error: Any, *, was_read: bool) -> reading.Availability:
        """What an error of the opening means; `was_read` says that there were GPUs before."""
        code = error.value
        if code == codes.MISMATCH:
            module = _kernel_module(self._sys_root)
            known = f"; kernel module {module}" if module else ""
            return self.availability("driver mismatch", f"{error}{known}")
        if was_read and code in REFUSED:
            return self.availability("access lost", str(error))
        if code == codes.NO_PERMISSION:
            return self.availability("no permission", str(error))
        state: reading.AvailabilityState = "failed"
        if code in codes.LIBRARY_GONE:
            state = "no library"
        return self.availability(state, str(error))

    def availability(self, state: reading.AvailabilityState, detail: str) -> reading.Availability:
        """A state with the versions that are known; no GPUs yet."""
        return reading.Availability(
            state=state,
            detail=detail,
            driver_version=self.versions.get("driver"),
            cuda_version=self.versions.get("cuda"),
            library_versions={
                name: version
                for name, version in self.versions.items()
                if name not in {"driver", "cuda"}
            },
        )


def _versions(lib: codes.Library) -> dict[str, str]:
    cuda = codes.tried(lib, "nvmlSystemGetCudaDriverVersion_v2")
    is_cuda = isinstance(cuda, int) and 0 < cuda < CUDA_MAX
    found = {
        "driver": codes.text(codes.tried(lib, "nvmlSystemGetDriverVersion")),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if is_cuda else None,
        "nvml": codes.text(codes.tried(lib, "nvmlSystemGetNVMLVersion")),
        "nvidia-ml-py": _binding(),
    }
    return {name: version for name, version in found.items() if version is not None}


def _binding() -> str | None:
    try:
        return importlib.metadata.version("nvidia-ml-py")
    except importlib.metadata.PackageNotFoundError:
        return None


def _kernel_module(sys_root: str) -> str:
    try:
        return Path(sys_root, "module/nvidia/version").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
