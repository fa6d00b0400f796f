"""Rules about pods that use GPUs: they need tolerations, and their requests must equal their limits."""

from __future__ import annotations

from typing import Any

import pytest
from policy_records import (
    GPU_TAINT,
    UNKNOWN,
    Record,
    cluster_policy,
    container,
    deployment,
    device_plugin_config_map,
    gke_node_pool,
    helm_release,
    node,
    not_checked,
    only,
    pod_spec,
    record,
    shared,
    violations,
)

# -- gpu-toleration ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"operator": "Exists"},
    ],
)
def test_a_gpu_pod_that_tolerates_the_gpu_taint_passes(toleration: dict[str, str]):
    workload = deployment(pod_spec(tolerations=[toleration]))
    assert violations("gpu-toleration", workload) == []
    assert violations("gpu-toleration", node(), workload) == []


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"},
        {"key": "nvidia.com/gpu", "value": "other", "effect": "NoSchedule"},
        {"key": "amd.com/gpu", "operator": "Exists"},
    ],
)
def test_a_gpu_pod_that_tolerates_something_else_is_found(toleration: dict[str, str]):
    found = only(violations("gpu-toleration", node(), deployment(pod_spec(tolerations=[toleration]))))
    assert found.problem.path == "spec.template.spec.tolerations"
    assert found.problem.found == "no toleration of nvidia.com/gpu=present:NoSchedule"


def test_a_toleration_of_a_value_does_not_cover_a_taint_without_one():
    pool = node(taints=({"key": "nvidia.com/gpu", "effect": "NoSchedule"},))
    present = deployment(pod_spec(tolerations=[{"key": "nvidia.com/gpu", "value": "present"}]), "present")
    bare = deployment(pod_spec(tolerations=[{"key": "nvidia.com/gpu"}]), "bare")
    assert only(violations("gpu-toleration", pool, present, bare)).subject == "present"


def test_a_gpu_pod_without_tolerations_is_found_without_pools():
    found = only(violations("gpu-toleration", deployment(pod_spec(tolerations=[]))))
    assert "nvidia.com/gpu:NoSchedule" in found.problem.found


def test_admission_may_add_the_gpu_toleration():
    short = deployment(pod_spec(tolerations=[]))
    assert violations("gpu-toleration", short, addedIn=["vision"]) == []
    assert violations("gpu-toleration", node(), short, addedIn=["vision"]) == []
    assert only(violations("gpu-toleration", short, addedIn=["search"]))


def test_other_tolerations_are_required_if_admission_adds_the_gpu_one():
    reserved = node(taints=[GPU_TAINT, {"key": "reserved", "value": "x", "effect": "NoSchedule"}])
    found = only(violations("gpu-toleration", reserved, deployment(pod_spec(tolerations=[])), addedIn=["vision"]))
    assert "no toleration of reserved=x:NoSchedule" in str(found)


def test_a_pod_without_gpus_needs_no_toleration():
    cpu_only = deployment(pod_spec(container({"cpu": "1"}), tolerations=[]))
    zero = deployment(pod_spec(container({"nvidia.com/gpu": 0}), tolerations=[]), "zero")
    assert violations("gpu-toleration", cpu_only, zero) == []


@pytest.mark.parametrize(
    ("type_", "path"),
    [
        ("kubernetes:core/v1:Pod", ("spec",)),
        ("kubernetes:apps/v1:StatefulSet", ("spec", "template", "spec")),
        ("kubernetes:apps/v1:DaemonSet", ("spec", "template", "spec")),
        ("kubernetes:apps/v1:ReplicaSet", ("spec", "template", "spec")),
        ("kubernetes:batch/v1:Job", ("spec", "template", "spec")),
        ("kubernetes:batch/v1:CronJob", ("spec", "jobTemplate", "spec", "template", "spec")),
    ],
)
def test_every_kind_of_workload_is_checked(type_: str, path: tuple[str, ...]):
    inputs: dict[str, Any] = pod_spec(tolerations=[])
    for key in reversed(path):
        inputs = {key: inputs}
    found = only(violations("gpu-toleration", record(type_, "job", inputs)))
    assert found.problem.path == ".".join((*path, "tolerations"))


