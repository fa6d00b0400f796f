"""In every sharing mode, all pods that fit run, and one more pod does not. The tests use the real API server and
scheduler.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.live.client import Refused
from sandbox.simulator.kube import Api
from tests.e2e.conftest import SANDBOX, TOLERATION, VALIDATION_TIMEOUT, Platform
from tests.support.eventually import eventually
from tests.support.restricted import satisfying

pytestmark = [pytest.mark.long, pytest.mark.sandbox, pytest.mark.xdist_group("e2e-sharing")]

NEW_DRIVER = "580.173.02"
SHARED = "nvidia.com/gpu.shared"
SEVENTH = "nvidia.com/mig-1g.10gb"
ATTRIBUTES = "device.attributes['gpu.nvidia.com']"


def stack(*pools: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {
        "kind": "environment",
        "cluster": {"provider": "sandbox", "name": SANDBOX},
        "pools": list(pools),
        "validation": {"timeout": VALIDATION_TIMEOUT},
        **rest,
    }


def pool(name: str, machine_type: str, sharing: Any, **rest: Any) -> dict[str, Any]:
    made = {"name": name, "machine_type": machine_type, "count": {"desired": 1}, "workload": "development"}
    return {**made, "sharing": sharing, **rest}


def bring(platform: Platform, wanted: dict[str, Any]) -> Platform:
    """Deploy a stack, unless it is already deployed."""
    stands = platform.state.get("shop")
    if stands is not None and _by_claims(stands) is not _by_claims(wanted):
        assert platform.run("destroy", str(platform.write(stands)), "--engine", platform.engine, "--yes").code == 0
    if platform.state.get("shop") != wanted:
        ran = platform.up(wanted)
        assert ran.code == 0, ran.err
    platform.write(wanted)
    return platform


def _by_claims(wanted: dict[str, Any]) -> bool:
    return any(isinstance(one.get("sharing"), dict) and one["sharing"]["mode"] == "dra" for one in wanted["pools"])


def runs(platform: Platform, name: str, namespace: str = "default") -> None:
    eventually(lambda: platform.find_pod(name, namespace)["status"].get("phase") == "Running")


def fill(platform: Platform, prefix: str, resource: str, count: int, **spec: Any) -> None:
    """Create `count` pods, each with one unit of the resource, and wait until all of them run."""
    for index in range(count):
        platform.pod(f"{prefix}-{index}", resource, **spec)
    for index in range(count):
        runs(platform, f"{prefix}-{index}")


def on(pool_name: str) -> dict[str, Any]:
    return {"nodeSelector": {names.POOL_LABEL: pool_name}}


# -- device plugin: names, nodes, replicas, MIG -----------------------------------------------------------

BY_NAME = stack(
    pool(
        "lab",
        "p4de.24xlarge",
        "whole",
        count={"desired": 3},
        per_node=[{"nodes": ["lab-1"], "sharing": "cut"}, {"nodes": ["lab-2"], "sharing": "slices"}],
    ),
    pool("serve", "g4dn.xlarge", "inference", workload="inference"),
    pool("batch", "g6.xlarge", "inference", workload="inference"),
    pool("mps", "g4dn.xlarge", {"mode": "mps", "replicas": 8}, workload="inference"),
    sharing={
        "whole": {"mode": "none"},
        "inference": {"mode": "time-slicing", "replicas": {"T4": 2, "L4": 3}},
        "cut": {
            "mode": "mig",
            "layouts": [
                {"gpu": "A100-SXM4-80GB", "devices": [0, 1, 2], "layout": "all-1g.10gb"},
                {"gpu": "H200", "layout": "all-balanced"},
            ],
        },
        "slices": {"mode": "mig", "layout": "all-7g.80gb", "replicas": 3},
    },
    teams=[
        {
            "name": "vision",
            "quota": {"gpus": 2, "mig": {"1g.10gb": 21}, "mig_shared": {"7g.80gb": 2}},
            "priority": "training",
            "members": ["group:vision"],
            "workloads": [{"name": "notebook", "pool": "lab-slices", "replicas": 2}],
        }
    ],
)


@pytest.fixture
def by_name(platform: Platform) -> Platform:
    return bring(platform, BY_NAME)


def test_every_node_offers_the_resources_of_its_own_sharing(by_name: Platform) -> None:
    assert by_name.allocatable("lab-0") == {"nvidia.com/gpu": "8"}
    assert by_name.allocatable("lab-1") == {SEVENTH: "21", "nvidia.com/gpu": "5"}
    assert by_name.allocatable("lab-2") == {"nvidia.com/mig-7g.80gb.shared": "24"}
    assert by_name.allocatable("serve-0") == {SHARED: "2"}
    assert by_name.allocatable("batch-0") == {SHARED: "3"}
    assert by_name.allocatable("mps-0") == {SHARED: "8"}


def test_21_mig_pods_run_and_the_22nd_stays_pending(by_name: Platform) -> None:
    fill(by_name, "mig", SEVENTH, 21)
    by_name.pod("mig-21", SEVENTH)
    assert f"Insufficient {SEVENTH}" in by_name.unschedulable("mig-21")


def test_whole_gpus_and_instances_are_counted_separately(by_name: Platform) -> None:
    by_name.pod("five", "nvidia.com/gpu", 5, **on("lab-cut"))
    runs(by_name, "five")
    by_name.pod("sixth", "nvidia.com/gpu", 1, **on("lab-cut"))
    assert "Insufficient nvidia.com/gpu" in by_name.unschedulable("sixth")


def test_time_sliced_instances_run_as_often_as_they_are_replicated_and_no_more(by_name: Platform) -> None:
    resource = "nvidia.com/mig-7g.80gb.shared"
    fill(by_name, "slice", resource, 22)  # the team's workload uses two of the 24 shares
    by_name.pod("slice-22", resource)
    assert f"Insufficient {resource}" in by_name.unschedulable("slice-22")


def test_a_pod_that_asks_for_two_shares_of_an_instance_fails_on_the_node(by_name: Platform) -> None:
    by_name.pod("greedy-slice", "nvidia.com/mig-7g.80gb.shared", 2)
    eventually(lambda: by_name.find_pod("greedy-slice")["status"].get("phase") == "Failed")
    assert by_name.find_pod("greedy-slice")["status"]["reason"] == "UnexpectedAdmissionError"


def test_each_gpu_model_has_its_own_number_of_replicas(by_name: Platform) -> None:
    for name, replicas in (("serve", 2), ("batch", 3)):
        fill(by_name, name, SHARED, replicas, **on(name))
        by_name.pod(f"{name}-too-many", SHARED, **on(name))
        assert f"Insufficient {SHARED}" in by_name.unschedulable(f"{name}-too-many")


def test_eight_mps_clients_run_and_the_ninth_waits(by_name: Platform) -> None:
    fill(by_name, "client", SHARED, 8, **on("mps"))
    by_name.pod("client-8", SHARED, **on("mps"))
    assert f"Insufficient {SHARED}" in by_name.unschedulable("client-8")


def test_a_pod_that_asks_twice_for_an_mps_replica_is_refused(by_name: Platform) -> None:
    by_name.pod("twice", SHARED, 2, **on("mps"))
    eventually(lambda: by_name.find_pod("twice")["status"].get("phase") == "Failed")
    status = by_name.find_pod("twice")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "maximum request size for shared resources is 1; found 2" in status["message"]


def test_a_team_without_shares_of_instances_gets_none(by_name: Platform) -> None:
    with pytest.raises(Refused, match=r"exceeded quota: gpu-quota.*mig-7g\.80gb\.shared"):
        by_name.pod("third", "nvidia.com/mig-7g.80gb.shared", namespace="vision")


def test_a_node_is_moved_to_another_named_sharing_by_its_label_and_back(by_name: Platform) -> None:
    label = names.DEVICE_PLUGIN_CONFIG_LABEL

    def move(config: str) -> None:  # changes the label as `kubectl label` does
        Api(by_name.kubeconfig).patch("/api/v1/nodes/serve-0", {"metadata": {"labels": {label: config}}}, "merge")

    move("whole")
    eventually(lambda: by_name.allocatable("serve-0") == {"nvidia.com/gpu": "1"})
    file = str(by_name.folder / "Pulumi.shop.yaml")
    report = by_name.run("validate", file, "--format", "json")
    assert report.code == 1  # the stack file requires another config
    assert label in report.out
    move("inference.t4")
    eventually(lambda: by_name.allocatable("serve-0").get(SHARED) == "2")


def test_a_node_that_the_stack_moves_to_another_sharing_stays_the_same_node(by_name: Platform) -> None:
    before = by_name.client.get("v1", "Node", "lab-1")
    assert before is not None
    entries = [{"nodes": ["lab-2"], "sharing": "slices"}]
    lab = {**BY_NAME["pools"][0], "per_node": entries}
    quota = {**BY_NAME["teams"][0], "quota": {"gpus": 2, "mig_shared": {"7g.80gb": 2}}}
    ran = by_name.up({**BY_NAME, "pools": [lab, *BY_NAME["pools"][1:]], "teams": [quota]})
    assert ran.code == 0, ran.err
    after = by_name.client.get("v1", "Node", "lab-1")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert by_name.allocatable("lab-1").get("nvidia.com/gpu") == "8"


# -- DRA --------------------------------------------------------------------------------------------------

CLAIMED = stack(
    pool("big", "p5en.48xlarge", {"mode": "dra", "partitions": True}),
    pool("small", "g4dn.12xlarge", {"mode": "dra"}, workload="inference"),
    device_classes={"large-gpu": {"memory": "100Gi"}},
    teams=[
        {
            "name": "vision",
            "quota": {"devices": {"gpu.nvidia.com": 2, "mig.nvidia.com": 1}},
            "priority": "training",
            "members": ["group:vision"],
            "claims": [{"name": "big", "memory": "40Gi"}, {"name": "slice", "profile": "1g.18gb"}],
            "workloads": [{"name": "work", "pool": "big", "claim": "big", "replicas": 2}],
        },
        {
            "name": "lab",
            "quota": {"devices": {"gpu.nvidia.com": 10, "mig.nvidia.com": 55, "large-gpu": 6}},
            "priority": "training",
            "members": ["group:lab"],
            "claims": [
                {"name": "large", "memory": "40Gi"},
                {"name": "any"},
                {"name": "turing", "selector": f"{ATTRIBUTES}.architecture == 'Turing'"},
                {"name": "seventh", "profile": "1g.18gb"},
                {"name": "half", "profile": "3g.71gb"},
                {"name": "six", "device_class": "large-gpu", "count": 6},
            ],
        },
    ],
)


def test_a_change_to_dra_is_refused_on_a_deployed_cluster(by_name: Platform) -> None:
    ran = by_name.run("preview", str(by_name.write(CLAIMED)), "--engine", "embedded")
    assert ran.code == 2
    assert "pools: found dra on a cluster that this stack has deployed with device-plugin" in ran.err


@pytest.fixture
def claimed(platform: Platform) -> Platform:
    return bring(platform, CLAIMED)


def claim(platform: Platform, name: str, template: str, namespace: str = "lab", **spec: Any) -> None:
    """Create a pod with a claim from a template."""
    amount = {"cpu": "100m", "memory": "64Mi"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": satisfying(
            {
                "containers": [
                    {
                        "name": "main",
                        "image": "none",
                        "resources": {"requests": amount, "limits": amount, "claims": [{"name": "gpu"}]},
                    }
                ],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
                "tolerations": [TOLERATION],
                **spec,
            }
        ),
    }
    platform.client.create(pod)
    platform.created.append(pod)


def devices_of(platform: Platform, name: str, namespace: str = "lab") -> list[dict[str, Any]]:
    """Return the devices in a pod's claim, as they appear in the ResourceSlices of its node."""
    statuses = platform.find_pod(name, namespace)["status"]["resourceClaimStatuses"]
    made = platform.client.get("resource.k8s.io/v1", "ResourceClaim", statuses[0]["resourceClaimName"], namespace)
    assert made is not None
    results = made["status"]["allocation"]["devices"]["results"]
    published = {
        (one["spec"]["nodeName"], device["name"]): device
        for one in platform.client.objects("resource.k8s.io/v1", "ResourceSlice")
        for device in one["spec"].get("devices", ())
    }
    return [published[result["pool"], result["device"]] for result in results]


