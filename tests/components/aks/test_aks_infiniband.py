"""InfiniBand on AKS: what the program installs, what pods of teams get, and what it never gives them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.clouds.aks.topology import neighbours, topology_file
from gpu_platform.planning.workloads.section import PodPlan
from gpu_platform.stack.loaded import plan_platform
from tests.components.aks.aks_recorded import EXISTING, ID, TEAM, platform_of, recorded
from tests.support.definitions import CRDS, unknown_fields
from tests.support.recorded import Recorded
from tests.support.restricted import violations

H100: dict[str, Any] = {"machine_type": "Standard_ND96isr_H100_v5", "zones": ["1"]}
A100: dict[str, Any] = {"machine_type": "Standard_ND96amsr_A100_v4", "zones": ["1"]}
GB200: dict[str, Any] = {"machine_type": "Standard_ND128isr_NDR_GB200_v6", "zones": ["1"]}
NC: dict[str, Any] = {"name": "serve", "workload": "inference"}
JOB: dict[str, Any] = {
    "name": "pretrain",
    "pool": "train",
    "image": "registry.example.com/train:1",
    "command": ["python", "train.py"],
    "gpus": 8,
    "replicas": 2,
    "cpu": 16,
    "memory": "256Gi",
    "run_as_user": 1000,
}
OF_TEAM: dict[str, Any] = {**TEAM, "members": [f"group:{ID}"], "quota": {"gpus": 16, "cpu": 64, "memory": "1Ti"}}
CRD = "mellanox.com_nicclusterpolicies"


def planned(*pools: dict[str, Any], **rest: Any) -> EnvironmentPlan:
    plan = plan_platform(platform_of(*pools, **rest), "test")
    assert plan.kind == "environment"
    return plan


def job_pod(gpus: int = 8) -> PodPlan:
    plan = planned(H100, teams=[{**OF_TEAM, "training_jobs": [{**JOB, "gpus": gpus}]}])
    return plan.workloads[0].training_jobs[0].pod


def objects(recording: Recorded, kind: str) -> list[dict[str, Any]]:
    return [dict(one.inputs) for one in recording.resources if one.inputs.get("kind") == kind]


def policy(recording: Recorded) -> dict[str, Any]:
    (found,) = objects(recording, "NicClusterPolicy")
    return found


@pytest.mark.parametrize(("pool", "nics"), [(H100, 1), (A100, 2)])
def test_nodes_have_eight_nics_next_to_their_gpus(pool: dict[str, Any], nics: int) -> None:
    (found,) = planned(pool).pools
    assert found.node_expectation.allocatable["rdma/ib"] == 8
    expected = found.expectations.expect
    assert expected["fabric-nics"].value == {"infiniband": 8}
    assert {len(near) for near in expected["nic-affinity"].value.values()} == {nics}
    assert expected["locked-memory"].value is True


def test_a_training_pool_on_gb200_uses_nvlink_and_tcp() -> None:
    (found,) = planned(GB200).pools
    assert found.cloud_nodes.nic_resources == {}
    assert "the program does not set it up" in next(
        one.why for one in planned(GB200).decisions if one.what == "InfiniBand"
    )


@pytest.mark.parametrize("name", ["ndv4", "ndv5"])
def test_the_topology_file_has_each_gpu_and_nic_behind_one_switch(name: str) -> None:
    series = load_catalog().infiniband_series[name]
    system = ElementTree.fromstring(topology_file(series).data[f"{name}.xml"])
    found = {
        gpu.attrib["busid"]: tuple(one.attrib["busid"] for one in bridge if one.attrib["class"] == "0x020700")
        for bridge in system.iterfind("cpu/pci")
        for gpu in bridge
        if gpu.attrib["class"] == "0x030200"
    }
    assert found == neighbours(series)
    assert len(found) == len({nic for near in found.values() for nic in near}) == 8
    assert (
        len({bridge.attrib["busid"] for bridge in system.iterfind("cpu/pci")})
        == 16 // len(next(iter(found.values()))) // 2
    )


def test_numa_nodes_of_machine_types_are_those_of_the_topology_file() -> None:
    catalog = load_catalog()
    for machine in catalog.machine_types.values():
        series = catalog.infiniband(machine) if machine.vendor == "azure" else None
        if series is None or machine.numa_nodes is None:
            continue
        of_gpus = {gpu: numa.node for numa in series.numa_nodes for one in numa.switches for gpu in one.gpus}
        assert tuple(of_gpus[gpu] for gpu in sorted(of_gpus)) == machine.numa_nodes


def test_a_job_on_whole_nodes_requests_all_nics_and_mounts_the_topology() -> None:
    pod = job_pod()
    assert pod.workload.requests["rdma/ib"] == "8"
    assert pod.env["GPU_PLATFORM_INTERCONNECT"] == "infiniband"
    assert pod.fabric is not None
    assert pod.env["NCCL_TOPO_FILE"] == "/etc/nccl-topology/ndv5.xml"
    assert pod.env["NCCL_SOCKET_IFNAME"] == "eth0"
    assert [(one.config_map, one.path) for one in pod.fabric.mounts] == [
        ("nccl-topology-ndv5", "/etc/nccl-topology")
    ]


def test_a_job_on_a_part_of_a_node_has_no_nics() -> None:
    pod = job_pod(4)
    assert "rdma/ib" not in pod.workload.requests
    assert pod.fabric is None


def test_pods_with_infiniband_are_restricted_and_run_their_own_command() -> None:
    recording = recorded(H100, teams=[{**OF_TEAM, "training_jobs": [JOB]}])
    (job,) = objects(recording, "Job")
    spec = job["spec"]["template"]["spec"]
    assert violations(spec) == []
    assert "hostNetwork" not in spec
    assert "add" not in str(spec["containers"][0]["securityContext"])
    assert spec["containers"][0]["command"][0] != "/bin/sh"
    (namespace,) = (one for one in objects(recording, "Namespace") if one["metadata"]["name"] == "vision")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_members_find_the_topology_in_their_namespace_and_cannot_change_it() -> None:
    plan = planned(H100, teams=[OF_TEAM])
    (found,) = plan.teams
    assert [file.config_map for file in found.files] == ["nccl-topology-ndv5"]
    values = next(one.values for one in found.policies if "platform_objects" in one.values)
    assert "nccl-topology-ndv5" in values["platform_objects"]
    recording = recorded(H100, teams=[OF_TEAM])
    assert [
        one["metadata"]["namespace"]
        for one in objects(recording, "ConfigMap")
        if one["metadata"]["name"] == "nccl-topology-ndv5"
    ] == ["vision"]


def test_a_team_that_claims_gpus_has_the_topology() -> None:
    plan = planned(
        {**H100, "sharing": {"mode": "dra"}},
        operator={"driver": {"owner": "host", "version": "580.126.09"}},
        teams=[{**OF_TEAM, "quota": {"devices": {"gpu.nvidia.com": 16}, "cpu": 8, "memory": "32Gi"}}],
    )
    assert [file.config_map for file in plan.teams[0].files] == ["nccl-topology-ndv5"]
    assert "GPUDirect RDMA" in {one.what for one in plan.decisions}


def test_a_team_without_whole_nodes_has_no_topology() -> None:
    plan = planned(H100, teams=[{**OF_TEAM, "quota": {"gpus": 4, "cpu": 8, "memory": "32Gi"}}])
    assert plan.teams[0].files == ()


def test_members_get_no_more_nics_than_belong_to_their_gpus() -> None:
    (found,) = planned(H100, teams=[OF_TEAM]).teams
    values = next(one.values for one in found.policies if "nic_shares" in one.values)
    assert values["nic_shares"] == "{'rdma/ib': [[8, 8]]}"


def test_the_burn_in_measures_over_infiniband_without_privileges() -> None:
    plan = planned(H100, validation={"burn_in": {}})
    assert plan.burn_in is not None
    assert plan.burn_in.pod_security == "restricted"
    assert plan.burn_in.pools[0].network == "rdma/ib"
    (of_a100,) = planned(A100, validation={"burn_in": {}}).burn_in.pools  # pyrefly: ignore[missing-attribute]
    assert of_a100.least["all-reduce-nodes"].gb_per_second == 180
    together = plan.burn_in.pools[0].together
    assert together is not None
    assert together.workload.requests["rdma/ib"] == "8"
    names = [
        one["metadata"]["name"]
        for one in objects(recorded(H100, validation={"burn_in": {}}), "ConfigMap")
        if one["metadata"]["namespace"] == "gpu-platform-burn-in"
    ]
    assert "nccl-topology-ndv5" in names


def test_only_nodes_with_infiniband_get_its_driver() -> None:
    recording = recorded(H100, NC)
    pools = recording.of("KubernetesClusterNodePool")
    assert [pool.inputs["nodeLabels"].get("gpu-platform.dev/infiniband") for pool in pools] == ["true", None]
    (term,) = policy(recording)["spec"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term["matchExpressions"] == [
        {"key": "gpu-platform.dev/infiniband", "operator": "In", "values": ["true"]}
    ]
    (daemon,) = (one for one in objects(recording, "DaemonSet") if "memory" in one["metadata"]["name"])
    assert daemon["spec"]["template"]["spec"]["nodeSelector"] == {"gpu-platform.dev/infiniband": "true"}


def test_a_new_driver_never_drains_nodes() -> None:
    assert policy(recorded(H100))["spec"]["ofedDriver"]["upgradePolicy"] == {"autoUpgrade": False}


def test_the_plugin_advertises_infiniband_nics_but_no_ethernet_nics() -> None:
    config = json.loads(policy(recorded(H100))["spec"]["sriovDevicePlugin"]["config"])
    (resource,) = config["resourceList"]
    assert (resource["resourcePrefix"], resource["resourceName"]) == ("rdma", "ib")
    assert resource["selectors"] == {"vendors": ["15b3"], "linkTypes": ["infiniband"], "isRdma": True}


def test_node_feature_discovery_runs_once_and_the_gpu_driver_waits_for_nothing() -> None:
    recording = recorded(H100, NC)
    assert recording.one("Release", "network-operator").inputs["values"]["nfd"]["enabled"] is False
    values = recording.one("Release", "gpu-operator").inputs["values"]
    assert values.get("nfd", {}).get("enabled") is not False
    assert "rdma" not in values["driver"]


def test_images_come_from_the_mirror() -> None:
    spec = policy(recorded(H100, images={"mirror": "registry.example.com/mirror"}))["spec"]
    for component in ("ofedDriver", "sriovDevicePlugin"):
        assert spec[component]["repository"] == "registry.example.com/mirror/nvcr.io/nvidia/mellanox"


@pytest.mark.parametrize("pools", [[{**H100, "network": {"rdma": False}}], [NC], [GB200]])
def test_nothing_is_installed_without_infiniband(pools: list[dict[str, Any]]) -> None:
    recording = recorded(*pools)
    assert objects(recording, "NicClusterPolicy") == []
    assert [one.name for one in recording.of("Release") if "network" in one.name] == []


def test_an_owner_of_the_network_operator_keeps_it() -> None:
    cluster = {**EXISTING, "parts": {"network_operator": "present"}}
    recording = recorded(H100, cluster=cluster)
    assert objects(recording, "NicClusterPolicy") == []
    plan = planned(H100, cluster=cluster)
    assert plan.cluster.cloud is not None
    assert [(part.name, part.install) for part in plan.cluster.cloud.parts] == [("network_operator", False)]
    assert "gpu-platform.dev/infiniband" in next(
        one.why for one in plan.decisions if one.what == "Network Operator"
    )


@pytest.mark.parametrize("slice_", ["system.slice", "kubereserved.slice"])
def test_new_containers_inherit_the_limit_in_each_slice_of_containerd(slice_: str, tmp_path: Path) -> None:
    runtime = tmp_path / "cgroup" / slice_ / "containerd.service"
    for directory, process in ((runtime, "11\n"), (tmp_path / "cgroup" / "kubepods.slice" / "pod", "22\n")):
        directory.mkdir(parents=True)
        (directory / "cgroup.procs").write_text(process)
    asked = f"[ $1 = daemon-reload ] || echo /{slice_}/containerd.service"
    commands = {"systemctl": asked, "prlimit": "echo $3"}
    for name, body in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    (daemon,) = (one for one in objects(recorded(H100), "DaemonSet") if "memory" in one["metadata"]["name"])
    (limits,) = daemon["spec"]["template"]["spec"]["initContainers"]
    script = limits["args"][0].replace("/sys/fs/cgroup", str(tmp_path / "cgroup"))
    script = script.replace("/etc/systemd", str(tmp_path / "systemd"))
    search = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", script], env=search, capture_output=True, text=True, check=True)
    assert sorted(done.stdout.split()) == ["11", "22"]


def test_the_feature_of_the_subscription_is_a_prerequisite() -> None:
    (need,) = planned(H100).pools[0].cloud_nodes.account_needs
    assert f"az feature register --subscription {ID} --namespace Microsoft.ContainerService" in need.fix
    assert f"az provider register --subscription {ID}" in need.fix


@pytest.mark.skipif(not Path(CRDS, f"{CRD}.yaml").is_file(), reason="GPU_PLATFORM_CRDS lacks NicClusterPolicy")
def test_the_policy_has_only_fields_of_its_crd() -> None:
    assert unknown_fields(policy(recorded(H100)), CRD) == []
