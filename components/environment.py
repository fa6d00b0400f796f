"""`Environment`: a whole platform, created from the components of this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pulumi
import pulumi_kubernetes as k8s

from components._charts import with_chart_settings
from components._cloud import TeamIdentityOutputs
from components._cloud_sdk import components_of
from components._objects import with_object_settings
from components._options import child_of_stack
from components.addons import Addons
from components.burn_in import BurnIn, BurnInArgs
from components.cleanup import Cleanup
from components.cluster import ANNOTATIONS_OUTPUT, IDENTITY_OUTPUT, Cluster, ClusterArgs
from components.device_claims import DeviceClasses
from components.gpu_operator import GpuOperator
from components.headroom import Headroom
from components.monitoring import Monitoring
from components.node_pool import NodePool
from components.node_validation import NodeValidation, NodeValidationArgs
from components.priority_classes import PriorityClasses
from components.queues import Queues
from components.storage import ClassParameters, StorageClasses, StorageClassesArgs
from components.team_namespace import TeamNamespace, TeamNamespaceArgs
from components.team_volumes import TeamVolumes, TeamVolumesArgs
from gpu_platform.planning.changes import cluster_facts, pool_facts, protected, software_facts, team_facts
from gpu_platform.planning.guide import guide_of
from gpu_platform.planning.operator import allocation
from gpu_platform.planning.plan import EnvironmentPlan
from gpu_platform.planning.queues import queue_of
from gpu_platform.planning.workloads import workloads_of

PoolsCreator = Callable[[pulumi.ResourceOptions], Mapping[str, Sequence[pulumi.Resource]]]
"""Creates all pools, and returns, for each pool, the resources that create its nodes."""


class ReachedCluster(Protocol):
    """Any component that connects to a cluster."""

    provider: k8s.Provider
    kubeconfig: Any
    context: Any
    identity: Any


class Environment(pulumi.ComponentResource):
    """Component for a whole platform. It creates the cluster, pools, operator, priorities, monitoring and
    validation, then the teams.

    `gpu_platform.stack.environment.Environment` is the model of the stack file. Teams come last, so that their
    workloads start on validated nodes.

    Outputs: the outputs of the stack (`exports`).
    """

    exports: dict[str, Any]
    """Outputs of the stack. The next preview and `destroy` compare their plan with `allocation`, `cluster`,
    `pools`, `software`, `teams`, the cost and the budget.
    """

    def __init__(self, name: str, args: EnvironmentPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        settings = with_object_settings(with_chart_settings(opts, args.charts), args.objects)
        super().__init__("gpu-platform:index:Environment", name, None, settings)
        cluster, create_pools = self._create_cluster(args)
        on_cluster = self._child(cluster)
        self._create_storage(args, cluster, on_cluster)
        priorities = PriorityClasses("priority-classes", args.priority_classes, on_cluster)
        pools = create_pools(on_cluster)
        operator = GpuOperator("gpu-operator", args.operator, on_cluster)
        if args.device_classes:
            DeviceClasses("device-classes", args.device_classes, on_cluster)
        if args.headroom is not None:
            Headroom("headroom", args.headroom, self._child(cluster, operator))
        after: list[pulumi.Resource] = [operator]
        if args.addons.addons:
            after.append(Addons("addons", args.addons, on_cluster))
        if args.monitoring is not None:
            Monitoring("monitoring", args.monitoring, self._child(cluster, *after))
        validation = NodeValidation(
            "node-validation",
            NodeValidationArgs(validation=args.validation, pools=args.pools, nodes=pools),
            self._child(cluster, priorities, operator),
        )
        before = [validation.proof]
        if args.queues is not None:
            before.append(Queues("queues", args.queues, self._child(cluster, priorities)))
        identities = self._create_identities(args, cluster)
        none = TeamIdentityOutputs(resources=())
        queues = args.queues.teams if args.queues is not None else ()
        teams = [
            TeamNamespace(
                team.namespace,
                TeamNamespaceArgs(
                    plan=team,
                    queue=queue_of(team.namespace, queues),
                    guide=guide_of(team.namespace, args.guides),
                    workloads=workloads_of(team.namespace, args.workloads),
                    annotations=identity.annotations,
                ),
                self._child(cluster, *before, *identity.resources),
            )
            for team in args.teams
            for identity in [identities.get(team.namespace, none)]
        ]
        if args.storage.volumes:
            TeamVolumes(
                "team-volumes", TeamVolumesArgs(volumes=args.storage.volumes), self._child(cluster, *teams)
            )
        if args.burn_in is not None:
            on_settled = self._child(cluster, priorities)
            checks = BurnInArgs(plan=args.burn_in, pull_secrets=args.objects.pull_secrets)
            BurnIn("burn-in", checks, on_settled)
        if args.cleanup is not None:
            Cleanup("cleanup", args.cleanup, self._child(cluster, *teams))
        self.exports = {
            "kubeconfig": cluster.kubeconfig,
            "context": cluster.context,
            "operator": operator.release,
            "namespaces": [team.namespace for team in teams],
            "allocatable": {pool.name: dict(pool.node_expectation.allocatable) for pool in args.pools},
            "cost_usd_per_hour": args.cost.usd_per_hour,
            "budget_usd_per_month": args.cost.budget_usd_per_month or 0,  # the state omits null values
            "allocation": allocation(args.pools),
            "cluster": dict(cluster_facts(args)),
            "pools": dict(pool_facts(args)),
            "protected": list(protected(args)),
            "software": dict(software_facts(args)),
            "teams": dict(team_facts(args)),
        }
        if annotations := {team: dict(one.annotations) for team, one in identities.items() if one.annotations}:
            self.exports[ANNOTATIONS_OUTPUT] = annotations
        if cluster.identity is not None:
            self.exports[IDENTITY_OUTPUT] = cluster.identity
        self.register_outputs(self.exports)

    def _create_cluster(self, args: EnvironmentPlan) -> tuple[ReachedCluster, PoolsCreator]:
        """Create the cluster. Return it with a function that creates its pools. Only the cluster's cloud SDK is
        imported.
        """
        opts, cloud = child_of_stack(self), args.cluster.cloud
        if cloud is not None:
            return components_of(cloud.kind).build(cloud, args.pools, opts)
        cluster = Cluster(args.cluster.name, ClusterArgs(plan=args.cluster), opts)
        return cluster, lambda opts: {pool.name: [NodePool(pool.name, pool, opts)] for pool in args.pools}

    def _create_storage(
        self, args: EnvironmentPlan, cluster: ReachedCluster, on_cluster: pulumi.ResourceOptions
    ) -> None:
        """Create the storage classes and volume drivers, after the cloud resources that they need."""
        storage, cloud = args.storage, args.cluster.cloud
        parameters: ClassParameters = {}
        if storage.cloud is not None:
            module = components_of(storage.cloud.kind)
            parameters = module.create_storage(cluster, cloud, storage.cloud, pulumi.ResourceOptions(parent=self))
        if storage.classes:
            StorageClasses(
                "storage-classes", StorageClassesArgs(classes=storage.classes, parameters=parameters), on_cluster
            )

    def _create_identities(
        self, args: EnvironmentPlan, cluster: ReachedCluster
    ) -> Mapping[str, TeamIdentityOutputs]:
        """Create the cloud resources for the teams' identities. Return their outputs by team."""
        identities = args.identities
        if identities is None:
            return {}
        module = components_of(identities.kind)
        opts = pulumi.ResourceOptions(parent=self)
        return module.create_identities(cluster, args.cluster.cloud, identities, opts)

    def _child(self, cluster: ReachedCluster, *after: pulumi.Resource) -> pulumi.ResourceOptions:
        """Return the options for a component whose Kubernetes objects are in the cluster and wait for `after`."""
        return child_of_stack(self, providers=[cluster.provider], depends_on=list(after) or None)