def test_dra_uses_a_gpu_cluster_and_no_cluster_policy(claimed: Platform) -> None:
    found = claimed.client.get("nvidia.com/v1alpha1", "GPUCluster", "gpu-cluster")
    assert found is not None
    assert found["spec"]["draDriver"]["featureGates"] == {"DynamicMIG": True}
    assert list(claimed.client.objects("nvidia.com/v1", "ClusterPolicy")) == []
    assert not any(int(count) for count in claimed.allocatable("big-0").values())
    classes = {one["metadata"]["name"] for one in claimed.client.objects("resource.k8s.io/v1", "DeviceClass")}
    assert {"gpu.nvidia.com", "mig.nvidia.com", "large-gpu"} <= classes


def test_the_nodes_are_validated_by_their_resource_slices(claimed: Platform) -> None:
    file = str(claimed.folder / "Pulumi.shop.yaml")
    ran = claimed.run("validate", file, "--format", "json")
    assert ran.code == 0, ran.out
    checks = {
        (node["node"], check["id"]): check["observed"] for node in ran.json["nodes"] for check in node["checks"]
    }
    assert checks["big-0", "dra-devices"] == "8 x type gpu, 200 x type mig"
    assert checks["small-0", "dra-devices"] == "4 x type gpu"
    assert "7g.141gb" in checks["big-0", "dra-partitions"]


