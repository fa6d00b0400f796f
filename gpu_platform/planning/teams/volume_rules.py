"""Admission rules of a team's pods on volumes, on keeping a node from removal, and on NICs.

What is limited: catalog/pod_limits.py. The ids are those of the policy pack where it has the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog.pod_limits import (
    BARE_POD,
    DO_NOT_DISRUPT,
    LONGEST_PIN_SECONDS,
    REFUSED_VOLUMES,
    SAFE_TO_EVICT,
)
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.admission_rule import TEMPLATE, AdmissionSubject, PodRule, units_of
from gpu_platform.planning.teams.cel import any_of, text, texts

_DAY: Final = 86_400


def volume_rule(of: AdmissionSubject, drivers: Sequence[str]) -> PodRule:
    """Return the rule of the kinds of volumes. `drivers`: CSI drivers of inline volumes."""
    named = " && ".join(f"!has(volume.{kind})" for kind in REFUSED_VOLUMES)
    return PodRule(
        id="volume-source",
        expression=f"!has({of.spec}.volumes) || {of.spec}.volumes.all(volume, {named} && "
        f"(!has(volume.csi) || volume.csi.driver in {texts(drivers)}))",
        message="volumes may not name servers or disks, nor inline CSI drivers but "
        f"{', '.join(drivers)}: use a PersistentVolumeClaim; an administrator adds drivers in "
        "teams[].inline_csi_drivers of the stack file",
    )


def bare_pod_rule(by_a_controller: str) -> PodRule:
    """Return the rule that controllers alone create pods. `by_a_controller`: who sends the request, as CEL.

    AWS promises network policies of the VPC CNI for pods with `metadata.ownerReferences` alone. Members write that
    field as well, with any object of theirs that exists: it counts where a controller has set it. Neither the
    agent nor the controller of the policies reads it, they group pods by the beginning of their names
    (aws/aws-network-policy-agent c8619c05, pkg/utils/utils.go; aws/amazon-network-policy-controller-k8s ecc7e6a7);
    so the promise, and not the code, decides here. Sources: EKS user guide, "Limit Pod traffic with Kubernetes
    network policies", considerations; aws/aws-network-policy-agent#327; read 2026-11-26.
    """
    return PodRule(
        id=BARE_POD,
        expression=f"request.operation != 'CREATE' || ({by_a_controller} && "
        "object.metadata.?ownerReferences.orValue([]).exists(one, one.?controller.orValue(false)))",
        message="network policies hold for pods of a controller alone: write a Job (the guide has one), a "
        "Deployment or a StatefulSet; look into a pod that runs with kubectl debug -it POD --image=IMAGE "
        "--profile=restricted; an administrator admits bare pods by teams[].allow_bare_pods of the stack file",
    )


def node_keeping_rules(of: AdmissionSubject, by_a_controller: str, grace_seconds: int) -> tuple[PodRule, ...]:
    """Return the rules that bound for how long a pod may keep its node from being removed.

    `by_a_controller`: as CEL. It makes pods of what was judged itself, which may have a deadline that they lack.
    `grace_seconds`: the longest time between SIGTERM and SIGKILL.
    """
    annotations = f"{of.pod}.?metadata.?annotations.orValue({{}})"
    kept = (
        f"((key == {text(SAFE_TO_EVICT)} && {annotations}[key] == 'false') || "
        f"(key in {texts(DO_NOT_DISRUPT)} && {annotations}[key] != 'false'))"
    )
    if of == TEMPLATE:
        older = "false"
        # A RayJob, which has been judged, has the deadline of its RayCluster.
        ends = f"{_bounded('each.deadline')} || (object.kind == 'RayCluster' && {_owned(by_a_controller)})"
    else:
        older = (
            "request.operation != 'CREATE' && "
            f"oldObject.metadata.?annotations[?key].orValue('') == {annotations}[key]"
        )
        ends = _owned(by_a_controller)
    own = _bounded(f"{of.spec}.?activeDeadlineSeconds.orValue(0)")
    days = LONGEST_PIN_SECONDS // _DAY
    return (
        PodRule(
            id="node-keeping",
            expression=f"{annotations}.all(key, !{kept} || ({older})) || {own} || {ends}",
            message=f"{SAFE_TO_EVICT} and {', '.join(DO_NOT_DISRUPT)} are for work with a deadline, which keeps "
            f"its node no longer: write activeDeadlineSeconds, at most {LONGEST_PIN_SECONDS} ({days} days), or "
            "remove the annotation",
        ),
        PodRule(
            id="node-keeping",
            expression=f"{of.spec}.?terminationGracePeriodSeconds.orValue(30) <= {grace_seconds}",
            message=f"terminationGracePeriodSeconds may be at most {grace_seconds}: nodes wait for it before they "
            "are repaired or removed; write a smaller one",
        ),
    )


def nic_share_rules(of: AdmissionSubject, pools: Sequence[PoolPlan]) -> tuple[PodRule, ...]:
    """Return the rule of the EFA interfaces of a pod, where the pools have some: those that belong to its GPUs.

    A pod that claims devices is not judged: how many GPUs a claim has is not in the pod.
    """
    if not all(pool.cloud for pool in pools):
        return ()  # what NICs the nodes of an existing cluster have is not known
    shares = sorted(
        {
            (count, pool.gpus_per_node)
            for pool in pools
            for name, count in pool.cloud_nodes.nic_resources.items()
            if name == names.EFA_RESOURCE and count
        }
    )
    if not shares:
        return ()
    # Sidecars run beside the containers: what init containers have counts as well, but no GPU of theirs.
    interfaces = " + ".join(_units(of, kind, names.EFA_RESOURCE) for kind in ("containers", "initContainers"))
    interfaces, gpus = f"({interfaces})", _units(of, "containers", names.GPU_RESOURCE)
    fits = any_of(
        f"{interfaces} * {of_node} <= {gpus} * {count}" if of_node else f"{interfaces} <= {count}"
        for count, of_node in shares
    )
    told = ", ".join(f"{count} of a node with {of_node} GPUs" for count, of_node in shares)
    return (
        PodRule(
            id="efa-share",
            expression=f"{of.spec}.?resourceClaims.orValue([]).size() > 0 || {interfaces} == 0 || {fits}",
            message=f"{names.EFA_RESOURCE} may be the part of a node's interfaces that belongs to the pod's GPUs "
            f"({told}): lower it, or request more GPUs",
        ),
    )


def _bounded(seconds: str) -> str:
    return f"({seconds} > 0 && {seconds} <= {LONGEST_PIN_SECONDS})"


def _owned(by_a_controller: str) -> str:
    return f"(object.metadata.?ownerReferences.orValue([]).size() > 0 && {by_a_controller})"


def _units(of: AdmissionSubject, kind: str, name: str) -> str:
    """Return how many units of a resource the containers of a kind have together."""
    return f"{of.spec}.?{kind}.orValue([]).map(one, {units_of(name)}).sum()"
