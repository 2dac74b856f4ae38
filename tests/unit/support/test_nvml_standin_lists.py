"""The stand-in's lists and waits through the real pynvml: processes, samples, MIG, GPM, events."""

import threading
import time
from typing import Any

import pynvml
import pytest

from support.nvml import asking
from support.nvml import standin as nvml
from support.nvml_fixtures import Machines

H100 = "h100-80gb-hbm3"
MIG = "h100-80gb-hbm3-mig"
NONE = 0xFFFFFFFF
XID = pynvml.nvmlEventTypeXidCriticalError
STEP_US = 166_667


def test_processes_come_change_and_go(standin: Machines) -> None:
    """Each list has its kind; the same pid changes; memory may be unknown; names are by pid."""
    node = standin(nvml.Gpu(H100))
    handle = asking.handles()[0]
    node.say(
        "process 0 pid=10 memory_bytes=1024 name=train",
        "process 0 pid=11 memory_bytes=unsupported kind=compute,graphics",
        "process 0 pid=12 kind=mps",
        "process 0 pid=10 memory_bytes=4096",
    )

    compute = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    assert [(one.pid, one.usedGpuMemory) for one in compute] == [(10, 4096), (11, None)]
    assert {one.gpuInstanceId for one in compute} == {NONE}
    assert [one.pid for one in pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)] == [11]
    assert [one.pid for one in pynvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)] == [12]
    assert pynvml.nvmlSystemGetProcessName(10) == "train"
    assert asking.code(pynvml.nvmlSystemGetProcessName, 99) == pynvml.NVML_ERROR_NOT_FOUND
    node.say("no-process 0 10")
    assert len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) == 1
    node.say("no-process 0 *")
    assert pynvml.nvmlDeviceGetComputeRunningProcesses(handle) == []


def test_the_list_grows_between_the_two_calls(standin: Machines) -> None:
    """A few more fit into what the binding reserves; many more are its error 7."""
    node = standin(nvml.Gpu(H100))
    handle = asking.handles()[0]
    node.say("process 0 pid=10 memory_bytes=1024", "grow 0 3")
    assert len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) == 4
    node.say("grow 0 30")
    with pytest.raises(pynvml.NVMLError_InsufficientSize):
        pynvml.nvmlDeviceGetComputeRunningProcesses(handle)


@pytest.mark.parametrize("is_new", [False, True], ids=["old", "new"])
def test_process_utilization_since_a_time(is_new: bool, standin: Machines) -> None:
    """BR-10: only processes with shares, only samples later than the stamp; none is code 6."""
    node = standin(nvml.Gpu(H100))
    handle = asking.handles()[0]
    ask = (
        pynvml.nvmlDeviceGetProcessesUtilizationInfo
        if is_new
        else pynvml.nvmlDeviceGetProcessUtilization
    )
    assert asking.code(ask, handle, 0) == pynvml.NVML_ERROR_NOT_FOUND
    node.say("process 0 pid=10 sm=40 memory=7", "process 0 pid=11 memory_bytes=5")
    (first,) = ask(handle, 0)

    assert (first.pid, first.smUtil, first.memUtil) == (10, 40, 7)
    assert 0 <= time.time() * 1e6 - first.timeStamp < 2 * STEP_US
    assert asking.code(ask, handle, first.timeStamp + STEP_US) == pynvml.NVML_ERROR_NOT_FOUND
    time.sleep(STEP_US / 1e6)
    (second,) = ask(handle, first.timeStamp)
    assert (second.timeStamp - first.timeStamp) % STEP_US == 0


def test_junk_utilization(standin: Machines) -> None:
    """BR-09: 2 real records, 3 with tens of thousands of percent, the rest of 100 empty."""
    node = standin(nvml.Gpu(H100))
    handle = asking.handles()[0]
    node.say("process 0 pid=10 sm=20", "process 0 pid=11 sm=30", "junk 0 98")
    found = pynvml.nvmlDeviceGetProcessUtilization(handle, 0)

    assert len(found) == 100
    assert [one.smUtil for one in found[:2]] == [20, 30]
    assert sum(one.smUtil > 100 for one in found) == 3
    assert sum(one.pid == 0 and one.timeStamp == 0 for one in found) == 95