def test_a_missing_gpu_is_missing_from_the_slices_and_fails_validation(claimed: Platform) -> None:
    file = str(claimed.folder / "Pulumi.shop.yaml")
    fault = '{"kind": "gpu-missing", "index": 3}'
    try:
        assert claimed.run("sandbox", "fault", "small-0", fault, "--name", SANDBOX).code == 0

        def observed() -> str:
            report = claimed.run("validate", file, "--format", "json").json
            small = next(node for node in report["nodes"] if node["node"] == "small-0")
            return next(check["observed"] for check in small["checks"] if check["id"] == "dra-devices")

        eventually(lambda: observed() == "3 x type gpu")
        assert claimed.run("validate", file).code == 1
    finally:
        claimed.run("sandbox", "fault", "small-0", "--name", SANDBOX)
        eventually(lambda: claimed.run("validate", file).code == 0)


def test_the_teams_workload_runs_on_the_devices_that_its_claim_means(claimed: Platform) -> None:
    def running() -> list[str]:
        pods = claimed.client.objects("v1", "Pod", namespace="vision")
        return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]

    eventually(lambda: len(running()) == 2)
    for name in running():
        [device] = devices_of(claimed, name, "vision")
        assert device["attributes"]["productName"]["string"] == "NVIDIA H200"


