"""`BurnIn`: where active checks of idle nodes run. `gpu-platform burn-in` creates their Jobs and deletes them."""

from __future__ import annotations

import pulumi
import pulumi_kubernetes as k8s

from components._in_namespace import own_namespace
from components._options import child_options
from components.device_claims import claim_template, of_team
from gpu_platform.burn_in.program import PROGRAM, PROGRAM_CONFIG_MAP, SERVICE_ACCOUNT, program
from gpu_platform.planning.burn_in.section import BurnInPlan


class BurnIn(pulumi.ComponentResource):
    """A namespace with the program, a priority below all pods of teams, and templates of claims of devices.

    Outputs: `namespace`.
    """

    namespace: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        args: BurnInPlan,
        opts: pulumi.ResourceOptions | None = None,
        *,
        pull_secrets: tuple[str, ...] = (),
    ) -> None:
        super().__init__("gpu-platform:index:BurnIn", name, None, opts)
        namespace = own_namespace(args.namespace, args.pod_security, child_options(self, opts))
        child = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        k8s.scheduling.v1.PriorityClass(
            args.priority_class,
            metadata=k8s.meta.v1.ObjectMetaArgs(name=args.priority_class),
            value=args.priority,
            global_default=False,
            preemption_policy="Never",
            description="Active checks of idle nodes: they displace no pod, and every pod displaces them.",
            opts=child_options(self, opts),
        )
        # No token: the pods talk to each other alone.
        k8s.core.v1.ServiceAccount(
            "burn-in-account",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=SERVICE_ACCOUNT, namespace=args.namespace),
            automount_service_account_token=False,
            image_pull_secrets=[k8s.core.v1.LocalObjectReferenceArgs(name=secret) for secret in pull_secrets]
            or None,
            opts=child,
        )
        k8s.core.v1.ConfigMap(
            PROGRAM_CONFIG_MAP,
            metadata=k8s.meta.v1.ObjectMetaArgs(name=PROGRAM_CONFIG_MAP, namespace=args.namespace),
            data={PROGRAM: program()},
            opts=child,
        )
        # A selector without labels is every pod of the namespace.
        everybody = k8s.meta.v1.LabelSelectorArgs()
        k8s.networking.v1.NetworkPolicy(
            "burn-in-own-pods",
            metadata=k8s.meta.v1.ObjectMetaArgs(name="own-pods", namespace=args.namespace),
            spec=k8s.networking.v1.NetworkPolicySpecArgs(
                pod_selector=everybody,
                policy_types=["Ingress"],
                ingress=[
                    k8s.networking.v1.NetworkPolicyIngressRuleArgs(
                        from_=[k8s.networking.v1.NetworkPolicyPeerArgs(pod_selector=everybody)]
                    )
                ],
            ),
            opts=child,
        )
        for claim in (claim for pool in args.pools for claim in pool.claims):
            claim_template(claim.name, args.namespace, of_team(claim), child, logical_name=f"burn-in-{claim.name}")
        self.namespace = namespace.metadata.name
        self.register_outputs({"namespace": self.namespace})
