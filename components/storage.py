"""`StorageClasses`: the storage classes for the teams' volumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from components._kubernetes_object import KubernetesObject, Manifest
from components._options import child_options
from gpu_platform.planning.clouds.storage import StorageClassPlan

_DEFAULT_ANNOTATION = "storageclass.kubernetes.io/is-default-class"


Parameters = Mapping[str, pulumi.Input[str]] | pulumi.Output[Mapping[str, str]]
ClassParameters = Mapping[str, Parameters]
"""Parameters of storage classes, by class name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageClassesArgs:
    """Planned storage classes. `parameters` maps each storage class to the parameters that are outputs of
    resources.
    """

    classes: tuple[StorageClassPlan, ...]
    parameters: ClassParameters = field(default_factory=dict[str, Parameters])


class StorageClasses(pulumi.ComponentResource):
    """The StorageClasses of an environment.

    Outputs: `names`.
    """

    names: pulumi.Output[list[str]]

    def __init__(self, name: str, args: StorageClassesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("gpu-platform:index:StorageClasses", name, None, opts)
        child = child_options(self, opts)
        for plan in args.classes:
            KubernetesObject(
                plan.name,
                "storage.k8s.io/v1/StorageClass",
                metadata={
                    "name": plan.name,
                    "annotations": {_DEFAULT_ANNOTATION: "true"} if plan.default else None,
                },
                provisioner=plan.provisioner,
                parameters=_parameters(plan, args.parameters.get(plan.name, {})),
                reclaimPolicy=plan.reclaim_policy,
                volumeBindingMode=plan.binding,
                allowVolumeExpansion=plan.expandable,
                allowedTopologies=_topologies(plan),
                opts=child,
            )
        self.names = pulumi.Output.from_input([plan.name for plan in args.classes])
        self.register_outputs({"names": self.names})


def _parameters(plan: StorageClassPlan, outputs: Parameters) -> pulumi.Input[Mapping[str, pulumi.Input[str]]]:
    if isinstance(outputs, pulumi.Output):
        return outputs.apply(lambda known: {**plan.parameters, **known})
    return {**plan.parameters, **outputs}


def _topologies(plan: StorageClassPlan) -> list[Manifest] | None:
    if not plan.zones:
        return None
    zones = {"key": plan.topology_key, "values": list(plan.zones)}
    return [{"matchLabelExpressions": [zones]}]
