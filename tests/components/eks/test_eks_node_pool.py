"""How EKS pools are created, changed and deleted."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import pytest

from gpu_platform.base import names
from gpu_platform.deploy.recorded.properties import UNKNOWN
from gpu_platform.deploy.recorded.record import ResourceRecord
from policies import evaluate
from tests.components.eks.pool_forms import FORMS
from tests.support.eks_stacks import CREATED, EXISTING, record_eks
from tests.support.recorded import Recorded

TODAY = datetime.date(2026, 11, 21)
RESERVED = [name for name, form in FORMS.items() if form.get("capacity", {}).get("reservation")]
BOUGHT_BY_THE_HOUR = [name for name in FORMS if name not in RESERVED]


def all_forms(**cluster: Any) -> Recorded:
    """Record the resources of a stack that has a pool of every form."""
    return record_eks(*({**form, "name": name} for name, form in FORMS.items()), cluster={**CREATED, **cluster})


def of_pools(recorded: Recorded) -> list[ResourceRecord]:
    return [r for r in recorded.resources if r.custom and "index:EksNodePool" in r.parent]


def test_pool_resources_are_children_and_use_the_clusters_aws_provider() -> None:
    made = of_pools(all_forms())
    assert {r.type for r in made} == {
        "aws:ec2/launchTemplate:LaunchTemplate",
        "aws:ec2/placementGroup:PlacementGroup",
        "aws:eks/nodeGroup:NodeGroup",
        "aws:autoscaling/tag:Tag",
    }
    for record in made:
        assert "pulumi:providers:aws::ml::" in record.provider, record.urn


def ignores_desired(count: dict[str, int], **pool: Any) -> bool:
    place = {} if "capacity" in pool else {"zones": ["us-east-2a"]}
    group = record_eks({"count": count, **place, **pool}).one("NodeGroup", "train")
    return "scalingConfig.desiredSize" in group.ignore_changes


def test_an_edit_of_desired_acts_unless_an_autoscaler_or_eks_sets_the_size() -> None:
    assert not ignores_desired({"desired": 2})
    assert not ignores_desired({"min": 2, "desired": 2, "max": 2})
    assert ignores_desired({"desired": 2, "max": 4})
    assert ignores_desired({"desired": 1}, capacity=FORMS["p5-block"]["capacity"])


def test_a_changed_count_of_an_autoscaled_pool_applies_in_that_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    autoscaled = {"desired": 3, "max": 5}
    monkeypatch.setenv(names.RESIZED_VARIABLE, '["other"]')
    assert ignores_desired(autoscaled, labels={"run": "one"})
    monkeypatch.setenv(names.RESIZED_VARIABLE, '["train"]')
    assert not ignores_desired(autoscaled, labels={"run": "two"})


def test_a_pool_says_which_node_group_and_launch_template_it_is() -> None:
    (pool,) = record_eks(FORMS["g6e-on-demand"]).of("EksNodePool")
    assert set(pool.outputs) == {"node_group_name", "launch_template_id"}


def test_nodes_are_upgraded_by_the_cluster_or_by_their_custom_image() -> None:
    def versions(**cluster: Any) -> set[str | None]:
        made = all_forms(**cluster).of("NodeGroup")
        return {one.inputs.get("version") for one in made if one.name not in ("system", "own-image")}

    assert versions() == {"1.34"}
    assert versions(kubernetes="1.35") == {"1.35"}
    assert "version" not in all_forms().one("NodeGroup", "own-image").inputs
    assert "version" not in record_eks(FORMS["p5-block"], cluster=EXISTING).of("NodeGroup")[0].inputs


@pytest.mark.parametrize("form", RESERVED)
def test_a_reserved_pool_is_deleted_first_and_keeps_its_name(form: str) -> None:
    record = all_forms().one("NodeGroup", form)
    assert record.delete_before_replace
    assert record.inputs["nodeGroupName"] == form


@pytest.mark.parametrize("form", BOUGHT_BY_THE_HOUR)
def test_other_pools_are_created_first_under_a_generated_name(form: str) -> None:
    record = all_forms().one("NodeGroup", form)
    assert not record.delete_before_replace
    assert "nodeGroupName" not in record.inputs
    assert "nodeGroupNamePrefix" not in record.inputs


@pytest.mark.parametrize("production", [True, False])
def test_production_protects_pools_from_deletion(production: bool) -> None:
    groups = all_forms(production=production).of("NodeGroup")
    pools = [record for record in groups if "index:EksNodePool" in record.parent]
    assert [record.protect for record in pools] == [production] * len(FORMS)


def test_the_update_timeout_allows_draining_nodes_one_by_one() -> None:
    record = record_eks(FORMS["p5-block"]).one("NodeGroup", "train")
    assert record.timeouts == {"create": "60m", "update": "360m", "delete": "120m"}


def test_a_pool_without_zones_may_use_the_private_subnets_of_all_and_no_public_one() -> None:
    recorded = record_eks(FORMS["g6e-on-demand"], cluster=CREATED)
    subnets = {r.urn: r.name for r in recorded.of("Subnet")}
    record = recorded.one("NodeGroup", "train")
    used = {subnets[urn] for urn in record.property_dependencies["subnetIds"] if urn in subnets}
    assert used == {name for name in subnets.values() if "-private-" in name}
    assert len(used) > 1


def test_a_pool_that_names_no_zones_is_not_replaced_when_another_pool_adds_one() -> None:
    left_alone = {
        zones: record_eks({**FORMS["g6e-on-demand"], **({"zones": [zones]} if zones else {})})
        .one("NodeGroup", "train")
        .ignore_changes
        for zones in ("", "us-east-2a")
    }
    assert "subnetIds" in left_alone[""]
    assert "subnetIds" not in left_alone["us-east-2a"]


def test_nodes_are_created_after_their_role_the_network_and_the_vpc_cni() -> None:
    recorded = record_eks(FORMS["p5-block"], cluster=CREATED)
    before = recorded.before(recorded.one("NodeGroup", "train"))
    policies = [r for r in recorded.of("RolePolicyAttachment") if "-nodes-" in r.name]
    assert policies
    assert {r.urn for r in policies} <= before
    assert {r.urn for r in recorded.of("RouteTableAssociation") if "private" in r.name} <= before
    assert [r.urn for r in recorded.of("Addon") if r.inputs["addonName"] == "vpc-cni" and r.urn in before]


@pytest.mark.parametrize("form", FORMS)
def test_a_preview_shows_user_data_unless_it_depends_on_a_new_cluster(form: str) -> None:
    user_data = all_forms().one("LaunchTemplate", form).inputs.get("userData")
    if form == "own-image":
        assert user_data == UNKNOWN
    elif user_data is not None:
        assert base64.b64decode(user_data, validate=True)


def test_instances_volumes_and_interfaces_carry_the_names_of_stack_and_pool() -> None:
    found = record_eks(FORMS["p5-block"]).one("LaunchTemplate", "train").inputs["tagSpecifications"]
    assert [one["resourceType"] for one in found] == ["instance", "volume", "network-interface"]
    for one in found:
        assert one["tags"] == {
            "Name": "ml-train",
            "gpu-platform.dev/pool": "train",
            "gpu-platform.dev/stack": "test",
        }


NODES_GROUP = "sg-0a1b2c3d4e5f60718"


def test_nodes_have_the_stacks_and_the_clusters_security_groups() -> None:
    cluster = {**EXISTING, "security_groups": [NODES_GROUP]}

    def template(form: str) -> dict[str, Any]:
        return dict(record_eks(FORMS[form], cluster=cluster).one("LaunchTemplate", "train").inputs)

    plain = template("g6e-on-demand")
    assert (len(plain["vpcSecurityGroupIds"]), plain["vpcSecurityGroupIds"][-1]) == (2, NODES_GROUP)
    with_efa = template("p5-block")
    assert "vpcSecurityGroupIds" not in with_efa
    for interface in with_efa["networkInterfaces"]:
        assert (len(interface["securityGroups"]), interface["securityGroups"][1]) == (3, NODES_GROUP)


def test_what_a_pool_is_made_of_carries_its_name() -> None:
    made = of_pools(record_eks(FORMS["p4de-placed"]))
    assert len(made) == 3
    for record in made:
        assert record.inputs["tags"]["gpu-platform.dev/pool"] == "train", record.urn


def test_an_instance_started_by_hand_has_the_newest_version_of_the_template() -> None:
    assert record_eks(FORMS["p5-block"]).one("LaunchTemplate", "train").inputs["updateDefaultVersion"] is True


@pytest.mark.parametrize(
    ("form", "key", "value"),
    [
        ({**FORMS["g6-own-key"], "disk": {"type": "io2"}}, "iops", 3000),
        ({**FORMS["g5g-arm"]}, "throughput", 500),
    ],
    ids=["io2 needs IOPS", "gp3 volume with the pulled images"],
)
def test_the_speed_of_a_volume_follows_its_type_and_its_content(
    form: dict[str, Any], key: str, value: int
) -> None:
    (disk,) = record_eks(form).one("LaunchTemplate", "train").inputs["blockDeviceMappings"]
    assert disk["ebs"][key] == value


def test_only_pools_with_efa_join_the_efa_security_group() -> None:
    recorded = all_forms()
    (efa,) = [r.urn for r in recorded.of("SecurityGroup") if "efa" in r.name]
    joined = {r.name for r in recorded.of("LaunchTemplate") if efa in r.dependencies}
    assert joined == {name for name in FORMS if name.startswith("p")}


@pytest.mark.parametrize("cluster", [CREATED, EXISTING])
def test_pools_of_every_form_keep_all_rules_of_the_policy_pack(cluster: dict[str, Any]) -> None:
    pools = [{**form, "name": name} for name, form in FORMS.items()]
    records = [r.to_json() for r in record_eks(*pools, cluster=cluster).resources]
    report = evaluate(records, {"all": "mandatory"}, TODAY)
    assert [str(violation) for violation in report.violations] == []


@pytest.mark.parametrize(
    ("key", "rule"),
    [("taints", "gpu-node-taint"), ("labels", "topology-for-multi-gpu")],
)
def test_the_policy_pack_sees_eks_pools_as_they_are(key: str, rule: str) -> None:
    """A pool without its taints, or without its labels and user data, violates a rule that the complete pool
    satisfies.
    """
    records = [r.to_json() for r in record_eks(FORMS["p5-block"]).resources]
    for record in records:
        if record["type"].endswith(":NodeGroup") and record["name"] == "train":
            record["inputs"] = {**record["inputs"], key: _less(record["inputs"][key])}
        if record["type"].endswith(":LaunchTemplate") and record["name"] == "train" and key == "labels":
            record["inputs"] = {k: v for k, v in record["inputs"].items() if k != "userData"}
    found = evaluate(records, {"all": "disabled", rule: "mandatory"}, TODAY).violations
    assert [violation.subject for violation in found] == ["train"]


def _less(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: inner for key, inner in value.items() if "topology" not in key}
    return []
