"""Creates the IAM roles of an EKS cluster. Each role has managed policies, and one service that may assume it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from gpu_platform.planning.clouds.eks.cluster_plan import IamPlan

ADDON_NAMESPACE = "kube-system"
_ASSUME = "sts:AssumeRole"
# EKS Pod Identity adds tags to the session, so that a role can allow only one service account.
_ASSUME_WITH_TAGS = [_ASSUME, "sts:TagSession"]


def service_role(
    name: str,
    service: str,
    policies: Sequence[str],
    iam: IamPlan,
    opts: pulumi.ResourceOptions,
    *,
    conditions: Mapping[str, Mapping[str, str]] | None = None,
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """Create a role that only `service` can assume. Return it with its policy attachments.

    `policies` are ARNs. `conditions` maps each comparison operator to the tags that the request must have.
    """
    statement: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": _ASSUME if conditions is None else _ASSUME_WITH_TAGS,
    }
    if conditions is not None:
        statement["Condition"] = {
            operator: {f"aws:RequestTag/{tag}": value for tag, value in tags.items()}
            for operator, tags in conditions.items()
        }
    role = aws.iam.Role(
        name,
        path=iam.path,
        permissions_boundary=iam.boundary,
        assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
        opts=opts,
    )
    attached = [
        aws.iam.RolePolicyAttachment(
            f"{name}-{policy.rpartition('/')[2]}", role=role.name, policy_arn=policy, opts=opts
        )
        for policy in policies
    ]
    return role, list(attached)


def pod_role(
    name: str,
    service_account: str,
    policies: Sequence[str],
    iam: IamPlan,
    opts: pulumi.ResourceOptions,
    *,
    namespace: str = ADDON_NAMESPACE,
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """Create a role that one service account can assume through EKS Pod Identity. Return it with its policy
    attachments.

    The conditions compare the tags that EKS adds to the session, so that no other pod or cluster can assume the
    role. They include the cluster's ARN, because a cluster in another region can have the same name.
    """
    return service_role(
        name,
        "pods.eks.amazonaws.com",
        policies,
        iam,
        opts,
        conditions={
            "StringEquals": {"kubernetes-namespace": namespace, "kubernetes-service-account": service_account},
            "StringLike": {"eks-cluster-arn": iam.cluster},
        },
    )
