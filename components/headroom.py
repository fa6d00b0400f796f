"""`Headroom`: pods of the lowest priority that hold GPUs of growing pools until pods of teams need them."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from components._in_namespace import own_namespace, restricted_container, restricted_pod
from components._options import child_options
from gpu_platform import names
from gpu_platform.planning.headroom.section import HeadroomPlan, HeadroomPods

_NAME = "gpu-headroom"
# The GPUs are what is kept free: a pod of a team that preempts one finds the CPU and memory of its node, too.
_REQUESTS = {"cpu": "10m", "memory": "16Mi"}
# A pool at its limit has no place for them: that is no failure of the deployment.
_NOT_AWAITED = {"pulumi.com/skipAwait": "true"}


class Headroom(pulumi.ComponentResource):
    """A namespace, a PriorityClass below all others, and a Deployment for each pool and resource.

    Outputs: `priority`.
    """

    priority: pulumi.Output[int]

    def __init__(self, name: str, args: HeadroomPlan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:Headroom", name, None, opts)
        namespace = own_namespace(args.namespace, "restricted", child_options(self, opts))
        priority = k8s.scheduling.v1.PriorityClass(
            _NAME,
            metadata=k8s.meta.v1.ObjectMetaArgs(name=_NAME),
            value=args.priority,
            global_default=False,
            preemption_policy="Never",
            description="GPUs that are kept free: every other pod preempts these",
            opts=child_options(self, opts),
        )
        child = pulumi.ResourceOptions(parent=self, depends_on=[namespace, priority])
        k8s.networking.v1.NetworkPolicy(
            _NAME,
            metadata=k8s.meta.v1.ObjectMetaArgs(name=_NAME, namespace=args.namespace),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=k8s.meta.v1.LabelSelectorArgs(), policy_types=["Ingress", "Egress"]
            ),
            opts=child,
        )
        for pods in args.pods:
            self._create_deployment(args, pods, child)
        self.priority = pulumi.Output.from_input(args.priority)
        self.register_outputs({"priority": self.priority})

    def _create_deployment(self, args: HeadroomPlan, pods: HeadroomPods, child: pulumi.ResourceOptions) -> None:
        labels = {names.NAME_LABEL: _NAME, names.POOL_LABEL: pods.name}
        k8s.apps.v1.Deployment(
            f"{_NAME}-{pods.name}",
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=pods.name, namespace=args.namespace, labels=labels, annotations=_NOT_AWAITED
            ),
            spec=k8s.apps.v1.DeploymentSpecArgs(
                replicas=pods.replicas,
                selector=k8s.meta.v1.LabelSelectorArgs(match_labels=labels),
                strategy=k8s.apps.v1.DeploymentStrategyArgs(type="Recreate"),
                template=k8s.core.v1.PodTemplateSpecArgs(
                    metadata=k8s.meta.v1.ObjectMetaArgs(labels=labels), spec=_pod(args.image, pods)
                ),
            ),
            opts=child,
        )


def _pod(image: str, pods: HeadroomPods) -> k8s.core.v1.PodSpecArgs:
    units = {pods.resource: str(pods.units)}
    return k8s.core.v1.PodSpecArgs(
        priority_class_name=_NAME,
        automount_service_account_token=False,
        enable_service_links=False,
        termination_grace_period_seconds=0,
        node_selector=dict(pods.node_selector),
        tolerations=[
            k8s.core.v1.TolerationArgs(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
            for taint in pods.tolerations
        ],
        security_context=restricted_pod(),
        containers=[
            k8s.core.v1.ContainerArgs(
                name="pause",
                image=image,
                resources=k8s.core.v1.ResourceRequirementsArgs(
                    requests={**_REQUESTS, **units}, limits={"memory": _REQUESTS["memory"], **units}
                ),
                security_context=restricted_container(),
            )
        ],
    )
