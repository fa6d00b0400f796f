"""If arguments of the public components are wrong, a single message lists every problem and its argument."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from components import GpuNodePool, GpuOperator, GpuPlatform, GpuTeam, GpuValidation
from tests.components.public_programs import EKS, EXISTING, GKE, SANDBOX, TRAIN, recorded, refused

POOLS = [{"name": "train", **TRAIN}]
TEAM = {"quota": {"gpus": 8}, "priority": "training", "members": ["group:vision"]}


def node_pool(**arguments: Any) -> GpuNodePool:
    # pyrefly: ignore[bad-assignment, bad-unpacking]
    return GpuNodePool("train", {"cluster": SANDBOX, **TRAIN, **arguments})


OUTPUT = object()  # The program replaces this object with a real Output, because an Output needs an event loop.


def with_outputs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_outputs(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_outputs(each) for each in value]
    return pulumi.Output.from_input("x") if value is OUTPUT else value


def places(message: str) -> list[str]:
    """Return the place of each problem that a message lists."""
    return [line.strip("- ").split(": ")[0] for line in message.splitlines()[1:]]


def test_every_problem_of_a_pool_is_named_at_its_argument() -> None:
    message = refused(lambda: node_pool(machine_type="p4de.24xlargee", workload="trainin", colour="green"))
    assert message.splitlines()[0] == "GpuNodePool train: 3 problems"
    assert sorted(places(message)) == ["colour", "machine_type", "workload"]
    assert "did you mean 'training'?" in message


def test_a_missing_argument_is_named_with_the_fix() -> None:
    # pyrefly: ignore[bad-assignment, bad-typed-dict-key]
    message = refused(lambda: GpuNodePool("train", {"cluster": SANDBOX}))
    assert sorted(places(message)) == ["count", "machine_type", "workload"]
    assert "Fix: add count:" in message


def test_a_missing_cluster_is_named() -> None:
    # pyrefly: ignore[bad-argument-type]
    assert places(refused(lambda: GpuNodePool("train", TRAIN))) == ["cluster"]


def test_a_problem_of_a_decision_is_named_at_its_argument() -> None:
    message = refused(lambda: node_pool(sharing={"mode": "mig", "layout": {"3g.40gb": 2, "1g.10gb": 1}}))
    assert places(message) == ["sharing.layout"]
    assert "memory slices" in message


def test_nothing_is_registered_where_arguments_are_wrong() -> None:
    def declare() -> None:
        with pytest.raises(pulumi.RunError):
            node_pool(workload="trainin")
        with pytest.raises(pulumi.RunError):
            GpuPlatform("it", {"cluster": SANDBOX, "pools": []})  # pyrefly: ignore[bad-assignment]

    assert [one.type for one in recorded(declare).resources] == ["pulumi:pulumi:Stack"]


@pytest.mark.parametrize(
    ("place", "arguments"),
    [
        ("machine_type", {"machine_type": OUTPUT}),
        ("count", {"count": OUTPUT}),
        ("count.desired", {"count": {"desired": OUTPUT}}),
        ("labels.tier", {"labels": {"tier": OUTPUT}}),
        ("zones[0]", {"zones": [OUTPUT]}),
        ("cluster.name", {"cluster": {**EXISTING, "name": OUTPUT}}),
        ("cluster.region", {"cluster": {**EKS, "region": OUTPUT}}),
        ("operator.driver.version", {"operator": {"driver": {"version": OUTPUT}}}),
    ],
)
def test_an_output_that_decisions_depend_on_is_one_error_that_names_the_argument(
    place: str, arguments: dict[str, Any]
) -> None:
    message = refused(lambda: node_pool(**with_outputs(arguments)))
    assert places(message) == [place]
    assert f"{place}: found an Output; allowed: a plain value" in message


def test_an_awaitable_is_refused_like_an_output() -> None:
    async def later() -> str:
        return "training"

    waiting = later()
    message = refused(lambda: node_pool(workload=waiting))
    waiting.close()
    assert places(message) == ["workload"]


def test_a_platform_names_the_pool_or_team_by_its_place() -> None:
    arguments: Any = {
        "cluster": SANDBOX,
        "pools": [*POOLS, {**TRAIN, "name": "serve", "count": {"desired": OUTPUT}}],
        "teams": [{"name": "vision", **TEAM, "priority": OUTPUT}],
    }
    message = refused(lambda: GpuPlatform("shop", with_outputs(arguments)))
    assert message.splitlines()[0] == "GpuPlatform shop: 2 problems"
    assert places(message) == ["pools[1].count.desired", "teams[0].priority"]


def test_a_team_names_its_own_arguments_and_those_of_its_pools() -> None:
    arguments: Any = {"cluster": SANDBOX, "pools": POOLS, **TEAM, "quota": {"gpus": 17}, "priority": "urgent"}
    message = refused(lambda: GpuTeam("vision", arguments))
    assert set(places(message)) == {"quota.gpus", "priority"}
    other: Any = {"cluster": SANDBOX, "pools": [{**POOLS[0], "machine_type": "p4de"}], **TEAM}
    assert places(refused(lambda: GpuTeam("vision", other))) == ["pools[0].machine_type"]


def test_a_validation_names_its_own_arguments() -> None:
    arguments: Any = {"cluster": SANDBOX, "pools": POOLS, "timeout": "soon", "gate": "yes"}
    assert sorted(places(refused(lambda: GpuValidation("it", arguments)))) == ["gate", "timeout"]
    other: Any = {
        "cluster": SANDBOX,
        "pools": POOLS,
        "gate_nodes": "sometimes",
        "max_held_percent": 0,
        "metrics": 1,
    }
    found = sorted(places(refused(lambda: GpuValidation("it", other))))
    assert found == ["gate_nodes", "max_held_percent", "metrics"]


def test_an_operator_names_its_own_arguments() -> None:
    arguments: Any = {"cluster": SANDBOX, "pools": POOLS, "operator": {"release": "26.7"}}
    assert places(refused(lambda: GpuOperator("it", arguments))) == ["operator.release"]


def test_a_component_of_an_existing_cluster_refers_to_the_platform_for_a_new_one() -> None:
    message = refused(lambda: node_pool(cluster={**EKS, "create": {"admins": []}}))
    assert "cluster.create" in places(message)
    assert "use GpuPlatform, which creates clusters" in message


def test_a_misspelt_key_of_the_cluster_gets_a_suggestion() -> None:
    message = refused(lambda: node_pool(cluster={**EKS, "node_role": "x"}))
    assert "cluster.node_role" in places(message)
    assert "did you mean 'node_role_arn'?" in message


def test_what_another_provider_needs_is_refused() -> None:
    message = refused(lambda: node_pool(cluster=with_outputs({**SANDBOX, "node_role_arn": OUTPUT})))
    assert places(message) == ["cluster.node_role_arn"]


def test_a_node_group_names_everything_that_it_lacks_of_its_cluster() -> None:
    bare = {key: EKS[key] for key in ("provider", "name", "region")}
    message = refused(lambda: node_pool(cluster=bare, zones=["us-east-2a"]))
    assert places(message) == [
        "cluster.subnets",
        "cluster.cluster_security_group_id",
        "cluster.node_role_arn",
        "cluster.efa_security_group_id",
    ]


def test_nodes_of_an_own_image_need_to_know_the_api_server() -> None:
    image = {"family": "al2023", "ami": "ami-0123456789abcdef0"}
    serve = {"machine_type": "g6.12xlarge", "workload": "inference", "image": image}
    assert places(refused(lambda: node_pool(cluster=EKS, **serve))) == [
        "cluster.endpoint",
        "cluster.certificate_authority",
        "cluster.service_cidr",
    ]


def test_a_gke_pool_with_gpu_networks_names_those_that_are_missing() -> None:
    mega = {"machine_type": "a3-megagpu-8g", "zones": ["us-central1-a"]}
    message = refused(lambda: node_pool(cluster=GKE, **mega))
    assert places(message) == ["cluster.gpu_networks"]
    assert "each of the 8 GPU NICs" in message
    bare = {key: value for key, value in GKE.items() if key != "node_service_account"}
    assert "cluster.node_service_account" in places(refused(lambda: node_pool(cluster=bare, **mega)))


def test_an_empty_subnet_for_a_zone_of_the_pool_is_found_before_anything_is_made() -> None:
    message = refused(lambda: node_pool(cluster=EKS, zones=["us-east-2b"]))
    assert places(message) == ["cluster.subnets"]
    assert "no subnet in us-east-2b" in message


def test_a_team_alone_has_no_identity_in_a_cloud() -> None:
    identity = {"buckets": [{"name": "acme-datasets"}]}
    arguments: Any = {"cluster": EKS, "pools": POOLS, **TEAM, "identity": identity}
    message = refused(lambda: GpuTeam("vision", arguments))
    assert places(message) == ["identity"]
    assert "teams of GpuPlatform" in message