def test_samples_remember_what_was_between_two_calls(standin: Machines) -> None:
    """A peak of power between two readings is in the samples, 20 ms apart, later than asked."""
    node = standin(nvml.Gpu(H100, set={"power.draw_mw": "100000"}))
    handle = asking.handles()[0]
    _, before = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_TOTAL_POWER_SAMPLES, 0)
    node.say("set 0 power.draw_mw 700000")
    time.sleep(0.07)
    node.say("set 0 power.draw_mw 100000")
    time.sleep(0.03)
    since = before[-1].timeStamp
    kind, after = pynvml.nvmlDeviceGetSamples(handle, pynvml.NVML_TOTAL_POWER_SAMPLES, since)

    assert kind == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
    assert {one.sampleValue.uiVal for one in before} == {100_000}
    assert max(one.sampleValue.uiVal for one in after) == 700_000
    assert after[-1].sampleValue.uiVal == 100_000
    assert all(one.timeStamp > since and one.timeStamp % 20_000 == 0 for one in after)
    late = (handle, pynvml.NVML_TOTAL_POWER_SAMPLES, after[-1].timeStamp + 20_000)
    assert asking.code(pynvml.nvmlDeviceGetSamples, *late) == pynvml.NVML_ERROR_NOT_FOUND


def test_the_wall_clock_may_be_shifted(standin: Machines) -> None:
    """BR-43: stamps of samples and fields follow a clock that is set back."""
    node = standin(nvml.Gpu(H100))
    handle = asking.handles()[0]
    node.say("clock -3600")
    (field,) = pynvml.nvmlDeviceGetFieldValues(handle, [83])

    assert abs(time.time() - 3600 - field.timestamp / 1e6) < 1


def test_instances_with_holes(standin: Machines) -> None:
    """BR-03: slots may be empty; each instance has name, ids, memory, parent and its processes."""
    node = standin(nvml.Gpu(MIG, sample="busy"))
    handle = asking.handles()[0]
    node.say("set 0 mig.1.gpu_instance_id unsupported")
    assert pynvml.nvmlDeviceGetMaxMigDeviceCount(handle) == 7
    codes = [asking.code(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, i) for i in range(8)]
    assert codes == [0, 6, 0, 0, 6, 6, 6, 2]

    first = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    uuid = pynvml.nvmlDeviceGetUUID(first)
    parent = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(first)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(first)
    attributes = pynvml.nvmlDeviceGetAttributes(first)

    assert uuid.startswith("MIG-")
    assert asking.address(parent) == asking.address(handle)
    assert asking.address(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == asking.address(first)
    assert pynvml.nvmlDeviceGetName(first) == "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    assert pynvml.nvmlDeviceGetGpuInstanceId(first) == 2
    assert pynvml.nvmlDeviceGetMemoryInfo(first).total == 42412802048
    assert attributes.memorySizeMB == 42412802048 >> 20
    assert {one.gpuInstanceId for one in processes} == {2}
    assert pynvml.nvmlDeviceIsMigDeviceHandle(first).value == 1


def test_a_cut_gpu_has_no_utilisation(standin: Machines) -> None:
    """BR-03: whole and part answer 3 to utilisation, rows and process shares; power goes on."""
    node = standin(nvml.Gpu(H100))
    (whole,) = asking.handles()
    node.say("set 0 mig.current 1", "set 0 mig.0.gpu_instance_id 1", "set 0 mig.0.uuid MIG-a")
    part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(whole, 0)

    for call in (pynvml.nvmlDeviceGetUtilizationRates, pynvml.nvmlDeviceGetEncoderUtilization):
        assert {asking.code(call, whole), asking.code(call, part)} == {3}
    assert asking.code(pynvml.nvmlDeviceGetRemappedRows, whole) == 3
    assert asking.code(pynvml.nvmlDeviceGetProcessUtilization, whole, 0) == 3
    assert asking.code(pynvml.nvmlDeviceGetPowerUsage, whole) == 0
    node.say("error 0:gpu nvmlDeviceGetUUID 4")
    assert (
        asking.code(pynvml.nvmlDeviceGetUUID, whole),
        asking.code(pynvml.nvmlDeviceGetUUID, part),
    ) == (4, 0)


def _metrics(first: Any, second: Any, ids: list[int]) -> list[tuple[int, float]]:
    asked = pynvml.c_nvmlGpmMetricsGet_t()
    asked.version, asked.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, len(ids)
    asked.sample1, asked.sample2 = first, second
    for place, number in enumerate(ids):
        asked.metrics[place].metricId = number
    pynvml.nvmlGpmMetricsGet(asked)
    return [(one.nvmlReturn, one.value) for one in asked.metrics[: len(ids)]]


def test_gpm_of_a_gpu_and_of_an_instance(standin: Machines) -> None:
    """Metrics follow the utilisation or are set; an instance has its own; older GPUs have none."""
    node = standin(nvml.Gpu(MIG), nvml.Gpu("l4"))
    handle = asking.handles()[0]
    node.say("set 0 gpm.5 12.5", "set 0 mig.0.sm_pct 33.25")
    samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(4)]
    for sample in samples[:2]:
        pynvml.nvmlGpmSampleGet(handle, sample)
    for sample in samples[2:]:
        pynvml.nvmlGpmMigSampleGet(handle, 2, sample)

    assert pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 1
    assert _metrics(*samples[:2], [5, 20, 60])[0] == (0, 12.5)
    assert [code for code, _ in _metrics(*samples[:2], [5, 20, 60])] == [0, 0, 3]
    assert _metrics(*samples[2:], [2]) == [(0, 33.25)]
    other = pynvml.nvmlDeviceGetHandleByIndex(1)
    assert pynvml.nvmlGpmQueryDeviceSupport(other).isSupportedDevice == 0
    assert asking.code(pynvml.nvmlGpmSampleGet, other, samples[0]) == 3
    for sample in samples:
        pynvml.nvmlGpmSampleFree(sample)


