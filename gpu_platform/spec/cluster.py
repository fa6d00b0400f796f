"""`cluster` and `operator`: where the platform runs and which GPU Operator runs on it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpu_platform.spec._types import DnsLabel, KubeconfigPath, OperatorVersion, SpecModel

KubernetesVersion = Annotated[str, Field(pattern=r"^1\.\d{2}$", examples=["1.36"])]


class SandboxCluster(SpecModel):
    """A real control plane on this machine with simulated GPU nodes."""

    provider: Literal["sandbox"]
    name: DnsLabel = "local"
    """The sandbox to use; `gpu-platform up` starts it when it does not run."""


class ExistingCluster(SpecModel):
    """A cluster that is already there, reached by a kubeconfig."""

    provider: Literal["existing"]
    name: DnsLabel = "existing"
    kubeconfig: KubeconfigPath | None = None
    """Path of the kubeconfig; unset: `$KUBECONFIG`, else `~/.kube/config`."""
    context: str | None = None
    """Context of the kubeconfig; unset: its current one."""
    kubernetes: KubernetesVersion | None = None
    """Minor version, such as 1.36; when set, it is held against the operator's matrix at preview."""


class EksCluster(SpecModel):
    """An Amazon EKS cluster."""

    provider: Literal["eks"]
    name: DnsLabel
    region: str
    kubernetes: KubernetesVersion | None = None


class GkeCluster(SpecModel):
    """A Google Kubernetes Engine cluster."""

    provider: Literal["gke"]
    name: DnsLabel
    project: str
    location: str
    kubernetes: KubernetesVersion | None = None


Cluster = Annotated[SandboxCluster | ExistingCluster | EksCluster | GkeCluster, Field(discriminator="provider")]


class Driver(SpecModel):
    """Who installs the NVIDIA driver, and which."""

    owner: Literal["operator", "host"] = "operator"
    """`operator`: a driver container on every GPU node; `host`: the node image brings it."""
    version: str | None = Field(default=None, pattern=r"^\d{3}(\.\d+)*$", examples=["580.173.02"])
    """Driver version; unset: the default of the operator release."""


class Operator(SpecModel):
    """The NVIDIA GPU Operator."""

    release: OperatorVersion = "v26.7.0"
    driver: Driver = Driver()
    toolkit: Literal["operator", "host"] = "operator"
    """Who installs the NVIDIA container toolkit; `host`: the node image brings it."""