def test_a_claim_for_40_gib_gets_a_large_gpu_or_waits(
    claimed: Platform,
) -> None:
    claim(claimed, "large", "large")
    runs(claimed, "large", "lab")
    [device] = devices_of(claimed, "large")
    assert device["attributes"]["type"]["string"] == "gpu"
    assert device["capacity"]["memory"]["value"] == "143771Mi"
    claim(claimed, "lost", "large", **on("small"))
    assert "cannot allocate all claims" in claimed.unschedulable("lost", "lab")


def test_a_claim_with_a_cel_expression_gets_the_device_that_it_names(claimed: Platform) -> None:
    claim(claimed, "turing", "turing")
    runs(claimed, "turing", "lab")
    [device] = devices_of(claimed, "turing")
    assert device["attributes"]["productName"]["string"] == "Tesla T4"


def test_four_claims_hold_four_gpus_and_the_fifth_waits(claimed: Platform) -> None:
    for index in range(4):
        claim(claimed, f"any-{index}", "any", **on("small"))
    for index in range(4):
        runs(claimed, f"any-{index}", "lab")
    held = {device["attributes"]["uuid"]["string"] for i in range(4) for device in devices_of(claimed, f"any-{i}")}
    assert len(held) == 4
    claim(claimed, "any-4", "any", **on("small"))
    assert "cannot allocate all claims" in claimed.unschedulable("any-4", "lab")


def test_partitions_share_a_gpu_until_its_slices_are_used_up(claimed: Platform) -> None:
    claim(claimed, "six", "six")  # six of the eight devices, because the team's workload uses two
    runs(claimed, "six", "lab")
    claim(claimed, "none-left", "seventh")
    assert "cannot allocate all claims" in claimed.unschedulable("none-left", "lab")
    claimed.remove_pods()

    for index in range(12):  # two pods on each of the remaining six GPUs
        claim(claimed, f"half-{index}", "half")
    for index in range(12):
        runs(claimed, f"half-{index}", "lab")
    parents = [
        device["attributes"]["parentUUID"]["string"]
        for i in range(12)
        for device in devices_of(claimed, f"half-{i}")
    ]
    assert sorted(parents.count(parent) for parent in set(parents)) == [2] * 6
    claim(claimed, "half-12", "half")
    assert "cannot allocate all claims" in claimed.unschedulable("half-12", "lab")
    claim(claimed, "whole", "large")
    assert "cannot allocate all claims" in claimed.unschedulable("whole", "lab")


def test_seven_instances_of_one_slice_fit_on_one_gpu(claimed: Platform) -> None:
    claim(claimed, "taken", "six")
    runs(claimed, "taken", "lab")
    claimed.remove_pods()
    for index in range(42):  # seven pods on each of the remaining six GPUs
        claim(claimed, f"seventh-{index}", "seventh")
    for index in range(42):
        runs(claimed, f"seventh-{index}", "lab")
    claim(claimed, "seventh-42", "seventh")
    assert "cannot allocate all claims" in claimed.unschedulable("seventh-42", "lab")


