"""`BurnIn`: prepares the cluster for active checks of idle nodes.

`gpu-platform burn-in` creates the Jobs of the checks and deletes them.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from components._in_namespace import own_namespace
from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from components.config_map import pod_file
from components.device_claims import claim_template, of_team
from gpu_platform.planning.burn_in.program import PROGRAM, PROGRAM_CONFIG_MAP, SERVICE_ACCOUNT, program
from gpu_platform.planning.burn_in.section import BurnInPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class BurnInArgs:
    """Settings of the active checks, and the Secrets that their pods use to pull the image."""

    plan: BurnInPlan
    pull_secrets: tuple[str, ...] = ()


class BurnIn(pulumi.ComponentResource):
    """A namespace, the check program in a ConfigMap, a PriorityClass below the priorities of all teams, and
    ResourceClaimTemplates.

    Outputs: `namespace`.
    """

    namespace: pulumi.Output[str]

    def __init__(self, name: str, args: BurnInArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:BurnIn", name, None, opts)
        plan = args.plan
        namespace = own_namespace(plan.namespace, plan.pod_security, child_options(self, opts))
        child = pulumi.ResourceOptions(parent=self, depends_on=[namespace])
        KubernetesObject(
            plan.priority_class,
            "scheduling.k8s.io/v1/PriorityClass",
            metadata={"name": plan.priority_class},
            value=plan.priority,
            globalDefault=False,
            preemptionPolicy="Never",
            description="Active checks of idle nodes: they preempt no pod, and any other pod preempts them.",
            opts=child_options(self, opts),
        )
        # The pods need no token, because they communicate only with each other.
        KubernetesObject(
            "burn-in-account",
            "v1/ServiceAccount",
            metadata={"name": SERVICE_ACCOUNT, "namespace": plan.namespace},
            automountServiceAccountToken=False,
            imagePullSecrets=[{"name": secret} for secret in args.pull_secrets] or None,
            opts=child,
        )
        KubernetesObject(
            PROGRAM_CONFIG_MAP,
            "v1/ConfigMap",
            metadata={"name": PROGRAM_CONFIG_MAP, "namespace": plan.namespace},
            data={PROGRAM: program()},
            opts=child,
        )
        for file in plan.files:
            pod_file(file, plan.namespace, child, logical_name=f"burn-in-{file.config_map}")
        # An empty selector selects every pod in the namespace.
        everybody: Manifest = {}
        KubernetesObject(
            "burn-in-own-pods",
            "networking.k8s.io/v1/NetworkPolicy",
            metadata={"name": "own-pods", "namespace": plan.namespace},
            spec={
                "podSelector": everybody,
                "policyTypes": ["Ingress"],
                "ingress": [{"from": [{"podSelector": everybody}]}],
            },
            opts=child,
        )
        for claim in (claim for pool in plan.pools for claim in pool.claims):
            claim_template(claim.name, plan.namespace, of_team(claim), child, logical_name=f"burn-in-{claim.name}")
        self.namespace = namespace.metadata["name"]
        self.register_outputs({"namespace": self.namespace})
