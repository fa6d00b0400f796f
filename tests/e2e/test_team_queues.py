"""Queues on the real control plane with Kueue's controller, used by members of the teams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpu_platform.base.errors import Finding
from gpu_platform.deploy.retention.team_stacks import deployed_quotas
from gpu_platform.guide.live_guide import read_live_guide
from gpu_platform.live.client import KubernetesClient, Refused
from sandbox.control_plane import Status
from tests.e2e.conftest import Platform
from tests.e2e.impersonation import member
from tests.e2e.queues import KUEUE, QUEUE, Team, bring, job, stack
from tests.support.eventually import eventually
from tests.support.restricted import satisfying

pytestmark = [pytest.mark.sandbox, pytest.mark.xdist_group("e2e-queues")]


@pytest.fixture(scope="module")
def e2e_sandbox(kueue_sandbox: Status) -> Status:
    return kueue_sandbox


@pytest.fixture
def queues(platform: Platform, kueue_sandbox: Status) -> Platform:
    bring(platform, stack(kueue_sandbox))
    return platform


@pytest.fixture
def vision(queues: Platform) -> Iterator[Team]:
    team = Team(queues.kubeconfig, "vision")
    yield team
    team.remove()


@pytest.fixture
def search(queues: Platform) -> Iterator[Team]:
    team = Team(queues.kubeconfig, "search")
    yield team
    team.remove()


def test_a_job_beyond_the_quota_waits_and_starts_when_another_ends(vision: Team) -> None:
    vision.job("large", gpus=8, pods=2)
    eventually(lambda: vision.running("large") == 2)
    vision.job("next", gpus=1)
    assert "insufficient unused quota" in vision.waits("next")
    assert vision.live("next")["spec"]["suspend"] is True
    assert vision.pods("next") == []
    vision.end("large")
    eventually(lambda: vision.running("next") == 1)


def test_a_job_without_a_queue_gets_the_teams_and_runs_on_its_pool(vision: Team) -> None:
    live = vision.job("plain", gpus=1)
    assert live["metadata"]["labels"][QUEUE] == "default"
    eventually(lambda: vision.running("plain") == 1)
    (pod,) = vision.pods("plain")
    assert pod["spec"]["nodeSelector"]["gpu-platform.dev/pool"] == "train"


def test_a_queued_job_with_only_gpus_gets_its_defaults_and_runs(vision: Team) -> None:
    wanted = job("vision", "short", 4)
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "4"}}
    vision.create(wanted)
    eventually(lambda: vision.running("short") == 1)
    (pod,) = vision.pods("short")
    assert [one["effect"] for one in pod["spec"]["tolerations"] if one.get("key") == "nvidia.com/gpu"] == [
        "NoSchedule"
    ]
    assert pod["spec"]["priorityClassName"] == "training"
    assert pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "47820m"


def test_a_job_that_sets_only_limits_is_counted_by_them(vision: Team) -> None:
    wanted = job("vision", "limits", 4, pods=2)
    limits = {"nvidia.com/gpu": "4", "cpu": "48", "memory": "64Gi"}
    container = wanted["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": limits}
    helper = {**container, "name": "prepare", "resources": {"limits": {"cpu": "2"}}}
    wanted["spec"]["template"]["spec"]["initContainers"] = [helper]
    vision.create(wanted)
    eventually(lambda: vision.running("limits"), 2)
    assert len({pod["spec"]["nodeName"] for pod in vision.pods("limits")}) == 2  # a node has 95 CPUs
    workload = vision.workload("limits")
    assert workload is not None
    usage = workload["status"]["admission"]["podSetAssignments"][0]["resourceUsage"]
    assert (usage["cpu"], usage["memory"]) == ("96", "128Gi")


def test_a_job_without_limits_starts_with_the_limits_of_its_pods(
    vision: Team,
) -> None:
    wanted = job("vision", "requests", 1)
    resources = {"limits": {"nvidia.com/gpu": 1}, "requests": {"cpu": "16", "memory": "128Gi"}}
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    live = vision.create(wanted)
    eventually(lambda: vision.running("requests") == 1)
    [pod] = vision.pods("requests")
    of_template, of_pod = (one["spec"]["containers"][0]["resources"] for one in (live["spec"]["template"], pod))
    assert of_template["limits"] == of_pod["limits"]
    assert of_pod["limits"] == {"nvidia.com/gpu": "1", "cpu": "95690m", "memory": "128Gi"}


def test_cpu_jobs_above_the_default_limits_are_refused_with_the_fix(
    vision: Team,
) -> None:
    wanted = job("vision", "large-cpu", 0)
    wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5"}}
    with pytest.raises(Refused, match=r"queue-limits: .*default limits of the namespace, 4 CPU and 16Gi"):
        vision.client.create(wanted, dry_run=True)


def test_a_job_that_a_member_starts_from_a_cron_job_is_queued(queues: Platform, vision: Team) -> None:
    """`kubectl create job NAME --from=cronjob/ENTRY` makes the CronJob the owner of the Job."""
    template = job("vision", "lab", 1)["spec"]
    cron_job = vision.client.create(
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "lab", "namespace": "vision"},
            "spec": {"schedule": "0 0 1 1 *", "suspend": True, "jobTemplate": {"spec": template}},
        }
    )
    try:
        owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "lab", "uid": cron_job["metadata"]["uid"]}
        wanted = job("vision", "ana", 1)
        wanted["metadata"] |= {
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{**owner, "controller": True}],
        }
        live = vision.create(wanted)
        assert live["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "training"
        eventually(lambda: vision.running("ana") == 1)
        assert vision.workload("ana") is not None
    finally:
        vision.client.delete(cron_job)


def test_a_job_that_cannot_reclaim_gpus_because_of_cpu_is_explained(vision: Team, search: Team) -> None:
    def sized(team: Team, name: str, gpus: int, cpu: str, pods: int = 1) -> None:
        wanted = job(team.name, name, gpus, pods)
        amounts = {"cpu": cpu, "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
        wanted["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        team.create(wanted)

    sized(search, "small", 2, "47500m")
    eventually(lambda: search.running("small") == 1)
    sized(vision, "own", 4, "24", pods=2)
    sized(vision, "borrowed", 4, "24")
    eventually(lambda: (vision.running("own"), vision.running("borrowed")), (2, 1))
    sized(search, "next", 4, "48500m")
    assert "insufficient unused quota for nvidia.com/gpu" in search.waits("next")
    admin = KubernetesClient(search.kubeconfig)
    (waiting,) = read_live_guide(admin, "search").waiting
    assert waiting.why.startswith("needs 2 more nvidia.com/gpu of pool train, which is in use; the team's own ")
    assert "because the workload would have to borrow cpu of pool train: request at most 48.14 cpu" in waiting.why


def test_a_queued_pod_with_all_gpus_of_a_node_fits_and_runs(queues: Platform, vision: Team) -> None:
    short = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "whole", "namespace": "vision"},
        "spec": {
            **satisfying(
                {
                    "containers": [
                        {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
                    ]
                }
            )
        },
    }
    vision.client.create(short)
    queues.created.append(short)
    eventually(lambda: queues.find_pod("whole", "vision")["status"].get("phase") == "Running")
    queues.remove_pods()


def test_a_gang_of_four_starts_whole_or_not_at_all(vision: Team, search: Team) -> None:
    search.job("small", gpus=4)
    eventually(lambda: search.running("small") == 1)
    vision.job("gang", gpus=4, pods=4)
    assert vision.waits("gang")
    assert vision.pods("gang") == []
    search.end("small")
    eventually(lambda: vision.running("gang") == 4)


def test_a_gang_does_not_start_on_gpus_that_are_free_on_different_nodes(vision: Team, search: Team) -> None:
    search.job("one", gpus=5)
    search.job("two", gpus=5)
    eventually(lambda: search.running("one") + search.running("two") == 2)
    vision.job("four", gpus=4)
    why = vision.waits("four")
    assert "topology" in why, why
    assert vision.pods("four") == []


def test_a_higher_class_stops_a_lower_one_of_the_same_team(search: Team) -> None:
    search.job("low", gpus=8, pods=2, priority="training")
    eventually(lambda: search.running("low") == 2)
    search.job("high", gpus=8, pods=2, priority="inference")
    eventually(lambda: search.running("high") == 2)
    assert search.live("low")["spec"]["suspend"] is True
    eventually(lambda: search.running("low") == 0)


def test_a_job_without_a_class_waits_with_the_class_of_its_team(vision: Team, search: Team) -> None:
    for team, name, value in ((vision, "training", 100), (search, "inference", 1000)):
        team.job("plain", gpus=1)
        assert team.live("plain")["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == name
        workload = eventually(lambda team=team: team.workload("plain"))
        assert workload is not None
        assert workload["spec"]["priority"] == value


def test_a_job_whose_pods_name_a_class_keeps_it(search: Team) -> None:
    search.create(job("search", "modest", 1, priorityClassName="training"))
    assert "kueue.x-k8s.io/priority-class" not in search.live("modest")["metadata"].get("labels", {})
    workload = eventually(lambda: search.workload("modest"))
    assert workload is not None
    assert workload["spec"]["priority"] == 100


def test_a_team_gets_its_quota_back_from_one_that_borrows_it(vision: Team, search: Team) -> None:
    vision.job("own", gpus=8)
    vision.job("borrowed", gpus=8)
    eventually(lambda: vision.running("own") + vision.running("borrowed") == 2)
    search.job("claims", gpus=8)
    eventually(lambda: search.running("claims") == 1)
    eventually(lambda: vision.running("own") + vision.running("borrowed") == 1)
    search.end("claims")
    eventually(lambda: vision.running("own") + vision.running("borrowed") == 2)


def test_pods_without_a_job_wait_in_the_queue_too(queues: Platform, vision: Team, search: Team) -> None:
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    queues.pod("alone", "nvidia.com/gpu", 8, namespace="vision", tolerate=False)
    pod = queues.find_pod("alone", "vision")
    gates = [gate["name"] for gate in pod["spec"]["schedulingGates"]]
    assert "kueue.x-k8s.io/admission" in gates
    queues.remove_pods()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"queue": "other"}, "the queue of this namespace is default"),
        ({"priority": "inference"}, "no class above the team's own"),
        ({"priorityClassName": "inference"}, "no class above the team's own"),
        ({"priorityClassName": "system-cluster-critical"}, "no class above the team's own"),
    ],
)
def test_a_member_enters_no_other_queue_and_no_higher_class(vision: Team, changes: Any, words: str) -> None:
    with pytest.raises(Refused, match=words):
        vision.client.create(job("vision", "trick", 1, **changes))


def test_a_member_cannot_pretend_that_a_queued_job_owns_a_pod(vision: Team) -> None:
    owner = vision.job("owner", gpus=1)
    # Without this wait, Kueue has not seen the Job yet, and refuses the pod before the policy does.
    eventually(lambda: vision.workload("owner"))
    owners = [
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]
    spec = satisfying({"containers": [{"name": "main", "image": "none"}]})
    metadata = {"name": "stray", "namespace": "vision", "ownerReferences": owners}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    labels = {"app": "stray"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    # Kueue attributes the pods of a ReplicaSet to the Job that owns it.
    copies = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": metadata,
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    for wanted in (pod, copies):
        with pytest.raises(Refused, match="controllers set ownerReferences"):
            vision.client.create(wanted)


def test_a_member_cannot_remove_the_gate_of_a_waiting_pod(queues: Platform, vision: Team, search: Team) -> None:
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    queues.pod("alone", "nvidia.com/gpu", 8, namespace="vision", tolerate=False)
    ungated = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "alone", "namespace": "vision"},
        "spec": {"schedulingGates": None},
    }
    with pytest.raises(Refused, match="Kueue removes the scheduling gates"):
        vision.client.merge(ungated)
    queues.remove_pods()


def test_a_member_cannot_start_a_waiting_job_by_hand(vision: Team, search: Team) -> None:
    search.job("all", gpus=8, pods=2)
    eventually(lambda: search.running("all") == 2)
    vision.job("hasty", gpus=8, pods=2)
    assert vision.waits("hasty")
    started = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "hasty", "namespace": "vision"},
        "spec": {"suspend": False},
    }
    with pytest.raises(Refused, match="queue-start"):
        vision.client.merge(started)
    # No rule stops an administrator, but Kueue stops the Job again.
    KubernetesClient(vision.kubeconfig).merge(started)
    eventually(lambda: vision.live("hasty")["spec"]["suspend"] is True)
    eventually(lambda: vision.pods("hasty") == [])


def test_a_service_account_that_is_a_member_is_no_controller(queues: Platform, vision: Team) -> None:
    owner = vision.job("owner", gpus=1)
    eventually(lambda: vision.workload("owner"))
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": owner["metadata"]["uid"]}]
    stray = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "stray", "namespace": "vision", "ownerReferences": owners},
        "spec": satisfying({"containers": [{"name": "main", "image": "none"}]}),
    }
    deployer = member(queues.kubeconfig, "system:serviceaccounts:ci", "system:serviceaccount:ci:deployer")
    with pytest.raises(Refused, match="queue-owner"):
        deployer.create(stray, dry_run=True)


@pytest.fixture
def job_sets(queues: Platform) -> Iterator[None]:
    """Install a CRD for JobSets that accepts any content. Only Kueue reads JobSets in these tests."""
    version = {
        "name": "v1alpha2",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "subresources": {"status": {}},
    }
    names = {"kind": "JobSet", "plural": "jobsets", "singular": "jobset", "listKind": "JobSetList"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "jobsets.jobset.x-k8s.io"},
        "spec": {"group": "jobset.x-k8s.io", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    live = queues.client.create(definition)
    yield
    queues.client.delete(live)
    name = definition["metadata"]["name"]
    eventually(lambda: queues.client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name) is None)


def test_the_class_of_every_pod_of_a_job_set_is_checked(queues: Platform, job_sets: None) -> None:
    def refusal(*priorities: str) -> str:
        parts = [
            {
                "name": f"part-{number}",
                "template": {"spec": job("vision", "part", 1, priorityClassName=priority)["spec"]},
            }
            for number, priority in enumerate(priorities)
        ]
        metadata = {"name": "whole", "namespace": "vision"}
        wanted = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata,
            "spec": {"replicatedJobs": parts},
        }
        try:
            KubernetesClient(queues.kubeconfig).create(wanted, dry_run=True)
        except (Refused, Finding) as refused:  # a Finding means that the kind is not served yet
            return str(refused)
        return ""

    # The API server, Kueue and the policy handle a new kind only a moment after its CRD is created.
    eventually(lambda: "no class above" in refusal("training", "inference"))
    eventually(lambda: refusal("training", "training"), expected="")


def test_a_job_set_without_a_class_waits_with_the_class_of_its_team(queues: Platform, job_sets: None) -> None:
    def label(priority: str = "") -> str | None:
        pods = job("vision", "part", 1, priorityClassName=priority)["spec"]
        wanted = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "whole", "namespace": "vision"},
            "spec": {"replicatedJobs": [{"name": "part", "template": {"spec": pods}}]},
        }
        try:
            made = KubernetesClient(queues.kubeconfig).create(wanted, dry_run=True)
        except (Refused, Finding):  # the kind is not served yet
            return None
        return made["metadata"].get("labels", {}).get("kueue.x-k8s.io/priority-class", "")

    eventually(label, expected="training")
    eventually(lambda: label("training"), expected="")


def test_members_see_their_queue_and_change_nothing_of_it(vision: Team) -> None:
    queue = vision.client.get(KUEUE, "LocalQueue", "default", "vision")
    assert queue is not None
    metadata = {"name": "default", "namespace": "vision"}
    with pytest.raises(Refused, match="forbidden"):
        vision.client.merge({"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": metadata, "spec": {}})
    vision.job("mine", gpus=1)
    workload = eventually(lambda: vision.workload("mine"))
    assert workload is not None
    with pytest.raises(Refused, match="forbidden"):
        vision.client.merge(
            {
                "apiVersion": KUEUE,
                "kind": "Workload",
                "metadata": {"name": workload["metadata"]["name"], "namespace": "vision"},
                "spec": {"priority": 10000},
            }
        )
    with pytest.raises(Refused, match="forbidden"):
        list(vision.client.objects(KUEUE, "Workload", namespace="search"))


def test_jobs_outside_the_namespaces_of_teams_do_not_wait(queues: Platform) -> None:
    outside = job("default", "outside", 1)
    outside["spec"]["template"]["spec"]["containers"][0]["resources"] = {}
    live = queues.client.create(outside)
    assert live["spec"].get("suspend") is False
    assert QUEUE not in live["metadata"].get("labels", {})
    queues.client.delete(live)


def test_resource_quotas_allow_borrowing_and_stacks_add_up_grants(queues: Platform) -> None:
    resource = "requests.nvidia.com/gpu"
    quota = queues.client.get("v1", "ResourceQuota", "gpu-quota", "vision")
    assert quota is not None
    assert quota["spec"]["hard"][resource] == "16"
    assert deployed_quotas(queues.client)["vision"].hard[resource] == "8"
