"""`NodePool`: the nodes of one pool, with the planned labels and taints."""

from __future__ import annotations

import functools

import pulumi

from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from components.mig_guard import guarded
from gpu_platform.base import names
from gpu_platform.planning.clouds.section import AutoscalerPlan
from gpu_platform.planning.nodes.simulated import simulated_annotations
from gpu_platform.planning.pools.section import PoolPlan

# `spec.taints` is an atomic list that also contains taints set by users, autoscalers and Kubernetes.
# After a node is created, Pulumi's provider omits `spec.taints` from its apply, or repeats the live list.
# Source: handleSSAIgnoreFields in pulumi-kubernetes, provider/pkg/await/await.go, read 2026-11-22.
# `gpu-platform` itself restores declared taints that are missing.
_TAINTS_OF_ALL = pulumi.ResourceOptions(ignore_changes=["spec.taints"])


class NodePool(pulumi.ComponentResource):
    """The nodes of one pool.

    In the sandbox, the component creates `v1/Node` objects, which KWOK simulates. For an autoscaled pool it also
    creates Karpenter's NodePool and KWOKNodeClass. On an existing cluster, it labels the nodes that the stack file
    names. It does not change nodes that are selected by label.

    The component does not change the taints of existing nodes, because `spec.taints` is one list for all owners,
    and a patch would remove other owners' taints. Validation reports a missing taint.

    Outputs: `node_names`, the nodes that the component created or labelled.
    """

    node_names: pulumi.Output[list[str]]

    def __init__(self, name: str, args: PoolPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        # Policies read these inputs if the pool's nodes are not resources of the program.
        facts = {
            "ownership": args.nodes.ownership,
            "machineType": args.machine_type,
            "maxNodes": args.nodes.max,
            "labels": dict(args.labels),
            "nodeSelector": dict(args.node_selector),
            "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in args.taints],
        }
        super().__init__("gpu-platform:index:NodePool", name, facts, opts)
        self._child = child_options(self, opts)
        if args.nodes.ownership == "created":
            self._create_nodes(args)
            if args.autoscaler is not None:
                self._create_autoscaler(args.name, args.autoscaler)
        elif args.nodes.ownership == "labelled":
            self._label_nodes(args)
        self.node_names = pulumi.Output.from_input(list(args.nodes.names))
        self.register_outputs({**facts, "node_names": self.node_names})

    # The rollout of a MIG layout sets labels of nodes. The provider then takes over these labels (_FORCE).
    # The hook in mig_guard.py prevents other runs from changing the labels of MIG layouts.
    def _create_nodes(self, args: PoolPlan) -> None:
        for node in args.nodes.names:
            annotations = {names.KWOK_NODE_ANNOTATION: "fake"} | simulated_annotations(
                args.machine_type, (*args.taints, *args.startup_taints), args.driver_version, args.kubelet
            )
            KubernetesObject(
                node,
                "v1/Node",
                metadata={
                    "name": node,
                    "annotations": annotations,
                    "labels": {
                        **args.labels,
                        names.HOSTNAME_LABEL: node,
                        names.INSTANCE_TYPE_LABEL: args.machine_type,
                        "kubernetes.io/os": "linux",
                        "kubernetes.io/arch": args.architecture,
                    },
                },
                spec={"taints": _taints(args)},
                opts=_merged(self._child, _TAINTS_OF_ALL, guarded(args)),
            )

    def _create_autoscaler(self, pool: str, plan: AutoscalerPlan) -> None:
        node_class = KubernetesObject(
            f"{pool}-node-class",
            f"{plan.node_class['apiVersion']}/{plan.node_class['kind']}",
            metadata={"name": pool},
            opts=self._child,
        )
        KubernetesObject(
            f"{pool}-node-pool",
            "karpenter.sh/v1/NodePool",
            metadata={"name": pool},
            spec=plan.node_pool,
            opts=_merged(self._child, pulumi.ResourceOptions(depends_on=[node_class])),
        )

    def _label_nodes(self, args: PoolPlan) -> None:
        for node in args.nodes.names:
            KubernetesObject(
                node,
                "v1/Node",
                patch=True,
                metadata={"name": node, "labels": args.labels},
                opts=_merged(self._child, guarded(args)),
            )


def _merged(opts: pulumi.ResourceOptions, *more: pulumi.ResourceOptions) -> pulumi.ResourceOptions:
    return functools.reduce(pulumi.ResourceOptions.merge, more, opts)


def _taints(args: PoolPlan) -> list[Manifest]:
    taints = (*args.taints, *args.startup_taints)
    return [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints]
