"""`Headroom`: lowest-priority pods that keep GPUs of autoscaled pools free until the teams' pods need them."""

from __future__ import annotations

import pulumi

from components._in_namespace import own_namespace, restricted_container, restricted_pod
from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from gpu_platform.base import names
from gpu_platform.planning.headroom import PRIORITY_CLASS
from gpu_platform.planning.headroom.section import HeadroomPlan, HeadroomPods

# Only GPUs are kept free. A team's pod that preempts a headroom pod must also find CPU and memory on the node.
_REQUESTS = {"cpu": "10m", "memory": "16Mi"}
# A deployment must not fail because a pool at its maximum size has no free GPUs for headroom pods.
_NOT_AWAITED = {"pulumi.com/skipAwait": "true"}


class Headroom(pulumi.ComponentResource):
    """A namespace, a PriorityClass below all others, and a Deployment for each pool and resource.

    Outputs: `priority`.
    """

    priority: pulumi.Output[int]

    def __init__(self, name: str, args: HeadroomPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Headroom", name, None, opts)
        namespace = own_namespace(args.namespace, "restricted", child_options(self, opts))
        priority = KubernetesObject(
            PRIORITY_CLASS,
            "scheduling.k8s.io/v1/PriorityClass",
            metadata={"name": PRIORITY_CLASS},
            value=args.priority,
            globalDefault=False,
            preemptionPolicy="Never",
            description="GPUs that are kept free; every other pod preempts these pods",
            opts=child_options(self, opts),
        )
        child = pulumi.ResourceOptions(parent=self, depends_on=[namespace, priority])
        KubernetesObject(
            PRIORITY_CLASS,
            "networking.k8s.io/v1/NetworkPolicy",
            metadata={"name": PRIORITY_CLASS, "namespace": args.namespace},
            spec={"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
            opts=child,
        )
        for pods in args.pods:
            self._create_deployment(args, pods, child)
        self.priority = pulumi.Output.from_input(args.priority)
        self.register_outputs({"priority": self.priority})

    def _create_deployment(self, args: HeadroomPlan, pods: HeadroomPods, child: pulumi.ResourceOptions) -> None:
        labels = {names.NAME_LABEL: PRIORITY_CLASS, names.POOL_LABEL: pods.name}
        KubernetesObject(
            f"{PRIORITY_CLASS}-{pods.name}",
            "apps/v1/Deployment",
            metadata={
                "name": pods.name,
                "namespace": args.namespace,
                "labels": labels,
                "annotations": _NOT_AWAITED,
            },
            spec={
                "replicas": pods.replicas,
                "selector": {"matchLabels": labels},
                "strategy": {"type": "Recreate"},
                "template": {"metadata": {"labels": labels}, "spec": _pod(args.image, pods)},
            },
            opts=child,
        )


def _pod(image: str, pods: HeadroomPods) -> Manifest:
    units = {pods.resource: str(pods.units)}
    return {
        "priorityClassName": PRIORITY_CLASS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": dict(pods.node_selector),
        "tolerations": [
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}
            for taint in pods.tolerations
        ],
        "securityContext": restricted_pod(),
        "containers": [
            {
                "name": "pause",
                "image": image,
                "resources": {
                    "requests": {**_REQUESTS, **units},
                    "limits": {"memory": _REQUESTS["memory"], **units},
                },
                "securityContext": restricted_container(),
            }
        ],
    }
