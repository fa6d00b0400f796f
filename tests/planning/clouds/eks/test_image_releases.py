"""How the program sets a pinned node image release for EKS and for Karpenter, and which releases are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gpu_platform.base.errors import BadInput
from gpu_platform.catalog import load_catalog
from gpu_platform.planning import EnvironmentPlan
from gpu_platform.planning.changes import classify, cluster_facts, pool_changes, pool_facts
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.existing_cluster import ExistingEksFacts, check_looked_up
from gpu_platform.planning.clouds.eks.plan import KarpenterPoolPlan
from tests.planning.clouds.eks.eks_pools import (
    AMI,
    eks,
    node_group,
    plan_and_decisions,
    planned,
    pool,
    problems_of,
)
from tests.support.eks_stacks import CREATED, EXISTING, plan_eks, record_eks

AL2023 = "1.35.4-20260818"
BOTTLEROCKET = "1.64.0-2f4c3a1b"
KARPENTER: dict[str, Any] = {"machine_type": "g6.4xlarge", "workload": "development", "provisioner": "karpenter"}


def alias(**image: Any) -> str:
    plan = planned(**KARPENTER, count={"desired": 0, "max": 2}, image=image).cloud
    assert isinstance(plan, KarpenterPoolPlan)
    (term,) = plan.node_class["amiSelectorTerms"]
    return term["alias"]


def test_a_managed_node_group_keeps_its_release_until_it_is_edited() -> None:
    assert node_group(image={"release": AL2023}).release_version == AL2023
    group = record_eks({"image": {"release": "1.34.8-20260818"}}).one("NodeGroup", "train")
    assert group.inputs["releaseVersion"] == "1.34.8-20260818"
    assert "releaseVersion" not in record_eks({}).one("NodeGroup", "train").inputs


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({"release": "v20260818"}, "al2023@v20260818"),
        ({"release": AL2023}, "al2023@v20260818"),
        ({"family": "bottlerocket", "release": "v1.64.0"}, "bottlerocket@v1.64.0"),
        ({"family": "bottlerocket", "release": BOTTLEROCKET}, "bottlerocket@v1.64.0"),
        ({}, "al2023@v20260714"),
    ],
)
def test_karpenter_gets_the_release_as_an_alias(image: dict[str, str], expected: str) -> None:
    assert alias(**image) == expected


@pytest.mark.parametrize(
    ("image", "found"),
    [
        ({"release": "v20260818"}, "a release of al2023 as EKS names it: 1.36.2-20260818"),
        ({"release": "1.35"}, "a release of al2023"),
        ({"release": BOTTLEROCKET}, "a release of al2023"),
        ({"release": "v20260818", "family": "bottlerocket"}, "a release of bottlerocket"),
        ({"release": AL2023, "ami": AMI}, "release or ami, not both"),
    ],
)
def test_a_release_that_the_image_does_not_have_is_refused(image: dict[str, str], found: str) -> None:
    (problem,) = problems_of(pool(image=image))
    assert problem.path == "pool.image.release"
    assert found in str(problem)


def test_a_release_of_another_kubernetes_than_the_clusters_is_refused() -> None:
    (problem,) = problems_of(pool(image={"release": AL2023}), eks(kubernetes="1.36"))
    assert "begins with 1.36" in str(problem)
    assert problems_of(pool(image={"release": AL2023}), eks(kubernetes="1.35")) == []
    assert problems_of(pool(image={"release": AL2023}), eks()) == [], "unknown until the cluster is looked up"


@pytest.mark.parametrize(
    ("settings", "image", "first"),
    [
        (KARPENTER, {"release": "v20260423"}, "v20260523"),
        (KARPENTER, {"family": "bottlerocket", "release": "v1.60.0"}, "v1.61.0"),
        ({}, {"family": "bottlerocket", "release": "1.60.0-2f4c3a1b"}, "a release of v1.61.0"),
    ],
)
def test_a_release_that_is_older_than_the_kubernetes_of_the_cluster_is_refused(
    settings: dict[str, Any], image: dict[str, str], first: str
) -> None:
    given = {**settings, "count": {"desired": 0, "max": 2}} if settings else {}
    (problem,) = problems_of(pool(**given, image=image), eks(kubernetes="1.36"))
    assert problem.path == "pools[0].image.release"
    assert problem.fix == f"name {first} or a newer release, or remove release"
    assert problems_of(pool(**given, image=image), eks(kubernetes="1.35")) == []
    assert problems_of(pool(**given, image=image), eks()) == [], "unknown until the cluster is looked up"


NEWEST = {key: value for key, value in CREATED.items() if key != "kubernetes"}
OLD_SYSTEM = {**NEWEST, "create": {**CREATED["create"], "system": {"release": AL2023}}}


@pytest.mark.parametrize(
    ("cluster", "settings", "place"),
    [
        (NEWEST, {"image": {"release": AL2023}}, "pools[0].image.release"),
        (
            NEWEST,
            {**KARPENTER, "count": {"desired": 0, "max": 2}, "image": {"release": "v20260501"}},
            "pools[0].image.release",
        ),
        (NEWEST, {"machine_type": "m7i.xlarge", "workload": "general", "image": {"release": AL2023}}, "pools[0]"),
        (OLD_SYSTEM, {}, "cluster.create.system.release"),
    ],
)
def test_a_release_is_compared_with_the_kubernetes_that_planning_chooses(
    cluster: dict[str, Any], settings: dict[str, Any], place: str
) -> None:
    with pytest.raises(BadInput) as refused:
        plan_eks(settings, cluster=cluster)
    (problem,) = refused.value.problems
    assert problem.path.startswith(place)
    assert "on Kubernetes 1.36, the newest, because cluster.kubernetes is not set" in problem.found


def test_a_release_is_compared_with_the_kubernetes_of_an_existing_cluster() -> None:
    plan = plan_eks(
        {**KARPENTER, "count": {"desired": 0, "max": 2}, "image": {"release": "v20260501"}}, cluster=EXISTING
    ).cluster.cloud
    assert isinstance(plan, EksClusterPlan)
    facts = ExistingEksFacts(
        kubernetes="1.35", authentication_mode="API", vpc_cni=None, subnets={}, all_subnets=("subnet-1",)
    )
    assert check_looked_up(facts, plan) == []
    (problem,) = check_looked_up(replace(facts, kubernetes="1.36"), plan)
    assert problem.path == "pools[0].image.release"
    assert "the version of cluster ml" in problem.found


def test_dranet_is_compared_with_the_kubernetes_of_an_existing_cluster() -> None:
    pool = {"network": {"via": "dranet"}, "zones": ["us-east-2a"], "count": {"desired": 2}}
    plan = plan_eks(pool, cluster=EXISTING).cluster.cloud
    assert isinstance(plan, EksClusterPlan)
    facts = ExistingEksFacts(
        kubernetes="1.34",
        authentication_mode="API",
        vpc_cni=None,
        subnets={"us-east-2a": ("subnet-1",)},
        all_subnets=(),
    )
    assert check_looked_up(facts, plan) == []
    (problem,) = check_looked_up(replace(facts, kubernetes="1.33"), plan)
    assert (problem.path, problem.allowed) == ("cluster.kubernetes", "1.34 or newer")


@pytest.mark.parametrize("image", [{"release": "1.35.4-20260422"}, {"release": "1.34.2-20251217"}])
def test_a_release_that_exposes_gpus_to_all_pods_is_refused(
    image: dict[str, str],
) -> None:
    (problem,) = problems_of(pool(image=image))
    assert problem.path == "pool.image.release"
    assert "20260423 or newer" in problem.allowed
    assert problems_of(pool(image={"release": "1.35.4-20260423"})) == []
    assert problems_of(pool(image={"family": "bottlerocket", "release": "1.40.0-2f4c3a1b"})) == []


def test_an_alias_that_exposes_gpus_is_refused_only_on_gpu_pools() -> None:
    (problem,) = problems_of(pool(**KARPENTER, count={"desired": 0, "max": 2}, image={"release": "v20260422"}))
    assert "20260423 or newer" in problem.allowed
    cpu = pool(machine_type="m7i.2xlarge", workload="general", image={"release": "1.35.4-20260422"})
    assert problems_of(cpu) == []


def test_a_pinned_release_may_have_a_driver_of_its_own() -> None:
    assert problems_of(pool(image={"release": AL2023, "driver": "580.173.02"})) == []


def test_a_decision_states_what_patches_the_nodes() -> None:
    _, unpinned = plan_and_decisions()
    assert "newest release when the pool is created, and again at each change that rolls" in unpinned["image"].why
    _, pinned = plan_and_decisions(image={"release": AL2023})
    assert pinned["image"].chosen == f"AL2023_x86_64_NVIDIA {AL2023}"
    assert "rolled for a reason other than a new image.release" in pinned["image"].why


def causes_of(before: dict[str, Any], after: dict[str, Any]) -> str:
    old, new = (plan_eks(one, cluster=CREATED) for one in (before, after))
    (change,) = pool_changes(json.loads(json.dumps(dict(pool_facts(old)))), new, load_catalog())
    return str(change)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ({}, "the new nodes get the newest EKS image, whose kernel"),
        ({"release": "1.34.8-20260818"}, "newest EKS image, and not 1.34.8-20260818"),
    ],
)
def test_an_unrelated_roll_is_announced_with_the_newest_image(image: dict[str, str], words: str) -> None:
    assert words in causes_of({"image": image}, {"image": image, "disk": {"size_gb": 1400}})


def test_a_roll_to_a_release_or_custom_image_uses_that_image() -> None:
    old, new = ({"release": f"1.34.8-{day}"} for day in ("20260718", "20260818"))
    assert "newest EKS image" not in causes_of({"image": old}, {"image": new, "disk": {"size_gb": 1400}})
    own = {"ami": AMI, "driver": "580.173.02"}
    assert "newest EKS image" not in causes_of({"image": own}, {"image": own, "disk": {"size_gb": 1400}})


def test_a_roll_of_system_nodes_is_announced_with_the_newest_image() -> None:
    def plan(release: str, **cluster: Any) -> EnvironmentPlan:
        create = {**CREATED["create"], "system": {"release": release}}
        return plan_eks({}, cluster={**CREATED, "create": create, **cluster})

    before = json.loads(json.dumps({"cluster": cluster_facts(plan("1.34.8-20260718"))}))
    found = classify(before, plan("1.34.8-20260718", tags={"cost-center": "1"}), load_catalog(), live=None)
    (row,) = [one for one in found if one.subject == "cluster"]
    assert "and not 1.34.8-20260718: the AWS provider sends create.system.release only" in row.because


@pytest.mark.parametrize(
    ("before", "after", "effects"),
    [
        ({"release": "1.34.8-20260718"}, {"release": "1.34.8-20260818"}, ["rolled"]),
        ({}, {"release": "1.34.8-20260818"}, ["rolled"]),
        ({"release": "1.34.8-20260818"}, {}, []),
    ],
)
@pytest.mark.parametrize("provisioner", ["managed", "karpenter"])
def test_another_release_rolls_the_nodes(
    before: dict[str, str], after: dict[str, str], effects: list[str], provisioner: str
) -> None:
    given = KARPENTER | {"count": {"desired": 0, "max": 2}} if provisioner == "karpenter" else {}
    old, new = (plan_eks({**given, "image": image}, cluster=CREATED) for image in (before, after))
    found = pool_changes(json.loads(json.dumps(dict(pool_facts(old)))), new, load_catalog())
    if provisioner == "karpenter":
        effects = ["rolled"]  # without a pinned release, the catalogue supplies one
    assert [one.effect for one in found] == effects


@pytest.mark.parametrize(
    ("provisioner", "old", "new", "fix"),
    [
        ({}, "1.35.4-20260818", "1.35.4-20260917", "name a release that ends in -20260917 or a newer one"),
        (
            {"provisioner": "karpenter", "count": {"desired": 0, "max": 1}},
            "v20260818",
            "v20260917",
            "name v20260917 or a newer one",
        ),
    ],
    ids=["managed", "karpenter"],
)
def test_g7_takes_a_release_with_its_driver(provisioner: dict[str, Any], old: str, new: str, fix: str) -> None:
    g7 = {"machine_type": "g7.12xlarge", "workload": "inference", **provisioner}
    cluster = {**CREATED, "kubernetes": "1.35"}
    images: tuple[dict[str, str], ...] = ({}, {"release": old})
    for image in images:
        with pytest.raises(BadInput) as caught:
            plan_eks(g7 | {"image": image}, cluster=cluster)
        (problem,) = caught.value.problems
        assert "with driver branch 580 of its image" in problem.found
        assert problem.fix.startswith(fix)
    assert plan_eks(g7 | {"image": {"release": new}}, cluster=cluster)


def test_other_types_keep_the_older_driver_of_a_release_with_two() -> None:
    cluster = {**CREATED, "kubernetes": "1.35"}
    with pytest.raises(BadInput, match="whose image has branch 580"):
        plan_eks(
            {"image": {"release": "1.35.4-20260917"}},
            cluster=cluster,
            operator={"driver": {"version": "595.91.07"}},
        )
