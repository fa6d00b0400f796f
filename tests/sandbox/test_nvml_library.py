"""The simulated NVML, called by programs through the real `pynvml` bindings."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import pynvml
import pytest

from sandbox.nvml import NodeProfile, install
from sandbox.nvml.run import SYSFS_VARIABLE

DRIVER = "580.65.06"


@pytest.fixture
def node(request):
    """Simulate the node that a test describes, and initialise NVML."""
    with install(NodeProfile(driver_version=DRIVER, **request.param)):
        pynvml.nvmlInit()
        yield


def on(machine_type, *faults, **more):
    """Parametrise a test with one simulated node."""
    given = {"machine_type": machine_type, "faults": faults, **more}
    return pytest.mark.parametrize("node", [given], indirect=True)


def status_of(call, *arguments):
    """Return the NVML status of a call."""
    with pytest.raises(pynvml.NVMLError) as raised:
        call(*arguments)
    return raised.value.value


def gpu(index=0):
    return pynvml.nvmlDeviceGetHandleByIndex(index)


@on("p5.48xlarge")
@pytest.mark.usefixtures("node")
def test_every_call_that_a_validator_makes_is_answered():
    one, other = gpu(0), gpu(5)
    events = pynvml.nvmlEventSetCreate()
    pynvml.nvmlDeviceRegisterEvents(one, pynvml.nvmlDeviceGetSupportedEventTypes(one), events)
    fabric = pynvml.c_nvmlGpuFabricInfoV_t()
    pynvml.nvmlDeviceGetGpuFabricInfoV(one, ctypes.byref(fabric))
    answers = {
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "library": pynvml.nvmlSystemGetNVMLVersion(),
        "cuda": pynvml.nvmlSystemGetCudaDriverVersion_v2(),
        "count": pynvml.nvmlDeviceGetCount(),
        "index": pynvml.nvmlDeviceGetIndex(other),
        "name": pynvml.nvmlDeviceGetName(one),
        "by uuid": pynvml.nvmlDeviceGetIndex(pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(other))),
        "by bus id": pynvml.nvmlDeviceGetIndex(
            pynvml.nvmlDeviceGetHandleByPciBusId(pynvml.nvmlDeviceGetPciInfo(other).busId)
        ),
        "serial": len(pynvml.nvmlDeviceGetSerial(one)),
        "memory": pynvml.nvmlDeviceGetMemoryInfo(one).total // 2**20,
        "memory v2": pynvml.nvmlDeviceGetMemoryInfo(one, version=pynvml.nvmlMemory_v2).total // 2**20,
        "ecc": pynvml.nvmlDeviceGetEccMode(one),
        "ecc errors": pynvml.nvmlDeviceGetTotalEccErrors(one, 1, 0),
        "ecc errors in memory": pynvml.nvmlDeviceGetMemoryErrorCounter(one, 1, 0, 2),
        "remapped": pynvml.nvmlDeviceGetRemappedRows(one),
        "banks": pynvml.nvmlDeviceGetRowRemapperHistogram(one).max,
        "persistence": pynvml.nvmlDeviceGetPersistenceMode(one),
        "reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons(one),
        "sm clock": pynvml.nvmlDeviceGetClockInfo(one, pynvml.NVML_CLOCK_SM),
        "memory clock": pynvml.nvmlDeviceGetClockInfo(one, pynvml.NVML_CLOCK_MEM),
        "temperature": pynvml.nvmlDeviceGetTemperature(one, 0) == pynvml.nvmlDeviceGetTemperatureV(one, 0),
        "slowdown": pynvml.nvmlDeviceGetTemperatureThreshold(one, 1),
        "power": pynvml.nvmlDeviceGetPowerUsage(one),
        "utilization": pynvml.nvmlDeviceGetUtilizationRates(one).gpu,
        "mig": pynvml.nvmlDeviceGetMigMode(one),
        "mig devices": pynvml.nvmlDeviceGetMaxMigDeviceCount(one),
        "link": pynvml.nvmlDeviceGetNvLinkState(one, 17),
        "link version": pynvml.nvmlDeviceGetNvLinkVersion(one, 0),
        "link errors": pynvml.nvmlDeviceGetNvLinkErrorCounter(one, 0, 0),
        "link remote": pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(one, 0),
        "link remote bus": pynvml.nvmlDeviceGetNvLinkRemotePciInfo(one, 0).busId,
        "link count": pynvml.nvmlDeviceGetFieldValues(one, [91])[0].value.uiVal,
        "ancestor": pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other),
        "p2p": pynvml.nvmlDeviceGetP2PStatus(one, other, pynvml.NVML_P2P_CAPS_INDEX_NVLINK),
        "processes": pynvml.nvmlDeviceGetGraphicsRunningProcesses(one),
        "fabric": fabric.state,
    }
    assert answers == {
        "driver": DRIVER,
        "library": f"13.{DRIVER}",
        "cuda": 13000,
        "count": 8,
        "index": 5,
        "name": "NVIDIA H100 80GB HBM3",
        "by uuid": 5,
        "by bus id": 5,
        "serial": 13,
        "memory": 81559,
        "memory v2": 81559,
        "ecc": [1, 1],
        "ecc errors": 0,
        "ecc errors in memory": 0,
        "remapped": (0, 0, 0, 0),
        "banks": 640,
        "persistence": 1,
        "reasons": pynvml.nvmlClocksEventReasonGpuIdle,
        "sm clock": 345,
        "memory clock": 2619,
        "temperature": True,
        "slowdown": 87,
        "power": 70_000,
        "utilization": 0,
        "mig": [0, 0],
        "mig devices": 0,
        "link": 1,
        "link version": 4,
        "link errors": 0,
        "link remote": pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH,
        "link remote bus": "00000000:C0:00.0",
        "link count": 18,
        "ancestor": pynvml.NVML_TOPOLOGY_SYSTEM,
        "p2p": pynvml.NVML_P2P_STATUS_OK,
        "processes": [],
        "fabric": pynvml.NVML_GPU_FABRIC_STATE_COMPLETED,
    }
    pynvml.nvmlEventSetFree(events)
    pynvml.nvmlShutdown()


@on("p5.48xlarge")
@pytest.mark.usefixtures("node")
def test_a_function_that_is_not_simulated_is_not_found():
    assert status_of(pynvml.nvmlDeviceGetBoardId, gpu()) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND


@on("p5.48xlarge", {"kind": "function-missing", "call": "nvmlDeviceGetRemappedRows"})
@pytest.mark.usefixtures("node")
def test_a_function_that_the_driver_lacks_is_not_found():
    assert status_of(pynvml.nvmlDeviceGetRemappedRows, gpu()) == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND


@on("p4d.24xlarge")
@pytest.mark.usefixtures("node")
def test_a_link_past_the_last_is_an_invalid_argument():
    assert pynvml.nvmlDeviceGetNvLinkState(gpu(), 11) == 1
    assert status_of(pynvml.nvmlDeviceGetNvLinkState, gpu(), 12) == pynvml.NVML_ERROR_INVALID_ARGUMENT


@on("g5.48xlarge")
@pytest.mark.usefixtures("node")
def test_a_gpu_without_nvlink_does_not_support_links():
    assert status_of(pynvml.nvmlDeviceGetNvLinkState, gpu(), 0) == pynvml.NVML_ERROR_NOT_SUPPORTED


@on("g4dn.xlarge", {"kind": "stray-process", "index": 0, "pid": 7, "memory_mib": 2})
@pytest.mark.usefixtures("node")
def test_a_process_list_without_room_says_how_much_is_needed():
    size = ctypes.c_uint(0)
    call = pynvml.nvmlLib.nvmlDeviceGetComputeRunningProcesses_v3
    assert call(gpu(), ctypes.byref(size), None) == pynvml.NVML_ERROR_INSUFFICIENT_SIZE
    assert size.value == 1
    [process] = pynvml.nvmlDeviceGetComputeRunningProcesses(gpu())
    assert (process.pid, process.usedGpuMemory) == (7, 2 * 2**20)


@on("g4dn.xlarge")
@pytest.mark.usefixtures("node")
def test_a_name_longer_than_its_buffer_is_refused():
    buffer = ctypes.create_string_buffer(4)
    status = pynvml.nvmlLib.nvmlDeviceGetName(gpu(), buffer, ctypes.c_uint(4))
    assert status == pynvml.NVML_ERROR_INSUFFICIENT_SIZE


@on("p4de.24xlarge", mig_layout=({"3g.40gb": 1, "1g.10gb": 2},))
@pytest.mark.usefixtures("node")
def test_mig_devices_are_found_below_their_gpu():
    parent = gpu(0)
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(parent, 0)
    attributes = pynvml.nvmlDeviceGetAttributes(device)
    assert pynvml.nvmlDeviceGetName(device) == "NVIDIA A100-SXM4-80GB MIG 3g.40gb"
    assert (attributes.gpuInstanceSliceCount, attributes.multiprocessorCount) == (3, 42)
    assert pynvml.nvmlDeviceGetMemoryInfo(device).total // 2**20 == attributes.memorySizeMB
    assert pynvml.nvmlDeviceIsMigDeviceHandle(device).value == 1
    assert pynvml.nvmlDeviceIsMigDeviceHandle(parent).value == 0
    again = pynvml.nvmlDeviceGetHandleByUUID(pynvml.nvmlDeviceGetUUID(device))
    assert pynvml.nvmlDeviceGetGpuInstanceId(again) == pynvml.nvmlDeviceGetGpuInstanceId(device)
    owner = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device)
    assert pynvml.nvmlDeviceGetUUID(owner) == pynvml.nvmlDeviceGetUUID(parent)
    third = pynvml.nvmlDeviceGetMigDeviceHandleByIndex
    assert status_of(third, parent, 3) == pynvml.NVML_ERROR_NOT_FOUND
    assert status_of(third, parent, 7) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert status_of(third, gpu(1), 0) == pynvml.NVML_ERROR_NOT_SUPPORTED


@on("p4de.24xlarge", mig_layout=({"7g.80gb": 1},))
@pytest.mark.usefixtures("node")
def test_remapped_rows_are_not_told_while_there_are_instances():
    assert status_of(pynvml.nvmlDeviceGetRemappedRows, gpu(0)) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert pynvml.nvmlDeviceGetRemappedRows(gpu(1)) == (0, 0, 0, 0)


@on("p4de.24xlarge", mig_layout=({"7g.80gb": 1},))
@pytest.mark.usefixtures("node")
def test_a_gpu_function_refuses_a_mig_device():
    device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu(0), 0)
    assert status_of(pynvml.nvmlDeviceGetEccMode, device) == pynvml.NVML_ERROR_INVALID_ARGUMENT


@on("g4dn.xlarge")
@pytest.mark.usefixtures("node")
def test_an_older_gpu_retires_pages_instead_of_remapping_rows():
    assert pynvml.nvmlDeviceGetRetiredPages_v2(gpu(), 0) == []
    assert pynvml.nvmlDeviceGetRetiredPagesPendingStatus(gpu()) == 0
    assert status_of(pynvml.nvmlDeviceGetRemappedRows, gpu()) == pynvml.NVML_ERROR_NOT_SUPPORTED
    assert status_of(pynvml.nvmlDeviceGetMigMode, gpu()) == pynvml.NVML_ERROR_NOT_SUPPORTED


@on("p5.48xlarge")
@pytest.mark.usefixtures("node")
def test_an_idle_pcie_link_trains_down_and_its_maximum_stays():
    assert pynvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu()) == 1
    assert pynvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu()) == 5
    assert pynvml.nvmlDeviceGetCurrPcieLinkWidth(gpu()) == 16


@on("p5.48xlarge")
@pytest.mark.usefixtures("node")
def test_each_half_of_the_gpus_is_near_its_half_of_the_cpus():
    words = 3
    first = pynvml.nvmlDeviceGetCpuAffinity(gpu(0), words)
    last = pynvml.nvmlDeviceGetCpuAffinity(gpu(7), words)
    masks = [sum(word << 64 * place for place, word in enumerate(each)) for each in (first, last)]
    assert masks == [(1 << 96) - 1, ((1 << 96) - 1) << 96]
    assert list(pynvml.nvmlDeviceGetMemoryAffinity(gpu(7), 1, 0)) == [0b10]


@on("p5.48xlarge", {"kind": "numa-unknown"})
@pytest.mark.usefixtures("node")
def test_a_hidden_numa_node_is_near_every_node():
    assert list(pynvml.nvmlDeviceGetMemoryAffinity(gpu(7), 1, 0)) == [0b11]
    assert status_of(pynvml.nvmlDeviceGetNumaNodeId, gpu(7)) == pynvml.NVML_ERROR_NOT_SUPPORTED


@on("p5.48xlarge")
@pytest.mark.usefixtures("node")
def test_waiting_for_an_event_ends_with_a_timeout():
    events = pynvml.nvmlEventSetCreate()
    assert status_of(pynvml.nvmlEventSetWait, events, 1) == pynvml.NVML_ERROR_TIMEOUT


@on("p5.48xlarge", {"kind": "gpu-lost", "index": 2})
@pytest.mark.usefixtures("node")
def test_a_lost_gpu_is_counted_and_answers_nothing():
    assert pynvml.nvmlDeviceGetCount() == 8
    assert status_of(gpu, 2) == pynvml.NVML_ERROR_GPU_IS_LOST


def test_a_call_before_init_finds_nvml_uninitialized():
    with install(NodeProfile(machine_type="g4dn.xlarge", driver_version=DRIVER)):
        assert status_of(pynvml.nvmlDeviceGetCount) == pynvml.NVML_ERROR_UNINITIALIZED


def test_a_node_without_nvml_has_no_library_to_load():
    faults: Any = ({"kind": "nvml-missing"},)
    with install(NodeProfile(machine_type="g4dn.xlarge", driver_version=DRIVER, faults=faults)):
        assert status_of(pynvml.nvmlInit) == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND


def test_a_removed_simulation_leaves_the_bindings_as_they_were():
    before = pynvml.nvmlLib, pynvml.CDLL
    with install(NodeProfile(machine_type="g4dn.xlarge", driver_version=DRIVER)):
        pynvml.nvmlInit()
        assert pynvml.nvmlLib is not before[0]
    assert (pynvml.nvmlLib, pynvml.CDLL) == before
    assert not pynvml._nvmlGetFunctionPointer_cache


def test_only_nodes_with_the_same_devices_share_a_sysfs():
    def shown(mtu: int) -> tuple[Path, set[str]]:
        nics: Any = {"kind": "gvnic", "count": 2, "mtu": mtu}
        with install(NodeProfile(machine_type="g4dn.12xlarge", driver_version=DRIVER, nics=nics)):
            root = Path(os.environ[SYSFS_VARIABLE])
            return root, {file.read_text() for file in root.glob("bus/pci/devices/*/net/*/mtu")}

    before = os.environ.get(SYSFS_VARIABLE)
    first, again, other = shown(8244), shown(8244), shown(1460)
    assert os.environ.get(SYSFS_VARIABLE) == before
    assert first == again
    assert first[0] != other[0]
    assert (first[1], other[1]) == ({"8244\n"}, {"1460\n"})


def test_errors_have_the_texts_of_nvml():
    with install(NodeProfile(machine_type="g4dn.xlarge", driver_version=DRIVER)):
        assert pynvml.nvmlErrorString(pynvml.NVML_ERROR_GPU_IS_LOST) == "GPU is lost"