def test_a_claim_above_the_teams_quota_of_its_device_class_is_refused_by_name(claimed: Platform) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 1}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "greedy", "namespace": "vision"},
        "spec": {"devices": {"requests": [request]}},
    }
    with pytest.raises(Refused, match=r"exceeded quota: gpu-quota.*gpu\.nvidia\.com\.deviceclass") as refusal:
        claimed.client.create(body)  # the team's workload uses both devices
    assert refusal.value.status == 403


def test_a_device_class_that_a_team_was_not_granted_does_not_escape_its_quota(claimed: Platform) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "large-gpu", "count": 1}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "sly", "namespace": "vision"},
        "spec": {"devices": {"requests": [request]}},
    }
    with pytest.raises(Refused, match=r"exceeded quota: gpu-quota.*large-gpu\.deviceclass"):
        claimed.client.create(body)


def test_a_claim_with_admin_access_is_refused_outside_the_validators_namespace(claimed: Platform) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}}
    body = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "admin", "namespace": "lab"},
        "spec": {"devices": {"requests": [request]}},
    }
    with pytest.raises(Refused, match="admin"):
        claimed.client.create(body)


def test_up_counts_claimed_devices_as_held_and_changes_nothing_the_second_time(claimed: Platform) -> None:
    report = claimed.up(CLAIMED).json
    assert report["changes"]["changes"] == []
    assert report["logical_gpus"]["big"] == {"gpu.nvidia.com": 8, "mig.nvidia.com": 56}
    assert report["pods"] == {"scheduled": 2, "pending": 0}
    assert report["cost"]["wasted_usd_per_hour"] < report["cost"]["usd_per_hour"]


def test_a_claim_that_demands_something_else_replaces_its_template(claimed: Platform) -> None:
    changed = {**CLAIMED, "teams": [CLAIMED["teams"][0], {**CLAIMED["teams"][1], "claims": [{"name": "any"}]}]}
    changed["teams"][1]["claims"] = [{"name": "any", "product": "T4"}]
    ran = claimed.up(changed)
    assert ran.code == 0, ran.err
    replaced = [c["name"] for c in ran.json["changes"]["changes"] if c["action"] == "replace"]
    assert replaced == ["any"]
    claim(claimed, "t4", "any")
    runs(claimed, "t4", "lab")
    assert devices_of(claimed, "t4")[0]["attributes"]["productName"]["string"] == "Tesla T4"


def test_a_changed_driver_rolls_the_nodes_and_evicts_the_pods_with_claims(claimed: Platform) -> None:
    def nodes() -> list[dict[str, Any]]:
        found = (claimed.client.get("v1", "Node", name) for name in ("big-0", "small-0"))
        return [one for one in found if one is not None]

    def pods() -> set[str]:
        return {one["metadata"]["uid"] for one in claimed.client.objects("v1", "Pod", namespace="vision")}

    before = pods()
    changed = {**CLAIMED, "operator": {"driver": {"version": NEW_DRIVER}}}
    file = str(claimed.write(changed))
    report = claimed.run("preview", file, "--engine", "embedded", "--format", "json")
    [big] = [one for one in report.json["impact"]["changes"] if one["subject"] == "pool big"]
    assert big["effect"] == "rolls-nodes"
    assert [one["owner"] for one in big["pods"] if one["namespace"] == "vision"] == ["Deployment work"] * 2
    ran = claimed.up(changed)
    assert ran.code == 0, ran.err
    labels = [node["metadata"]["labels"].get(names.DRIVER_UPGRADE_STATE_LABEL) for node in nodes()]
    assert labels == ["upgrade-done", "upgrade-done"]
    assert not any(node["spec"].get("unschedulable") for node in nodes())
    assert before.isdisjoint(pods()), "the operator evicts pods that hold claims on GPUs"
    slices = [one["spec"] for one in claimed.client.objects("resource.k8s.io/v1", "ResourceSlice")]
    drivers = {
        device["attributes"]["driverVersion"]["version"] for one in slices for device in one.get("devices", ())
    }
    assert drivers == {"580.173.2"}


def test_destroy_takes_the_gpu_cluster_and_all_that_came_with_it(claimed: Platform) -> None:
    file = str(claimed.folder / "Pulumi.shop.yaml")
    assert claimed.run("destroy", file, "--engine", "embedded", "--yes").code == 0
    client = claimed.client
    eventually(lambda: not list(client.objects("resource.k8s.io/v1", "ResourceSlice")))
    eventually(lambda: not list(client.objects("resource.k8s.io/v1", "DeviceClass")))
    assert not list(client.objects("nvidia.com/v1alpha1", "GPUCluster"))
