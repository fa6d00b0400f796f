"""Find which software decides whether an environment variable gives containers GPUs that they did not request.

NVIDIA's container toolkit gives all GPUs of a node to any container with NVIDIA_VISIBLE_DEVICES=all. CUDA images
set this variable themselves. It is then not in the pod's spec, which admission policies check. The program's
toolkit, EKS' images since v20260423 and Bottlerocket's images honour the variable only in privileged containers.
GKE's software has no such runtime. If someone else owns the cluster, the operator or the image, the toolkit's
setting is not known before a deployment. Sources: NVIDIA/nvidia-container-toolkit, config
`accept-nvidia-visible-devices-envvar-when-unprivileged` (default true); NVIDIA/gpu-operator v26.7.0, ClusterPolicy
`spec.toolkit` and `spec.cdi`; awslabs/amazon-eks-ami#2706; NVIDIA/cloud-native-docs, gpu-operator/cdi.rst (NRI
plugin); read 2026-11-26.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from gpu_platform.planning.context import CompleteContext
from gpu_platform.planning.decision import Decision
from gpu_platform.planning.pools.section import PoolPlan

UNREQUESTED: Final = "GPUs that no pod requested"
"""Name that `check` prints for decisions about GPUs that no pod requested."""
UNPRIVILEGED_DEVICES: Final = "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"
"""Environment variable of the operator's toolkit. It allows unprivileged containers to get GPUs by setting
NVIDIA_VISIBLE_DEVICES.
"""
_SETTING: Final = "accept-nvidia-visible-devices-envvar-when-unprivileged"


def unrequested_decisions(
    context: CompleteContext, pools: Iterable[PoolPlan], *, present: bool
) -> tuple[Decision, ...]:
    """Return a decision for each GPU pool whose toolkit setting is not known, because the program does not
    configure the toolkit.

    `present` means that the cluster's owner has installed the operator.
    """
    images = {pool.name for _, pool in context.pools if pool.image.ami is not None}
    return tuple(
        Decision(
            subject=f"pool {pool.name}",
            what=UNREQUESTED,
            chosen="not known",
            why=f"{owner} decides; with the toolkit's default, a container of any image that sets "
            f"NVIDIA_VISIBLE_DEVICES can use all GPUs of its node; {fix}",
        )
        for pool in pools
        if context.cloud.access != "sandbox" and (found := _owner(pool, images, present=present)) is not None
        for owner, fix in (found,)
    )


def _owner(pool: PoolPlan, images: set[str], *, present: bool) -> tuple[str, str] | None:
    """Return who configures the toolkit on a pool's nodes, and the setting that is required there.

    The result is None if the setting is known to be safe.
    """
    if pool.software.toolkit in ("none", "cloud"):
        return None
    if present:
        return (
            "the owner of the GPU Operator",
            f"in the ClusterPolicy, set {UNPRIVILEGED_DEVICES}=false in toolkit.env, "
            "and nriPluginEnabled: false in cdi",
        )
    if pool.software.toolkit == "operator":
        return None
    if pool.name in images:
        return (
            "the AMI",
            f"build the AMI on AL2023 v20260423 or newer, or set {_SETTING} = false in the toolkit's config.toml",
        )
    if pool.cloud is None:
        return "whoever set up the nodes", f"set {_SETTING} = false in the toolkit's config.toml"
    return None


def open_policies(policies: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the settings of ClusterPolicies that give containers GPUs they did not request, each with its fix."""
    for live in policies:
        name = str(_at(live, "metadata").get("name"))
        spec = _at(live, "spec")
        toolkit = _at(spec, "toolkit")
        listed: object = toolkit.get("env") or ()
        variables = {
            str(one.get("name")): str(one.get("value")) for one in cast("Iterable[Mapping[str, Any]]", listed)
        }
        if toolkit.get("enabled", True) and variables.get(UNPRIVILEGED_DEVICES, "").lower() != "false":
            yield (
                f"ClusterPolicy {name}: the toolkit gives all GPUs of a node to containers of any image that sets "
                "NVIDIA_VISIBLE_DEVICES; the owner of the ClusterPolicy must add "
                f'{{name: {UNPRIVILEGED_DEVICES}, value: "false"}} to spec.toolkit.env'
            )
        if _at(spec, "cdi").get("nriPluginEnabled") is True:
            yield (
                f"ClusterPolicy {name}: with spec.cdi.nriPluginEnabled, a pod can use any GPU by setting an "
                "annotation, which is refused only in team namespaces; the owner of the ClusterPolicy must set "
                "the field to false"
            )


def _at(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}
