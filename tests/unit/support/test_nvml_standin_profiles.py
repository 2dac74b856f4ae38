"""Every profile comes out of the real pynvml as it stands in its file."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest

from support.nvml import standin as nvml
from support.nvml_fixtures import Machines

NOT_SUPPORTED = 3
NO_SUCH_FIELD = 2
HIDDEN = 13
Call = Callable[[Any], Any]


def _field(number: int, scope: int = 0, member: str = "uiVal") -> Call:
    def call(handle: Any) -> Any:
        found = pynvml.nvmlDeviceGetFieldValues(handle, [(number, scope)])[0]
        if found.nvmlReturn != 0:
            raise pynvml.NVMLError(found.nvmlReturn)
        return getattr(found.value, member)

    return call


def _ecc(error: int, counter: int, place: int) -> Call:
    return lambda h: pynvml.nvmlDeviceGetMemoryErrorCounter(h, error, counter, place)


CALLS: dict[str, Call] = {
    "name": pynvml.nvmlDeviceGetName,
    "uuid": pynvml.nvmlDeviceGetUUID,
    "serial": pynvml.nvmlDeviceGetSerial,
    "vbios": pynvml.nvmlDeviceGetVbiosVersion,
    "minor_number": pynvml.nvmlDeviceGetMinorNumber,
    "board_id": pynvml.nvmlDeviceGetBoardId,
    "multigpu_board": pynvml.nvmlDeviceGetMultiGpuBoard,
    "board_part_number": pynvml.nvmlDeviceGetBoardPartNumber,
    "inforom.image": pynvml.nvmlDeviceGetInforomImageVersion,
    "inforom.oem": lambda h: pynvml.nvmlDeviceGetInforomVersion(h, 0),
    "inforom.ecc": lambda h: pynvml.nvmlDeviceGetInforomVersion(h, 1),
    "inforom.power": lambda h: pynvml.nvmlDeviceGetInforomVersion(h, 2),
    "pci.bus_id": lambda h: pynvml.nvmlDeviceGetPciInfo(h).busId,
    "pci.device_id": lambda h: pynvml.nvmlDeviceGetPciInfo(h).pciDeviceId,
    "pci.subsystem_id": lambda h: pynvml.nvmlDeviceGetPciInfo(h).pciSubSystemId,
    "brand": pynvml.nvmlDeviceGetBrand,
    "architecture": pynvml.nvmlDeviceGetArchitecture,
    "gsp_firmware_version": pynvml.nvmlDeviceGetGspFirmwareVersion,
    "compute_capability.major": lambda h: pynvml.nvmlDeviceGetCudaComputeCapability(h)[0],
    "compute_capability.minor": lambda h: pynvml.nvmlDeviceGetCudaComputeCapability(h)[1],
    "mode.persistence": pynvml.nvmlDeviceGetPersistenceMode,
    "mode.compute": pynvml.nvmlDeviceGetComputeMode,
    "mode.display_active": pynvml.nvmlDeviceGetDisplayActive,
    "mode.display": pynvml.nvmlDeviceGetDisplayMode,
    "mode.accounting": pynvml.nvmlDeviceGetAccountingMode,
    "mode.accounting_buffer": pynvml.nvmlDeviceGetAccountingBufferSize,
    "mode.addressing": pynvml.nvmlDeviceGetAddressingMode,
    "mode.virtualization": pynvml.nvmlDeviceGetVirtualizationMode,
    "mode.c2c": lambda h: pynvml.nvmlDeviceGetC2cModeInfoV(h).isC2cEnabled,
    "mode.gsp": lambda h: pynvml.nvmlDeviceGetGspFirmwareMode(h)[0],
    "recovery_action": _field(230),
    "events.supported_mask": pynvml.nvmlDeviceGetSupportedEventTypes,
    "memory.total_bytes": lambda h: pynvml.nvmlDeviceGetMemoryInfo(h).total,
    "memory.free_bytes": lambda h: pynvml.nvmlDeviceGetMemoryInfo(h).free,
    "memory.used_bytes": lambda h: pynvml.nvmlDeviceGetMemoryInfo(h, pynvml.nvmlMemory_v2).used,
    "memory.reserved_bytes": lambda h: (
        pynvml.nvmlDeviceGetMemoryInfo(h, pynvml.nvmlMemory_v2).reserved
    ),
    "bar1.total_bytes": lambda h: pynvml.nvmlDeviceGetBAR1MemoryInfo(h).bar1Total,
    "bar1.used_bytes": lambda h: pynvml.nvmlDeviceGetBAR1MemoryInfo(h).bar1Used,
    "bar1.free_bytes": lambda h: pynvml.nvmlDeviceGetBAR1MemoryInfo(h).bar1Free,
    "conf_compute.protected_total_bytes": lambda h: (
        pynvml.nvmlDeviceGetConfComputeProtectedMemoryUsage(h).total
    ),
    "utilization.gpu_pct": lambda h: pynvml.nvmlDeviceGetUtilizationRates(h).gpu,
    "utilization.encoder_pct": lambda h: pynvml.nvmlDeviceGetEncoderUtilization(h)[0],
    "utilization.decoder_pct": lambda h: pynvml.nvmlDeviceGetDecoderUtilization(h)[0],
    "utilization.jpeg_pct": lambda h: pynvml.nvmlDeviceGetJpgUtilization(h)[0],
    "utilization.ofa_pct": lambda h: pynvml.nvmlDeviceGetOfaUtilization(h)[0],
    "encoder.sessions": lambda h: pynvml.nvmlDeviceGetEncoderStats(h)[0],
    "power.draw_mw": pynvml.nvmlDeviceGetPowerUsage,
    "power.average_mw": _field(185),
    "power.instant_mw": _field(186),
    "power.module_average_mw": _field(185, 1),
    "power.memory_average_mw": _field(185, 2),
    "power_limit.min_mw": lambda h: pynvml.nvmlDeviceGetPowerManagementLimitConstraints(h)[0],
    "power_limit.max_mw": lambda h: pynvml.nvmlDeviceGetPowerManagementLimitConstraints(h)[1],
    "power_limit.default_mw": pynvml.nvmlDeviceGetPowerManagementDefaultLimit,
    "power_limit.requested_mw": pynvml.nvmlDeviceGetPowerManagementLimit,
    "power_limit.enforced_mw": pynvml.nvmlDeviceGetEnforcedPowerLimit,
    "temperature.gpu_c": lambda h: pynvml.nvmlDeviceGetTemperature(h, 0),
    "temperature.memory_c": _field(82),
    "temperature.margin_c": pynvml.nvmlDeviceGetMarginTemperature,
    "threshold.shutdown_c": lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, 0),
    "threshold.slowdown_c": lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, 1),
    "threshold.memory_max_c": lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, 2),
    "threshold.gpu_max_c": lambda h: pynvml.nvmlDeviceGetTemperatureThreshold(h, 3),
    "tlimit.shutdown_c": _field(193, 0, "siVal"),
    "tlimit.slowdown_c": _field(194, 0, "siVal"),
    "tlimit.memory_max_c": _field(195, 0, "siVal"),
    "tlimit.gpu_max_c": _field(196, 0, "siVal"),
    "clock.graphics_mhz": lambda h: pynvml.nvmlDeviceGetClockInfo(h, 0),
    "clock.sm_mhz": lambda h: pynvml.nvmlDeviceGetClockInfo(h, 1),
    "clock.memory_mhz": lambda h: pynvml.nvmlDeviceGetClockInfo(h, 2),
    "clock.video_mhz": lambda h: pynvml.nvmlDeviceGetClockInfo(h, 3),
    "clock_max.graphics_mhz": lambda h: pynvml.nvmlDeviceGetMaxClockInfo(h, 0),
    "clock_max.sm_mhz": lambda h: pynvml.nvmlDeviceGetMaxClockInfo(h, 1),
    "clock_max.memory_mhz": lambda h: pynvml.nvmlDeviceGetMaxClockInfo(h, 2),
    "clock_max.video_mhz": lambda h: pynvml.nvmlDeviceGetMaxClockInfo(h, 3),
    "clock_application.graphics_mhz": lambda h: pynvml.nvmlDeviceGetApplicationsClock(h, 0),
    "clock_boost_max_mhz": lambda h: pynvml.nvmlDeviceGetMaxCustomerBoostClock(h, 0),
    "performance_state": pynvml.nvmlDeviceGetPerformanceState,
    "fan.0.speed_pct": pynvml.nvmlDeviceGetFanSpeed,
    "clocks_event.active_mask": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons,
    "clocks_event.supported_mask": pynvml.nvmlDeviceGetSupportedClocksThrottleReasons,
    "pcie.gen": pynvml.nvmlDeviceGetCurrPcieLinkGeneration,
    "pcie.width": pynvml.nvmlDeviceGetCurrPcieLinkWidth,
    "pcie.max_gen": pynvml.nvmlDeviceGetMaxPcieLinkGeneration,
    "pcie.max_device_gen": pynvml.nvmlDeviceGetGpuMaxPcieLinkGeneration,
    "pcie.max_width": pynvml.nvmlDeviceGetMaxPcieLinkWidth,
    "pcie.tx_kbps": lambda h: pynvml.nvmlDeviceGetPcieThroughput(h, 0),
    "pcie.rx_kbps": lambda h: pynvml.nvmlDeviceGetPcieThroughput(h, 1),
    "pcie.replay_count": pynvml.nvmlDeviceGetPcieReplayCounter,
    "ecc.mode.current": lambda h: pynvml.nvmlDeviceGetEccMode(h)[0],
    "ecc.mode.pending": lambda h: pynvml.nvmlDeviceGetEccMode(h)[1],
    "ecc.volatile.corrected.dram": _ecc(0, 0, 2),
    "ecc.volatile.uncorrected.dram": _ecc(1, 0, 2),
    "ecc.volatile.uncorrected.sram": _ecc(1, 0, 7),
    "ecc.aggregate.corrected.dram": _ecc(0, 1, 2),
    "ecc.aggregate.uncorrected.sram": _ecc(1, 1, 7),
    "ecc.volatile.corrected.l2_cache": _ecc(0, 0, 1),
    "retired_pages.pending": pynvml.nvmlDeviceGetRetiredPagesPendingStatus,
    "retired_pages.double_bit": lambda h: len(pynvml.nvmlDeviceGetRetiredPages(h, 1)),
    "remapped_rows.uncorrectable": lambda h: pynvml.nvmlDeviceGetRemappedRows(h)[1],
    "remapped_rows.failure": lambda h: pynvml.nvmlDeviceGetRemappedRows(h)[3],
    "remapped_rows.histogram.max": lambda h: pynvml.nvmlDeviceGetRowRemapperHistogram(h).max,
    "mig.current": lambda h: pynvml.nvmlDeviceGetMigMode(h)[0],
    "mig.pending": lambda h: pynvml.nvmlDeviceGetMigMode(h)[1],
    "nvlink.links": _field(91),
    "nvlink.speed_mbps": _field(90),
    "fabric.clique_id": lambda h: _fabric(h).cliqueId,
    "fabric.state": lambda h: _fabric(h).state,
}
FOLLOW_ANOTHER = {"pci.device_id", "pci.subsystem_id", "memory.reserved_bytes"}
"""Members of a structure in which another decides whether all is supported; these are 0."""


def _fabric(handle: Any) -> Any:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    pynvml._nvmlCheckReturn(
        pynvml._nvmlGetFunctionPointer("nvmlDeviceGetGpuFabricInfoV")(handle, pynvml.byref(info))
    )
    return info


def _samples(name: str) -> list[str]:
    keys = nvml.profile(name)
    return sorted({key.split()[0][1:] for key in keys if key.startswith("@")})


def _expected(name: str, sample: str) -> dict[str, str]:
    lines = nvml.profile(name)
    plain = {key: value for key, value in lines.items() if not key.startswith("@")}
    own = {k.split()[1]: v for k, v in lines.items() if k.startswith(f"@{sample} ")}
    return plain | own


def _asked(call: Call, handle: Any) -> Any:
    try:
        return call(handle)
    except pynvml.NVMLError as error:
        return f"code {error.value}"


def _agrees(key: str, told: str, answer: Any) -> bool:
    if answer == f"code {HIDDEN}":  # nvidia-smi shows more than its own library lets others ask
        return True
    if told == "unsupported":
        if key in FOLLOW_ANOTHER and answer == 0:
            return True
        return answer in (f"code {NOT_SUPPORTED}", f"code {NO_SUCH_FIELD}")
    if isinstance(answer, bytes):
        return told == answer.decode()
    if isinstance(answer, str):
        return told == answer
    plain = {"true": "1", "false": "0"}.get(told, told)
    return int(plain, 0) == answer


@pytest.mark.parametrize("name", nvml.profiles())
def test_every_value_is_the_profile_s(name: str, standin: Machines) -> None:
    """Each call gives what the profile says, or says that it is not supported where it does."""
    for sample in _samples(name):
        standin(nvml.Gpu(name, sample=sample))
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        expected = _expected(name, sample)
        asked = {key: _asked(call, handle) for key, call in CALLS.items()}

        wrong = {
            key: (told, asked[key])
            for key in CALLS
            if not _agrees(key, told := expected.get(key, "unsupported"), asked[key])
        }

        assert wrong == {}


@pytest.mark.parametrize("name", nvml.profiles())
def test_processes_are_the_profile_s(name: str, standin: Machines) -> None:
    """As many processes are listed as the capture shows, with their memory."""
    text = (nvml.PROFILES / f"{name}.txt").read_text()
    for sample in _samples(name):
        standin(nvml.Gpu(name, sample=sample))
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        lines = [x for x in text.splitlines() if x.startswith(f"@{sample} process ")]

        compute = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        graphics = pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)

        assert len(compute) == sum("compute" in line for line in lines)
        assert len(graphics) == sum("graphics" in line for line in lines)
        listed = {(one.pid, one.usedGpuMemory) for one in (*compute, *graphics)}
        for pid, used in listed:
            told = "unsupported" if used is None else str(used)
            assert any(f"pid={pid} " in x and f"memory_bytes={told}" in x for x in lines)


def test_there_are_31_profiles_with_a_source() -> None:
    """Each profile says where it was seen."""
    assert len(nvml.profiles()) == 31
    sources = [[k for k in nvml.profile(name) if "source." in k] for name in nvml.profiles()]
    assert all(sources)


@pytest.mark.parametrize("name", sorted(path.stem for path in nvml.NODES.glob("*.txt")))
def test_whole_nodes_keep_their_identities(name: str, standin: Machines) -> None:
    """A machine that was seen as a whole has its UUIDs, addresses and readings."""
    gpus = nvml.whole_node(name)
    standin(*gpus)
    pynvml.nvmlInit()

    handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]

    assert [gpu.set["uuid"] for gpu in gpus] == [pynvml.nvmlDeviceGetUUID(h) for h in handles]
    assert [int(gpu.set["power.draw_mw"]) for gpu in gpus] == [
        pynvml.nvmlDeviceGetPowerUsage(h) for h in handles
    ]


def test_jetson_knows_almost_nothing(standin: Machines) -> None:
    """BR-05: a GPU without memory figures, power or address answers "not supported"."""
    standin(nvml.Gpu("jetson-orin"))
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)

    for call in (pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlDeviceGetPowerUsage):
        with pytest.raises(pynvml.NVMLError_NotSupported):
            call(handle)
