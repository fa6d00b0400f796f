"""An EKS add-on with the IAM role of its service account."""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

from components.eks.iam import ADDON_NAMESPACE, pod_role
from gpu_platform.planning.clouds.eks.cluster_plan import Addon, EksClusterPlan

# The plan owns the configuration of add-ons: a field that somebody changed in the cluster is set back.
_ON_CONFLICT = "OVERWRITE"


def create_addon(
    name: str,
    plan: EksClusterPlan,
    cluster_name: pulumi.Input[str],
    addon: Addon,
    opts: pulumi.ResourceOptions,
) -> aws.eks.Addon:
    """Register an add-on named `<name>-<add-on>`, after its role; `opts`: with the component as parent."""
    identities = None
    if addon.service_account is not None:
        child = pulumi.ResourceOptions(parent=opts.parent)
        role_name = plan.role_name(addon.name)
        role, attached = pod_role(
            role_name, plan.name, addon.service_account, addon.managed_policies, plan.iam, child
        )
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
    return aws.eks.Addon(
        f"{name}-{addon.name}",
        cluster_name=cluster_name,
        addon_name=addon.name,
        addon_version=addon.version,
        configuration_values=json.dumps(addon.configuration, sort_keys=True) if addon.configuration else None,
        pod_identity_associations=identities,
        resolve_conflicts_on_create=_ON_CONFLICT,
        resolve_conflicts_on_update=_ON_CONFLICT,
        opts=opts,
    )