def test_a_pool_with_another_taint_asks_for_that_toleration_too():
    team = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    pools = [node("train-0"), node("vision-0", taints=(GPU_TAINT, team))]
    anywhere = deployment(pod_spec())
    on_vision = deployment(pod_spec(nodeSelector={"gpu-platform.dev/pool": "vision"}))
    assert violations("gpu-toleration", *pools, anywhere) == []
    found = only(violations("gpu-toleration", *pools, on_vision))
    assert found.problem.found == "no toleration of team=vision:NoSchedule"


def test_the_usual_gpu_taint_is_asked_for_where_no_pool_shows_its_taints():
    pool = node(taints=None, patch=True)
    assert violations("gpu-toleration", pool, deployment(pod_spec())) == []
    assert only(violations("gpu-toleration", pool, deployment(pod_spec(tolerations=[]))))


def test_tolerations_that_are_not_known_yet_are_not_checked():
    assert "tolerations: not known" in not_checked("gpu-toleration", deployment(pod_spec(tolerations=UNKNOWN)))


def test_a_pool_with_unknown_taints_is_not_checked_if_it_is_the_only_fit():
    team = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    pools = [node("vision-0", taints=(GPU_TAINT, team)), node("train-0", taints=UNKNOWN)]
    assert "spec.taints" in not_checked("gpu-toleration", *pools, deployment(pod_spec()))


# -- gpu-requests-equal-limits ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "requests"),
    [
        ({"nvidia.com/gpu": "1"}, None),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": 1}),
        ({"nvidia.com/mig-1g.10gb": 2}, {"nvidia.com/mig-1g.10gb": "2"}),
        ({"cpu": "2"}, {"cpu": "1"}),
    ],
)
def test_gpu_requests_that_equal_limits_pass(limits: dict[str, object], requests: dict[str, object] | None):
    assert violations("gpu-requests-equal-limits", deployment(pod_spec(container(limits, requests)))) == []


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-3g.40gb"])
def test_a_gpu_request_that_differs_from_the_limit_is_found(resource: str):
    spec = pod_spec(container({resource: 2}, {resource: 1}))
    found = only(violations("gpu-requests-equal-limits", deployment(spec)))
    assert found.problem.path == f'spec.template.spec.containers[0].resources.requests["{resource}"]'
    assert found.problem.found == "a request of 1 with a limit of 2"


def test_a_gpu_request_without_a_limit_is_found_in_an_init_container_too():
    spec = pod_spec(container({"cpu": 1}), initContainers=[container(None, {"nvidia.com/gpu": 1})])
    found = only(violations("gpu-requests-equal-limits", deployment(spec)))
    assert found.problem.path.startswith("spec.template.spec.initContainers[0].")
    assert found.problem.found == "a request of 1 without a limit"


def test_limits_that_are_not_known_yet_are_not_checked():
    spec = pod_spec(container(UNKNOWN, {"nvidia.com/gpu": 1}))
    assert "resources.limits" in not_checked("gpu-requests-equal-limits", deployment(spec))


# -- gpu-max-per-container --------------------------------------------------------------------------------

OPERATOR = [cluster_policy(), device_plugin_config_map(train="version: v1", serve=shared(replicas=4))]


def asking(selector: dict[str, str] | None = None, *limits: dict[str, int]) -> Record:
    containers = [container(one, name=f"c{index}") for index, one in enumerate(limits)]
    return deployment(pod_spec(*containers, nodeSelector=selector or {}))


def test_a_pod_that_asks_for_more_than_its_pool_has_on_a_node_is_found():
    pool = {"gpu-platform.dev/pool": "train"}
    assert violations("gpu-max-per-container", *OPERATOR, node(), asking(pool, {"nvidia.com/gpu": 8})) == []
    found = only(violations("gpu-max-per-container", *OPERATOR, node(), asking(pool, {"nvidia.com/gpu": 9})))
    assert found.problem.allowed.startswith("at most 8")


