"""Members create minimal pods on the real API server, which fills in the fields that they omit."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_platform.base.quantity import parse_quantity
from gpu_platform.live.client import KubernetesClient, Refused
from tests.e2e.conftest import TOLERATION, Platform
from tests.e2e.impersonation import admitted, member
from tests.support.eventually import eventually
from tests.support.restricted import CONTAINER, satisfying

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-base")]

Object = dict[str, Any]
MIG = "nvidia.com/mig-1g.10gb"
# CPU that pods can use on a p4de.24xlarge: 95,690m minus 50m for the node agent.
# Memory in MiB: a GPU gets 1/8 of 9/10 of the node's memory, and a MIG instance gets 1/7 of that.
MILLICORES, MIB_OF_GPU, MIB_OF_INSTANCE = 95640, 131758, 18822


@pytest.fixture
def vision(platform: Platform, base: Object) -> KubernetesClient:
    base["teams"][0]["workloads"] = []
    base["teams"][0]["quota"] = {"gpus": 8, "mig": {"1g.10gb": 14}, "shared": 2}
    base["teams"] = base["teams"][:1]
    if platform.state.get("shop") != base:
        ran = platform.up(base)
        assert ran.code == 0, ran.err
    client = member(platform.kubeconfig, "vision")
    eventually(lambda: tolerates_gpus(admitted(client, pod("probe", {"nvidia.com/gpu": 1}))))
    return client


def pod(name: str, limits: dict[str, Any] | None = None, **spec: Any) -> Object:
    container: Object = {"name": "main", "image": "none"}
    if limits is not None:
        container["resources"] = {"limits": limits}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "vision"},
        "spec": satisfying({"containers": [container], **spec}),
    }


def tolerates_gpus(live: Object) -> bool:
    return TOLERATION in live.get("spec", {}).get("tolerations", [])


def amounts(live: Object, index: int = 0) -> dict[str, dict[str, int]]:
    """Return the requests and limits of a container in millicores and MiB."""
    resources = live["spec"]["containers"][index]["resources"]
    return {
        kind: {
            "cpu": int(parse_quantity(resources[kind]["cpu"]) * 1000),
            "memory": int(parse_quantity(resources[kind]["memory"]) / 2**20),
        }
        for kind in ("requests", "limits")
    }


def tried(client: KubernetesClient, wanted: Object) -> Object:
    return client.create(wanted, dry_run=True)


def test_a_pod_with_only_gpus_gets_all_defaults_and_runs(vision: KubernetesClient, platform: Platform):
    wanted = pod("short", {"nvidia.com/gpu": 4}, nodeSelector={"gpu-platform.dev/pool": "train"})
    live = vision.create(wanted)
    platform.created.append(wanted)
    assert live["spec"]["tolerations"].count(TOLERATION) == 1
    assert (live["spec"]["priorityClassName"], live["spec"]["priority"]) == ("training", 100)
    half = {"cpu": MILLICORES // 8 * 4, "memory": MIB_OF_GPU * 4}
    assert amounts(live) == {"requests": half, "limits": {"cpu": 95690, "memory": half["memory"]}}
    eventually(lambda: platform.find_pod("short", "vision")["status"].get("phase") == "Running")


def test_a_pod_of_all_gpus_of_a_node_leaves_what_daemonsets_need_and_runs(
    vision: KubernetesClient, platform: Platform
):
    wanted = pod("whole", {"nvidia.com/gpu": 8})
    live = vision.create(wanted)
    platform.created.append(wanted)
    assert amounts(live)["requests"]["cpu"] == MILLICORES // 8 * 8
    eventually(lambda: platform.find_pod("whole", "vision")["status"].get("phase") == "Running")


@pytest.mark.parametrize("units", [9, 17])
def test_a_pod_with_more_gpus_than_a_node_has_is_told_of_its_gpus(vision: KubernetesClient, units: int):
    with pytest.raises(Refused, match=r"gpu-max-per-container: .* at most per node: nvidia\.com/gpu 8"):
        tried(vision, pod("large", {"nvidia.com/gpu": units}))


def test_a_pod_that_names_what_it_needs_keeps_it(vision: KubernetesClient):
    own = [{"key": "nvidia.com/gpu", "operator": "Equal", "value": "present"}]
    wanted = pod("named", tolerations=own, priorityClassName="training")
    wanted["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "3", "memory": "2Gi"},
        "limits": {"nvidia.com/gpu": 1, "cpu": "5", "memory": "3Gi"},
    }
    live = tried(vision, wanted)
    assert own[0] in live["spec"]["tolerations"]
    assert not tolerates_gpus(live)
    assert amounts(live) == {"requests": {"cpu": 3000, "memory": 2048}, "limits": {"cpu": 5000, "memory": 3072}}


def test_explicit_requests_equal_to_the_defaults_are_kept(vision: KubernetesClient):
    wanted = pod("equal")
    wanted["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"nvidia.com/gpu": 1, "cpu": "4", "memory": "16Gi"},
    }
    live = tried(vision, wanted)
    assert amounts(live) == {"requests": {"cpu": 500, "memory": 1024}, "limits": {"cpu": 4000, "memory": 16384}}


def test_requests_above_the_default_limits_are_admitted_without_limits(vision: KubernetesClient):
    wanted = pod("above")
    wanted["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "16", "memory": "128Gi"},
        "limits": {"nvidia.com/gpu": 4},
    }
    live = tried(vision, wanted)
    assert amounts(live) == {
        "requests": {"cpu": 16000, "memory": 131072},
        "limits": {"cpu": 95690, "memory": 131072},
    }


def test_a_copy_of_a_live_pod_with_other_requests_keeps_them(vision: KubernetesClient):
    copied = pod("copied", {"nvidia.com/gpu": 1})
    copied["metadata"]["annotations"] = tried(vision, copied)["metadata"]["annotations"]
    assert "kubernetes.io/limit-ranger" in copied["metadata"]["annotations"]
    copied["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": "3", "memory": "2Gi"},
        "limits": {"nvidia.com/gpu": 1, "cpu": "5", "memory": "3Gi"},
    }
    assert amounts(tried(vision, copied))["requests"] == {"cpu": 3000, "memory": 2048}


def test_a_pod_without_gpus_gets_only_the_defaults_of_the_namespace(vision: KubernetesClient):
    live = tried(vision, pod("plain"))
    assert not tolerates_gpus(live)
    assert ("priorityClassName" in live["spec"], live["spec"]["priority"]) == (False, 0)
    assert amounts(live) == {"requests": {"cpu": 500, "memory": 1024}, "limits": {"cpu": 4000, "memory": 16384}}


def test_a_pod_with_a_mig_instance_gets_its_part_of_the_node(vision: KubernetesClient):
    live = tried(vision, pod("instance", {MIG: 2}))
    assert tolerates_gpus(live)
    assert amounts(live)["requests"] == {"cpu": MILLICORES // 56 * 2, "memory": MIB_OF_INSTANCE * 2}


def test_a_pod_with_a_share_of_a_gpu_gets_its_part_of_the_node_and_runs(
    vision: KubernetesClient, platform: Platform
):
    wanted = pod("share", {"nvidia.com/gpu.shared": 1})
    live = vision.create(wanted)
    platform.created.append(wanted)
    assert amounts(live)["requests"] == {"cpu": (3920 - 50) // 4, "memory": 3534}
    eventually(lambda: platform.find_pod("share", "vision")["status"].get("phase") == "Running")


def test_containers_of_a_pod_divide_its_part_of_the_node_by_their_gpus(vision: KubernetesClient):
    wanted = pod("several", {"nvidia.com/gpu": 3})
    containers = wanted["spec"]["containers"]
    containers.append(
        {
            "name": "second",
            "image": "none",
            "securityContext": CONTAINER,
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        }
    )
    containers.append({"name": "proxy", "image": "none", "securityContext": CONTAINER})
    wanted["spec"]["initContainers"] = [
        {"name": "logs", "image": "none", "restartPolicy": "Always", "securityContext": CONTAINER},
        {"name": "prepare", "image": "none", "securityContext": CONTAINER},
    ]
    live = tried(vision, wanted)
    # The container without GPUs and the sidecar each get 500m CPU and 1 GiB.
    # The containers with GPUs divide the rest of the pod's half of the node.
    free = {"cpu": MILLICORES // 8 * 4 - 1000, "memory": MIB_OF_GPU * 4 - 2048}
    assert amounts(live)["requests"] == {name: amount * 3 // 4 for name, amount in free.items()}
    assert amounts(live, 1)["requests"] == {name: amount // 4 for name, amount in free.items()}
    assert amounts(live, 2)["requests"] == {"cpu": 500, "memory": 1024}


def test_a_pod_that_tolerates_gpu_nodes_itself_gets_no_other_toleration(vision: KubernetesClient):
    own = {"key": "nvidia.com/gpu", "operator": "Exists"}  # a toleration without an effect tolerates every effect
    live = tried(vision, pod("wild", {"nvidia.com/gpu": 1}, tolerations=[own]))
    assert [one for one in live["spec"]["tolerations"] if one.get("key") == "nvidia.com/gpu"] == [own]


def test_a_pod_with_claims_gets_no_cpu_and_no_memory_of_gpus(vision: KubernetesClient):
    wanted = pod("claims", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "any"}])
    live = tried(vision, wanted)
    assert live["spec"]["priorityClassName"] == "training"
    assert amounts(live)["requests"] == {"cpu": 500, "memory": 1024}


def test_a_live_pod_is_not_changed_by_an_update(vision: KubernetesClient, platform: Platform):
    wanted = pod("updated", {"nvidia.com/gpu": 1})
    before = vision.create(wanted)
    platform.created.append(wanted)
    metadata = {"name": "updated", "namespace": "vision", "labels": {"step": "two"}}
    vision.merge({"apiVersion": "v1", "kind": "Pod", "metadata": metadata})
    after = platform.find_pod("updated", "vision")
    assert after["metadata"]["labels"] == {"step": "two"}
    assert after["spec"]["containers"] == before["spec"]["containers"]
    assert after["spec"]["tolerations"] == before["spec"]["tolerations"]


@pytest.mark.long
def test_first_pods_of_a_new_team_get_their_defaults_directly_after_up(platform: Platform, base: Object):
    """`up` ends once the API server has read its policies, so this test does not wait."""
    base["teams"] = [{"name": "early", "quota": {"gpus": 8}, "priority": "training", "members": ["group:early"]}]
    ran = platform.up(base)
    assert ran.code == 0, ran.err
    client = member(platform.kubeconfig, "early")
    first = pod("first", {"nvidia.com/gpu": 1})
    first["metadata"]["namespace"] = "early"
    assert tolerates_gpus(tried(client, first))
    template = {"spec": {**first["spec"], "restartPolicy": "Never"}}
    metadata = {"name": "first", "namespace": "early"}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
    client.create(job)
    platform.created.append(job)

    def pods() -> list[Object]:
        return list(platform.client.objects("v1", "Pod", namespace="early"))

    eventually(lambda: len(pods()) == 1)
    assert tolerates_gpus(pods()[0])