def test_nvlink_and_fabric(standin: Machines) -> None:
    """18 links with state, version, peers, error counts and bytes, singly and in sum."""
    node = standin(nvml.Gpu(H100), nvml.Gpu("l4"))
    handle = asking.handles()[0]
    node.say("set 0 nvlink.3.active 0", "set 0 nvlink.5.crc_flit_errors 9")
    node.say("set 0 nvlink.*.tx_kib 100")
    node.say("set 0 nvlink.4.tx_kibps 1000000", "count 0 nvlink.4.tx_kib")
    time.sleep(0.01)
    asked = [(138, 0), (138, 4), (138, NONE), (38, 0), (164, 1), (138, 18)]
    found = pynvml.nvmlDeviceGetFieldValues(handle, asked)
    values = [one.value.ullVal for one in found]

    assert [pynvml.nvmlDeviceGetNvLinkState(handle, i) for i in (0, 3)] == [1, 0]
    assert pynvml.nvmlDeviceGetNvLinkVersion(handle, 0) == 6
    assert pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, 0) == 2
    assert pynvml.nvmlDeviceGetNvLinkErrorCounter(handle, 5, 2) == 9
    assert asking.code(pynvml.nvmlDeviceGetNvLinkState, handle, 18) == 2
    assert (
        asking.code(pynvml.nvmlDeviceGetNvLinkState, pynvml.nvmlDeviceGetHandleByIndex(1), 0) == 3
    )
    assert values[0] == 100
    assert values[1] > 10_000
    assert 0 <= values[2] - values[1] - 17 * 100 < 1000  # it went on counting
    assert values[3:5] == [9, 26562]
    assert found[5].nvmlReturn == 2


def test_ecc_sums_over_places(standin: Machines) -> None:
    """The total is the sum of the places, unless one is given; fields tell the same."""
    node = standin(nvml.Gpu(H100))
    handle = asking.handles()[0]
    node.say("set 0 ecc.volatile.uncorrected.dram 3", "set 0 ecc.volatile.uncorrected.sram 4")
    assert pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0) == 7
    assert pynvml.nvmlDeviceGetFieldValues(handle, [4, 12])[0].value.ullVal == 7
    assert pynvml.nvmlDeviceGetFieldValues(handle, [4, 12])[1].value.ullVal == 3
    node.say("set 0 ecc.volatile.uncorrected.total 70")
    assert pynvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0) == 70


def test_retired_pages_by_cause(standin: Machines) -> None:
    """As many addresses as are counted, for each cause."""
    node = standin(nvml.Gpu("tesla-v100s-pcie-32gb"))
    handle = asking.handles()[0]
    node.say("set 0 retired_pages.single_bit 2", "set 0 retired_pages.double_bit 1")

    assert len(pynvml.nvmlDeviceGetRetiredPages(handle, 0)) == 2
    assert len(pynvml.nvmlDeviceGetRetiredPages_v2(handle, 1)) == 1


def _listen(*handles: Any) -> Any:
    events = pynvml.nvmlEventSetCreate()
    for handle in handles:
        pynvml.nvmlDeviceRegisterEvents(handle, XID, events)
    return events