def test_the_containers_of_a_pod_are_added_and_its_init_containers_are_not():
    eight, one = {"nvidia.com/gpu": 8}, {"nvidia.com/gpu": 1}
    assert only(violations("gpu-max-per-container", *OPERATOR, node(), asking(None, eight, one)))
    pod = asking(None, eight)
    pod["inputs"]["spec"]["template"]["spec"]["initContainers"] = [container(eight, name="first")]
    assert violations("gpu-max-per-container", *OPERATOR, node(), pod) == []


def test_a_resource_that_the_selected_pool_does_not_offer_is_found():
    serve = node("serve-0", machine_type="g4dn.xlarge", workload="inference")
    pool = {"gpu-platform.dev/pool": "serve"}
    assert only(violations("gpu-max-per-container", *OPERATOR, node(), serve, asking(pool, {"nvidia.com/gpu": 1})))
    assert violations("gpu-max-per-container", *OPERATOR, serve, asking(pool, {"nvidia.com/gpu.shared": 1})) == []


def test_shares_of_gkes_own_device_plugin_are_counted_as_it_offers_them():
    sharing = {"gpuSharingConfig": {"gpuSharingStrategy": "TIME_SHARING", "maxSharedClientsPerGpu": 4}}
    two, five = [{"nvidia.com/gpu": 1}] * 2, [{"nvidia.com/gpu": 1}] * 5
    pool = gke_node_pool(
        machineType="g2-standard-12", guestAccelerators=[{"type": "nvidia-l4", "count": 1, **sharing}]
    )
    assert violations("gpu-max-per-container", pool, asking(None, *two)) == []
    assert "at most 4" in only(violations("gpu-max-per-container", pool, asking(None, *five))).problem.allowed
    both = asking(None, {"nvidia.com/gpu": 2})
    assert only(violations("gpu-shared-request-one", pool, both)).problem.found.startswith("2 of the shared")


def test_a_share_is_one_only_where_every_pool_that_the_pod_may_use_shares():
    sharing = {"gpuSharingConfig": {"gpuSharingStrategy": "MPS", "maxSharedClientsPerGpu": 4}}
    shared_pool = gke_node_pool(
        machineType="g2-standard-12", guestAccelerators=[{"type": "nvidia-l4", "count": 1, **sharing}]
    )
    whole = gke_node_pool(machineType="a3-highgpu-8g")
    assert violations("gpu-shared-request-one", shared_pool, whole, asking(None, {"nvidia.com/gpu": 2})) == []
    small = gke_node_pool(machineType="a2-highgpu-2g")
    three = asking(None, {"nvidia.com/gpu": 3})
    assert only(violations("gpu-shared-request-one", shared_pool, small, three))


def test_instances_that_gke_partitions_are_counted():
    pool = gke_node_pool(
        machineType="a2-highgpu-1g",
        guestAccelerators=[{"type": "nvidia-tesla-a100", "count": 1, "gpuPartitionSize": "1g.5gb"}],
    )
    seven, eight = [{"nvidia.com/gpu": 1}] * 7, [{"nvidia.com/gpu": 1}] * 8
    assert violations("gpu-max-per-container", pool, asking(None, *seven)) == []
    assert only(violations("gpu-max-per-container", pool, asking(None, *eight)))


def test_any_pool_that_the_pod_may_use_is_enough():
    small = node("small-0", machine_type="g5.12xlarge", labels={"nvidia.com/device-plugin.config": "train"})
    assert violations("gpu-max-per-container", *OPERATOR, small, node(), asking(None, {"nvidia.com/gpu": 8})) == []


def test_without_a_pool_in_sight_the_largest_machine_of_the_catalogue_counts():
    assert violations("gpu-max-per-container", asking(None, {"nvidia.com/gpu": 8})) == []
    assert only(violations("gpu-max-per-container", asking(None, {"nvidia.com/gpu": 1000})))


