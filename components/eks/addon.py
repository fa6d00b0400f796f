"""An EKS add-on with the IAM role of its service account."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pulumi
import pulumi_aws as aws

from components._options import custom_timeouts
from components.eks.iam import ADDON_NAMESPACE, pod_role
from gpu_platform.planning.clouds.eks.addons import with_pod_subnets
from gpu_platform.planning.clouds.eks.cluster_plan import Addon, EksClusterPlan

# The plan owns the configuration of add-ons, so manual changes in the cluster are reverted.
_ON_CONFLICT = "OVERWRITE"


def create_addon(
    name: str,
    plan: EksClusterPlan,
    cluster_name: pulumi.Input[str],
    addon: Addon,
    opts: pulumi.ResourceOptions,
    pod_subnet_ids: Mapping[str, pulumi.Output[str]] | None = None,
) -> aws.eks.Addon:
    """Register an add-on named `<name>-<add-on>`, which depends on its role.

    The parent in `opts` must be the component. `pod_subnet_ids` maps zones to the pods' subnets, for an add-on
    whose configuration contains these subnets.
    """
    identities = None
    if addon.service_account is not None:
        child = pulumi.ResourceOptions(parent=opts.parent)
        role_name = plan.role_name(addon.name)
        role, attached = pod_role(role_name, addon.service_account, addon.managed_policies, plan.iam, child)
        if addon.statements:
            document = json.dumps({"Version": "2012-10-17", "Statement": list(addon.statements)}, sort_keys=True)
            attached.append(aws.iam.RolePolicy(role_name, role=role.name, policy=document, opts=child))
        if addon.own_association:
            attached.append(
                aws.eks.PodIdentityAssociation(
                    f"{name}-{addon.name}",
                    cluster_name=cluster_name,
                    namespace=ADDON_NAMESPACE,
                    service_account=addon.service_account,
                    role_arn=role.arn,
                    opts=child,
                )
            )
        else:
            identities = [
                aws.eks.AddonPodIdentityAssociationArgs(role_arn=role.arn, service_account=addon.service_account)
            ]
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=attached))
    waits = pulumi.ResourceOptions(custom_timeouts=custom_timeouts(plan.addon_timeouts))
    return aws.eks.Addon(
        f"{name}-{addon.name}",
        cluster_name=cluster_name,
        addon_name=addon.name,
        addon_version=addon.version,
        configuration_values=_configuration(addon, plan.region, pod_subnet_ids or {}),
        pod_identity_associations=identities,
        resolve_conflicts_on_create=_ON_CONFLICT,
        resolve_conflicts_on_update=_ON_CONFLICT,
        opts=pulumi.ResourceOptions.merge(opts, waits),
    )


def _configuration(
    addon: Addon, region: str, pod_subnet_ids: Mapping[str, pulumi.Output[str]]
) -> pulumi.Input[str] | None:
    if addon.takes_pod_subnets:
        subnets = pulumi.Output.all(**pod_subnet_ids)
        return subnets.apply(partial(with_pod_subnets, addon.configuration, region)).apply(_as_json)
    return _as_json(addon.configuration) if addon.configuration else None


def _as_json(configuration: Mapping[str, Any]) -> str:
    return json.dumps(configuration, sort_keys=True)