def test_a_wait_sleeps_until_an_xid(standin: Machines) -> None:
    """It blocks without using the processor, wakes within milliseconds, and each set gets it."""
    node = standin(nvml.Gpu(H100), nvml.Gpu(H100))
    one, two = asking.handles()
    got: list[tuple[int | None, int, float]] = []

    def wait(events: Any) -> None:
        data = pynvml.nvmlEventSetWait_v2(events, 5000)
        got.append((asking.address(data.device), data.eventData, time.monotonic()))

    threads = [threading.Thread(target=wait, args=(_listen(one, two),)) for _ in range(3)]
    used = time.process_time()
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    used = time.process_time() - used
    said = time.monotonic()
    node.say("xid 1 79")
    for thread in threads:
        thread.join()

    assert [(address, xid) for address, xid, _ in got] == [(asking.address(two), 79)] * 3
    assert max(at for *_, at in got) - said < 0.1
    assert used < 0.05


def test_xids_keep_their_order_and_number(standin: Machines) -> None:
    """BR-32: one event for each command and count; the instance ids come along; then 10."""
    node = standin(nvml.Gpu(MIG), nvml.Gpu("l4"))
    events = _listen(asking.handles()[0])
    node.say("xid 0 13 count=3 gi=2 ci=0", "xid 1 79", "xid 0 48")
    got = [pynvml.nvmlEventSetWait_v2(events, 0) for _ in range(4)]

    assert [one.eventData for one in got] == [13, 13, 13, 48]
    assert [one.gpuInstanceId for one in got] == [2, 2, 2, NONE]
    assert asking.code(pynvml.nvmlEventSetWait_v2, events, 1) == pynvml.NVML_ERROR_TIMEOUT
    pynvml.nvmlEventSetFree(events)
    assert asking.code(pynvml.nvmlEventSetWait_v2, events, 0) == pynvml.NVML_ERROR_INVALID_ARGUMENT


def test_waiting_for_a_lost_gpu(standin: Machines) -> None:
    """A wait that covers a GPU which is lost meanwhile ends with 15; what came before is told."""
    node = standin(nvml.Gpu(H100), nvml.Gpu(H100))
    events = _listen(*asking.handles())
    node.say("xid 0 79", "lost 0")

    assert pynvml.nvmlEventSetWait_v2(events, 5000).eventData == 79
    assert asking.code(pynvml.nvmlEventSetWait_v2, events, 5000) == pynvml.NVML_ERROR_GPU_IS_LOST


def test_types_that_a_gpu_does_not_have(standin: Machines) -> None:
    """Registering one is 3 and registers nothing; the set stays usable."""
    node = standin(nvml.Gpu("rtx-4090"))
    handle = asking.handles()[0]
    events = pynvml.nvmlEventSetCreate()

    assert asking.code(pynvml.nvmlDeviceRegisterEvents, handle, 0x9, events) == 3
    node.say("xid 0 31")
    assert asking.code(pynvml.nvmlEventSetWait_v2, events, 0) == pynvml.NVML_ERROR_TIMEOUT
    pynvml.nvmlDeviceRegisterEvents(handle, XID, events)
    node.say("xid 0 31")
    assert pynvml.nvmlEventSetWait_v2(events, 1000).eventData == 31


def test_confidential_computing(standin: Machines) -> None:
    """The system's state is told and may be set, or unknown to it."""
    node = standin(nvml.Gpu(H100))
    asking.handles()
    assert pynvml.nvmlSystemGetConfComputeState().ccFeature == 0
    node.say("confidential environment=2 feature=1 devtools=1 ready=1")
    state = pynvml.nvmlSystemGetConfComputeState()

    assert (state.environment, state.ccFeature, state.devToolsMode) == (2, 1, 1)
    assert pynvml.nvmlSystemGetConfComputeGpusReadyState() == 1
    node.say("confidential environment=-1")
    assert asking.code(pynvml.nvmlSystemGetConfComputeState) == 3


def test_what_is_not_played_says_so(standin: Machines) -> None:
    """Every other symbol is there: reading is not supported, changing not permitted."""
    standin(nvml.Gpu(H100))
    handle = asking.handles()[0]

    assert asking.code(pynvml.nvmlDeviceGetTopologyNearestGpus, handle, 0) == 3
    assert asking.code(pynvml.nvmlDeviceSetPersistenceMode, handle, 1) == 4