def test_a_pool_whose_config_is_not_known_is_not_checked():
    hidden = [cluster_policy(), node()]
    assert "not in this stack" in not_checked("gpu-max-per-container", *hidden, node("other-0"), asking())


# -- gpu-node-targeting -----------------------------------------------------------------------------------


def with_affinity(*terms: dict[str, str]) -> Record:
    expressions = [
        {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in term.items()]}
        for term in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": expressions}}
    return deployment(pod_spec(affinity={"nodeAffinity": required}))


PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-L4"}


def test_a_pod_that_takes_any_gpu_of_a_mixed_cluster_is_found():
    pools = [node(), node("serve-0", machine_type="g4dn.xlarge")]
    assert "a100-80gb, t4" in only(violations("gpu-node-targeting", *pools, deployment(pod_spec()))).problem.found
    assert violations("gpu-node-targeting", node(), deployment(pod_spec())) == []


def test_the_selector_of_an_existing_pool_names_its_gpus():
    facts = {
        "ownership": "selected",
        "machineType": "g6.12xlarge",
        "labels": {"gpu-platform.dev/pool": "serve"},
        "nodeSelector": {"node-group": "gpu-serve"},
    }
    pools = [node(), {**record("gpu-platform:index:NodePool", "serve", facts), "custom": False}]
    chosen = deployment(pod_spec(nodeSelector={"node-group": "gpu-serve"}))
    assert violations("gpu-node-targeting", *pools, chosen) == []
    other = deployment(pod_spec(nodeSelector={"rack": "4"}))
    assert only(violations("gpu-node-targeting", *pools, other))


def test_every_alternative_of_the_affinity_must_name_the_gpu():
    assert violations("gpu-node-targeting", with_affinity(PRODUCT, PRODUCT)) == []
    found = only(violations("gpu-node-targeting", with_affinity(PRODUCT, {"zone": "a"})))
    assert "alternative 2 of 2" in found.problem.found
    assert "alternative" not in only(violations("gpu-node-targeting", with_affinity({"zone": "a"}))).problem.found


def test_a_mig_profile_names_its_gpu_and_labels_can_be_added():
    instance = deployment(pod_spec(container({"nvidia.com/mig-1g.10gb": 1})))
    assert violations("gpu-node-targeting", instance) == []
    ours = deployment(pod_spec(nodeSelector={"example.com/gpu": "l4"}))
    assert only(violations("gpu-node-targeting", ours))
    assert violations("gpu-node-targeting", ours, labels=["example.com/gpu"]) == []
    assert "nodeSelector" in not_checked("gpu-node-targeting", deployment(pod_spec(nodeSelector=UNKNOWN)))


# -- gpu-image-pinned -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "pinned"),
    [
        ("registry.example.com:5000/train", False),
        ("registry.example.com:5000/train:latest", False),
        ("train:nightly", False),
        ("registry.example.com:5000/train:1.4", True),
        ("train@sha256:" + "0" * 64, True),
        ("train:latest@sha256:" + "0" * 64, True),
    ],
)
def test_an_image_is_pinned_by_a_release_or_a_digest(image: str, pinned: bool):
    pods = deployment(pod_spec({**container({"nvidia.com/gpu": 1}), "image": image}))
    assert (violations("gpu-image-pinned", pods) == []) == pinned


def test_only_known_images_of_gpu_pods_are_checked():
    assert violations("gpu-image-pinned", deployment(pod_spec({**container(), "image": "web"}))) == []
    hidden = deployment(pod_spec({**container({"nvidia.com/gpu": 1}), "image": UNKNOWN}))
    assert "image" in not_checked("gpu-image-pinned", hidden)


@pytest.mark.parametrize(
    ("version", "pinned"), [("v26.7.0", True), (None, False), ("^1.2", False), ("1.x", False)]
)
def test_a_chart_has_one_version(version: str | None, pinned: bool):
    release = helm_release({})
    release["inputs"]["version"] = version
    assert (violations("gpu-image-pinned", release) == []) == pinned
