"""Looks up an existing EKS cluster and checks it as soon as its properties are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pulumi
import pulumi_aws as aws

from gpu_platform.base.errors import BadInput
from gpu_platform.planning.clouds.eks.cluster_plan import EksClusterPlan
from gpu_platform.planning.clouds.eks.existing_cluster import (
    SUBNET_TAG,
    VPC_CNI,
    ExistingEksFacts,
    check_looked_up,
    network_policy_warning,
    required_addons,
)
from gpu_platform.planning.clouds.eks.zones import availability_zones


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingEks:
    """Outputs of an existing cluster for its pools. They have no value until the check has passed."""

    name: pulumi.Output[str]
    endpoint: pulumi.Output[str]
    certificate_authority: pulumi.Output[str]
    service_cidr: pulumi.Output[str]
    vpc_id: pulumi.Output[str]
    cluster_security_group_id: pulumi.Output[str]
    subnet_ids: dict[str, pulumi.Output[str]]
    all_subnet_ids: pulumi.Output[list[str]]


def look_up(plan: EksClusterPlan, parent: pulumi.Resource, provider: pulumi.ProviderResource) -> ExistingEks:
    """Look up the plan's cluster, also in previews. Outputs are unknown if the provider is unknown."""
    opts = pulumi.InvokeOptions(parent=parent, provider=provider)
    looked_up = aws.eks.get_cluster_output(name=plan.name, opts=opts)
    vpc_id = looked_up.vpc_config.vpc_id
    found = pulumi.Output.all(
        kubernetes=looked_up.version,
        authentication_mode=looked_up.access_configs[0].authentication_mode,
        auto_mode=looked_up.compute_configs.apply(_has_auto_mode),
        ip_family=looked_up.kubernetes_network_configs.apply(_ip_family),
        addons={
            # pyrefly: ignore[partially-unknown-type] - pyrefly treats the types of a coroutine as unknown
            name: pulumi.Output.from_input(_addon(plan.name, name, needed, opts))
            for name, needed in required_addons(plan).items()
        },
        subnets=_look_up_subnets(plan, vpc_id, opts),
        all_subnets=_look_up_all_subnets(plan, vpc_id, opts),
    ).apply(partial(_checked, plan))
    cluster = pulumi.Output.all(found, looked_up).apply(_second)
    return ExistingEks(
        name=cluster.name,
        endpoint=cluster.endpoint,
        certificate_authority=cluster.certificate_authorities[0].data,
        service_cidr=cluster.kubernetes_network_configs[0].service_ipv4_cidr,
        vpc_id=cluster.vpc_config.vpc_id,
        cluster_security_group_id=cluster.vpc_config.cluster_security_group_id,
        subnet_ids={zone: found.apply(partial(_subnet_in, zone)) for zone in plan.zones},
        all_subnet_ids=found.apply(_all_subnets),
    )


def _look_up_subnets(
    plan: EksClusterPlan, vpc_id: pulumi.Output[str], opts: pulumi.InvokeOptions
) -> dict[str, pulumi.Output[list[str]]]:
    """Return the candidate subnets in each zone that a pool names. Subnets that the stack file names are not
    looked up.
    """
    return {
        zone: pulumi.Output.from_input([plan.subnets[zone]])
        if zone in plan.subnets
        else _tagged_subnets(vpc_id, opts, zone)
        for zone in plan.zones
    }


def _look_up_all_subnets(
    plan: EksClusterPlan, vpc_id: pulumi.Output[str], opts: pulumi.InvokeOptions
) -> pulumi.Output[list[str]]:
    if plan.subnets or not plan.anywhere:
        return pulumi.Output.from_input(list(plan.common_subnets))
    return _tagged_subnets(vpc_id, opts, availability_zones(plan.region))


def _tagged_subnets(vpc_id: pulumi.Output[str], opts: pulumi.InvokeOptions, zone: str) -> pulumi.Output[list[str]]:
    filters = vpc_id.apply(partial(_subnet_filters, zone))
    return aws.ec2.get_subnets_output(filters=filters, tags={SUBNET_TAG: "1"}, opts=opts).ids


def _subnet_filters(zone: str, vpc_id: str) -> list[aws.ec2.GetSubnetsFilterArgs]:
    return [
        aws.ec2.GetSubnetsFilterArgs(name="vpc-id", values=[vpc_id]),
        aws.ec2.GetSubnetsFilterArgs(name="availability-zone", values=[zone]),
    ]


async def _addon(
    cluster: str, name: str, needed: str, opts: pulumi.InvokeOptions
) -> Mapping[str, str | None] | None:
    """Return the version and configuration of an add-on, or None with a warning if the lookup fails.

    The add-on may be installed by other means. `get_addon_output` cannot be used, because the SDK terminates the
    program when an output fails, even if nothing reads the output.
    """
    arguments = {"clusterName": cluster, "addonName": name}
    try:
        # pyrefly: ignore[partially-unknown-type] - pyrefly treats the types of a coroutine as unknown
        addon = await pulumi.runtime.invoke_async("aws:eks/getAddon:getAddon", arguments, opts)
    except Exception as error:  # the SDK raises every error as a plain Exception
        pulumi.log.warn(f"the add-on {name} of {cluster} could not be looked up ({error}); {needed}")
        return None
    if addon is None:
        return None
    found = cast("Mapping[str, str | None]", addon)
    return {"version": found["addonVersion"], "configuration": found.get("configurationValues")}


def _checked(plan: EksClusterPlan, facts: Mapping[str, Any]) -> ExistingEksFacts:
    addons = cast("Mapping[str, Mapping[str, str | None] | None]", facts["addons"])
    vpc_cni = addons.get(VPC_CNI) or {}
    found = ExistingEksFacts(
        kubernetes=facts["kubernetes"],
        authentication_mode=facts["authentication_mode"],
        vpc_cni=vpc_cni.get("version"),
        vpc_cni_configuration=vpc_cni.get("configuration") or "",
        subnets={zone: tuple(ids) for zone, ids in facts["subnets"].items()},
        all_subnets=tuple(facts["all_subnets"]),
        auto_mode=facts["auto_mode"],
        ip_family=facts["ip_family"],
    )
    problems = check_looked_up(found, plan)
    if problems:
        raise pulumi.RunError(str(BadInput(f"EKS cluster {plan.name}", problems)))
    if (warning := network_policy_warning(found, plan)) is not None:
        pulumi.log.warn(str(warning))
    return found


def _has_auto_mode(configs: Sequence[aws.eks.outputs.GetClusterComputeConfigResult] | None) -> bool:
    return any(config.enabled for config in configs or ())


def _ip_family(configs: Sequence[aws.eks.outputs.GetClusterKubernetesNetworkConfigResult] | None) -> str:
    return next((config.ip_family for config in configs or () if config.ip_family), "ipv4")


def _second(both: Sequence[Any]) -> Any:  # noqa: ANN401 - the SDK's result type; its attributes are lifted
    return both[1]


def _all_subnets(found: ExistingEksFacts) -> list[str]:
    return list(found.all_subnets)


def _subnet_in(zone: str, found: ExistingEksFacts) -> str:
    return found.subnets[zone][0]
