"""A team stack that registers one ConfigMap with an output of the environment stack."""

import pulumi
from pulumi_kubernetes.core.v1 import ConfigMap

environment = pulumi.StackReference("organization/gpu-platform/local")
ConfigMap(
    "share",
    metadata={"name": "share", "namespace": "default"},
    data={"gpus": environment.require_output("gpus").apply(lambda gpus: str(int(gpus)))},
)
