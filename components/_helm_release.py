"""Installs a planned Helm chart at its pinned version."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from gpu_platform.planning.clouds.daemonsets import HELM_SECONDS
from gpu_platform.planning.clouds.section import HelmChartPlan


def install(plan: HelmChartPlan, opts: pulumi.ResourceOptions) -> pulumi.Resource:
    """Register the Helm release of a chart at its pinned version."""
    return k8s.helm.v3.Release(
        plan.name,
        k8s.helm.v3.ReleaseArgs(
            name=plan.name,
            chart=plan.chart,
            version=plan.version,
            namespace=plan.namespace,
            repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=plan.repository),
            values=dict(plan.values),
            atomic=True,
            timeout=HELM_SECONDS,
        ),
        opts=opts,
    )
