"""Fabric NICs are counted in sysfs, and each GPU has a NIC behind its PCIe switch if switches are visible."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

import pytest
from agent_tables import NOT_SUPPORTED, expecting, findings, healthy_gpu, node, of_machine, simulated

from gpu_platform.live.node_reports import expected_pool
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.stack.loaded import plan_platform
from tests.planning.test_node_gate import stack
from tests.support.sold import sold
from validators.agent.checks import run_checks
from validators.agent.expectations import Expectations
from validators.agent.fabric import read_daemons, read_locked_memory, read_pci
from validators.agent.snapshot import Reading

GPU = ("0x10de", "0x2330", "0x030200")
EFA = ("0x1d0f", "0xefa2", "0x020000")
MLX5 = ("0x15b3", "0x101e", "0x020000")
GVNIC = ("0x1ae0", "0x0042", "0x020000")
BRIDGE = ("0x10b5", "0x8796", "0x060400")


@pytest.fixture
def sysfs(tmp_path, monkeypatch):
    """Return a function that writes PCI devices into a sysfs, each at its path below the host bridge."""
    monkeypatch.setenv("GPU_PLATFORM_SYSFS", str(tmp_path))

    def write(devices):
        flat = tmp_path / "bus/pci/devices"
        flat.mkdir(parents=True)
        for path, identity in devices.items():
            folder = tmp_path / "devices" / path
            folder.mkdir(parents=True, exist_ok=True)
            for file, text in zip(("vendor", "device", "class"), identity, strict=True):
                (folder / file).write_text(text + "\n")
            (flat / folder.name).symlink_to(folder)
        return read_pci()

    return write


def with_pci(*devices, gpus=2):
    found = node(*(healthy_gpu(index) for index in range(gpus)))
    return dataclasses.replace(found, pci_devices=Reading([tuple(each) for each in devices]))


def gpu(index, *above):
    return ("gpu", f"0000:{0x10 + index:02x}:00.0", above)


def nic(kind, number, *above):
    return (kind, f"0000:{0x40 + number:02x}:00.0", above)


def test_gpus_and_nics_are_found_by_their_identifiers_with_the_bridges_above_them(sysfs):
    found = sysfs(
        {
            "pci0000:00/0000:00:01.0": BRIDGE,
            "pci0000:00/0000:00:01.0/0000:10:00.0": GPU,
            "pci0000:00/0000:00:01.0/0000:40:00.0": EFA,
            "pci0000:01/0000:41:00.0": MLX5,
            "pci0000:01/0000:42:00.0": GVNIC,
        }
    )
    assert found == [
        ["gpu", "0000:10:00.0", ["pci0000:00", "0000:00:01.0"]],
        ["efa", "0000:40:00.0", ["pci0000:00", "0000:00:01.0"]],
        ["mlx5", "0000:41:00.0", ["pci0000:01"]],
        ["gvnic", "0000:42:00.0", ["pci0000:01"]],
    ]


@pytest.mark.parametrize(
    ("identity", "kind"),
    [
        (("0x1d0f", "0xefa4", "0x020000"), "efa"),
        (("0x1d0f", "0xec20", "0x020000"), ""),
        (("0x1ae0", "0x1452", "0x020000"), "gvnic"),
        (("0x1ae0", "0x0084", "0x088000"), ""),
        (("0x15b3", "0x101e", "0x020700"), "infiniband"),
        (("0x15b3", "0x1003", "0x0c0600"), "infiniband"),
    ],
)
def test_nics_of_newer_generations_count_and_other_devices_of_the_cloud_do_not(sysfs, identity, kind):
    assert [one[0] for one in sysfs({"pci0000:00/0000:40:00.0": identity})] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (2, []),
        (3, []),
        (1, [("fabric-nics", None, "fail", "1 EFA device")]),
        (0, [("fabric-nics", None, "fail", "none")]),
    ],
)
def test_fewer_nics_than_the_node_was_created_with_fail(found, expected):
    snapshot = with_pci(gpu(0), gpu(1), *(nic("efa", number) for number in range(found)))
    assert findings(snapshot, expecting(fabric_nics={"efa": 2})) == expected


NEIGHBOURS = {"0000:10:00.0": ["0000:40:00.0"], "0000:11:00.0": ["0000:41:00.0", "0000:42:00.0"]}


@pytest.mark.parametrize(
    ("nics", "expected"),
    [
        ((0, 1, 2), []),
        ((1, 2), [("nic-affinity", "GPU 0", "fail", "no NIC")]),
        ((0, 2), [("nic-affinity", "GPU 1", "fail", "NIC 0000:42:00.0")]),
    ],
)
def test_known_neighbours_of_a_gpu_must_be_on_the_bus(nics, expected):
    snapshot = with_pci(gpu(0), gpu(1), *(nic("infiniband", number) for number in nics))
    assert findings(snapshot, expecting(nic_affinity=NEIGHBOURS)) == expected


def test_a_gpu_at_an_address_outside_the_topology_file_fails():
    others = {"0000:20:00.0": ["0000:40:00.0"]}
    snapshot = with_pci(gpu(0), nic("infiniband", 0), gpus=1)
    [(_, _, verdict, observed)] = findings(snapshot, expecting(nic_affinity=others))
    assert (verdict, observed) == ("fail", "GPU at 0000:10:00.0")


@pytest.mark.parametrize(
    ("limit", "verdict", "observed"), [("unlimited", "pass", "unlimited"), ("8388608", "fail", "8192 KiB")]
)
def test_containers_must_be_able_to_lock_all_memory(limit, verdict, observed, monkeypatch, tmp_path):
    (tmp_path / "self").mkdir()
    lines = ["Max open files     65536     1048576     files", f"Max locked memory  {limit}  {limit}  bytes", ""]
    (tmp_path / "self/limits").write_text("\n".join(lines))
    monkeypatch.setenv("GPU_PLATFORM_PROC", str(tmp_path))
    snapshot = dataclasses.replace(node(healthy_gpu()), locked_memory=Reading(read_locked_memory()))
    [entry] = [one for one in run_checks(snapshot, expecting(locked_memory=True)) if one["id"] == "locked-memory"]
    assert (entry["verdict"], entry["observed"], entry["severity"]) == (verdict, observed, "warning")


def test_an_unreadable_limit_of_locked_memory_is_unknown():
    assert findings(node(healthy_gpu()), expecting(locked_memory=True))[0][2] == "unknown"


def test_ethernet_nics_of_the_same_vendor_are_not_infiniband_nics():
    ethernet, infiniband = nic("mlx5", 0), nic("infiniband", 1)
    snapshot = with_pci(gpu(0), ethernet, infiniband)
    [(_, _, verdict, observed)] = findings(snapshot, expecting(fabric_nics={"infiniband": 2}))
    assert (verdict, observed) == ("fail", "1 RDMA NIC (mlx5), 1 InfiniBand NIC")


def test_nics_of_another_kind_are_not_counted():
    snapshot = with_pci(gpu(0), nic("gvnic", 0), nic("gvnic", 1))
    [(_, _, verdict, observed)] = findings(snapshot, expecting(fabric_nics={"mlx5": 2}))
    assert (verdict, observed) == ("fail", "2 gVNIC interfaces")


@pytest.mark.parametrize(
    "snapshot", [with_pci(nic("efa", 0)), node(healthy_gpu())], ids=["a sandboxed container", "no sysfs"]
)
def test_a_sysfs_that_hides_gpus_or_is_not_readable_is_unknown_and_no_failure(snapshot):
    assert [entry[2] for entry in findings(snapshot, expecting(fabric_nics={"efa": 2}))] == ["unknown"]


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        # Each GPU and its NIC have a separate switch.
        ([gpu(0, "r0", "s0"), nic("efa", 0, "r0", "s0"), gpu(1, "r1", "s1"), nic("efa", 1, "r1", "s1")], []),
        ([gpu(0, "r0", "s0", "p0"), nic("efa", 0, "r0", "s0", "p1"), gpu(1, "r0", "s0", "p2")], []),
        (
            [gpu(0, "r0", "s0"), nic("efa", 0, "r0", "s0"), gpu(1, "r0", "s1")],
            [("nic-affinity", "GPU 1", "fail", "PHB at best")],
        ),
        (
            [gpu(0, "r0", "s0"), nic("efa", 0, "r0", "s0"), gpu(1, "r1", "s1")],
            [("nic-affinity", "GPU 1", "fail", "SYS at best")],
        ),
        # On a virtual machine, every device is attached to the PCIe root.
        (
            [gpu(0, "r0"), gpu(1, "r0"), nic("efa", 0, "r0")],
            [("nic-affinity", None, "unknown", "the machine does not show its PCIe switches")],
        ),
    ],
)
def test_a_gpu_without_a_near_nic_fails_only_where_others_show_their_switch(devices, found):
    assert findings(with_pci(*devices), expecting(nic_affinity="efa")) == found


@pytest.mark.parametrize(
    ("cloud", "resource"),
    [("eks", "EKS node group train"), ("karpenter", "Karpenter NodePool train"), ("gke", "GKE node pool")],
)
def test_the_plan_says_which_resource_creates_a_node_anew(cloud, resource):
    platform = stack(cloud, "never", 1, machine_type="a3-highgpu-8g" if cloud == "gke" else "p5.48xlarge")
    plan = plan_platform(platform, "test")
    assert isinstance(plan, EnvironmentPlan)
    assert resource in expected_pool(plan.pools[0], datetime.now(UTC)).replacement


@pytest.mark.parametrize(
    ("cloud", "machine_type", "nics"),
    [
        ("eks", "p5.48xlarge", {"efa": 32}),
        ("eks", "p5en.48xlarge", {"efa": 16}),
        ("karpenter", "p5.48xlarge", {"efa": 32}),
        ("eks", "g6.xlarge", None),
        ("gke", "a3-megagpu-8g", {"gvnic": 9}),
        ("gke", "a3-highgpu-8g", {"gvnic": 5}),
        ("gke", "a3-ultragpu-8g", {"mlx5": 8}),
        ("gke", "a2-highgpu-8g", None),
        ("sandbox", "p5.48xlarge", None),
    ],
)
def test_the_plan_expects_the_nics_that_nodes_are_created_with(cloud, machine_type, nics):
    platform = stack(cloud, "never", machine_type=machine_type)
    if machine_type == "g6.xlarge":
        platform["pools"][0]["workload"] = "inference"
        del platform["teams"]
    platform["pools"][0] = sold(platform["pools"][0])
    plan = plan_platform(platform, "test")
    assert isinstance(plan, EnvironmentPlan)
    found = plan.pools[0].expectations.expect.get("fabric-nics")
    assert (found.value if found else None) == nics
    assert ("locked-memory" in plan.pools[0].expectations.expect) == bool(nics and "gvnic" not in nics)


# -- the fabric manager -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("processes", "verdict", "observed"),
    [
        ({2: "kthreadd", 1200: "nv-fabricmanage"}, "pass", "runs"),
        ({2: "kthreadd", 1200: "nvidia-persiste"}, "fail", "does not run"),
        ({1: "python"}, "not-applicable", "processes of the host are not visible in a container"),
    ],
)
def test_a_fabric_manager_that_has_ended_is_seen_where_processes_are(
    processes, verdict, observed, monkeypatch, tmp_path
):
    for pid, name in processes.items():
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(f"{name}\n")
    monkeypatch.setenv("GPU_PLATFORM_PROC", str(tmp_path))
    seen = dataclasses.replace(simulated("p5.48xlarge"), daemons=Reading(read_daemons()))
    [entry] = [one for one in run_checks(seen, of_machine("p5.48xlarge")) if one["id"] == "fabric-manager"]
    assert (entry["verdict"], entry["observed"]) == (verdict, observed)


def test_only_machines_with_a_fabric_manager_need_one():
    assert "fabric-manager" in of_machine("p4d.24xlarge").expect
    for machine in ("p5.4xlarge", "g6.48xlarge", "p6e-gb200.36xlarge"):
        assert "fabric-manager" not in of_machine(machine).expect


@pytest.mark.parametrize(
    ("machine", "words"), [("p6-b200.48xlarge", "nvidia-fabricmanager"), ("p6e-gb200.36xlarge", "of the rack")]
)
def test_the_remedy_names_the_fabric_manager_that_is_there(machine, words):
    snapshot = simulated(machine, {"kind": "fabric-unregistered", "index": 0})
    [entry] = [one for one in run_checks(snapshot, of_machine(machine)) if one["verdict"] == "fail"]
    assert words in entry["remediation"]


# -- values that a GPU reports about itself ----------------------------------------------------------------------

NOTHING_EXPECTED = Expectations()


@pytest.mark.parametrize(
    ("check", "reading", "value"),
    [
        ("fabric-state", "fabric", (2, 0)),
        ("fabric-state", "fabric", (1, 0)),
        ("row-remapping", "remapped_rows", (0, 1, True, False)),
        ("ecc-errors", "ecc_errors", {"memory": 1}),
        ("sram-errors", "sram_exceeded", True),
        ("retired-pages", "retired_pages", (0, 16, False)),
        ("recovery-action", "recovery_action", 1),
    ],
)
def test_what_a_gpu_reports_of_itself_counts_without_an_expectation(check, reading, value):
    found = run_checks(node(healthy_gpu(**{reading: value})), NOTHING_EXPECTED)
    [entry] = [one for one in found if one["id"] == check]
    assert entry["verdict"] == "fail"
    assert entry["source"]


def test_what_a_gpu_does_not_report_fails_nothing_without_an_expectation():
    silent = dict.fromkeys(
        ("fabric", "remapped_rows", "ecc_errors", "sram_exceeded", "retired_pages", "recovery_action"),
        NOT_SUPPORTED,
    )
    for gpu in (healthy_gpu(), healthy_gpu(**silent)):
        assert [one for one in run_checks(node(gpu), NOTHING_EXPECTED) if one["verdict"] == "fail"] == []
