"""Admission rules for requests of members on any object: the platform's objects, finalizers, accounts, tokens.

RBAC cannot except a name from `update`, nor a field: members may write ConfigMaps, and so the platform's guide.

Sources: Kubernetes docs, Finalizers, "Managing service accounts" (tokens in Secrets do not expire), "Use Cascading
Deletion in a Cluster"; k8s.io/kubernetes v1.36, pkg/registry/batch/job/strategy.go (the default of Jobs); EKS user
guide, IAM roles for service accounts; GKE docs, Workload Identity Federation. Read 2026-11-25.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gpu_platform.catalog.pod_limits import BARE_POD
from gpu_platform.planning.teams.admission_rule import PodRule
from gpu_platform.planning.teams.cel import texts
from gpu_platform.planning.teams.object_limits import (
    LARGE,
    LARGE_KIB,
    OTHERS_KIB,
    SEVERAL_TEMPLATES,
    SEVERAL_TEMPLATES_KIB,
)
from gpu_platform.planning.teams.pod_templates import QUEUED_KINDS, TEMPLATE_KINDS
from gpu_platform.planning.teams.requesters import BY_AN_ADMINISTRATOR, by_a_controller

_IDENTITY: Final = ("azure.workload.identity/", "eks.amazonaws.com/", "iam.gke.io/")
# The API server adds the first to what is being deleted, and the second to claims of volumes.
_FINALIZERS: Final = ("foregroundDeletion", "kubernetes.io/pvc-protection")
# Roles of teams have no DaemonSets. Drains know their pods, and static pods, by the kind of the owner.
_KEPT_ON_NODES: Final = ("DaemonSet", "Node")
_OF_KUEUE: Final = "kueue.x-k8s.io/managed"
_OF: Final = "request.resource.resource"
_OBJECT: Final = "(request.operation == 'DELETE' ? oldObject : object)"
_OLD: Final = "(request.operation == 'CREATE' ? dyn({}) : dyn(oldObject.metadata))"
_STAYS: Final = "request.operation == 'DELETE'"


def by_a_member(accounts: tuple[str, ...]) -> str:
    """Return that a member sends the request, as CEL. `accounts`: service accounts of other namespaces."""
    return f"!{by_a_controller(accounts)} && !{BY_AN_ADMINISTRATOR}"


def guarded_rules(objects: Mapping[str, Sequence[str]], *, queued: bool, bare: bool = True) -> tuple[PodRule, ...]:
    """Return the rules of all objects of a namespace, for requests of members.

    `objects`: names of the platform's objects by resource, such as `configmaps`; `queued`: Kueue queues pods;
    `bare`: whether pods may have no controller.
    """
    named = " || ".join(
        f"({_OF} == '{resource}' && {_OBJECT}.metadata.?name.orValue('') in {texts(found)})"
        for resource, found in sorted(objects.items())
        if found
    )
    metadata = "object.metadata"
    pods = f" || ({_OF} == 'pods' && one == '{_OF_KUEUE}')" if queued else ""
    identity = " || ".join(f"key.startsWith('{prefix}')" for prefix in _IDENTITY)
    return (
        PodRule(
            id="platform-object",
            expression=f"!({named or 'false'})",
            message="this object is the platform's: members read it; change the stack file, or use another name",
        ),
        PodRule(
            id="object-finalizer",
            expression=f"{_STAYS} || {metadata}.?finalizers.orValue([]).all(one, "
            f"one in {texts(_FINALIZERS)}{pods} || one in {_OLD}.?finalizers.orValue([]))",
            message="controllers set finalizers, members do not: nobody would remove them, and the namespace "
            "could not be deleted; remove metadata.finalizers",
        ),
        PodRule(
            id="object-finalizer",
            expression=f"{_STAYS} || (request.operation == 'UPDATE' && object.?spec == oldObject.?spec) || "
            f"({_claim_templates()}).all(claim, claim.?metadata.?finalizers.orValue([]).size() == 0)",
            message="claims get the finalizers of their template, which nobody would remove: remove "
            "metadata.finalizers of the volume claim templates",
        ),
        PodRule(
            id="pod-owner",
            expression=f"{_STAYS} || {_OF} != 'pods' || {metadata}.?ownerReferences.orValue([]).all(one, "
            f"!(one.kind in {texts(_KEPT_ON_NODES)}) || one in {_OLD}.?ownerReferences.orValue([]))",
            message=f"a drain leaves pods of a {' or a '.join(_KEPT_ON_NODES)} on their node, and members have no "
            "such pods: remove it from metadata.ownerReferences",
        ),
        PodRule(
            id="service-account-identity",
            expression=f"{_STAYS} || {_OF} != 'serviceaccounts' || {metadata}.?annotations.orValue({{}}).all(key, "
            f"!({identity}) || {_OLD}.?annotations[?key].orValue('') == {metadata}.annotations[key])",
            message="the stack file gives service accounts an identity in the cloud, in teams[].identity: remove "
            "the annotation, and use the service account of the team",
        ),
        PodRule(
            id="service-account-token",
            expression=f"{_OF} != 'secrets' || request.operation != 'CREATE' || "
            "dyn(object).?type.orValue('') != 'kubernetes.io/service-account-token'",
            message="tokens in Secrets never expire: let a pod mount the token of its service account",
        ),
        _size_rule(),
        *((_orphan_rule(),) if queued else ()),
        *(() if bare else _rules_of_owners()),
    )


def _size_rule() -> PodRule:
    """Return the rule of how large an object may be: quotas count objects, and etcd has no room for large ones.

    CEL knows no size of an object, only of its text. What has grown before the rule can shrink.
    """
    size = "size(bytes('%s'.format([dyn({})])))".format
    kib = (
        f"({_OF} in {texts(LARGE)} ? {LARGE_KIB} : "
        f"{_OF} in {texts(SEVERAL_TEMPLATES)} ? {SEVERAL_TEMPLATES_KIB} : {OTHERS_KIB})"
    )
    return PodRule(
        id="object-size",
        expression=f"{_STAYS} || {size('object')} <= {kib} * 1024 || "
        f"(request.operation == 'UPDATE' && {size('object')} <= {size('oldObject')})",
        message=f"objects may have, annotations and managed fields included, {LARGE_KIB} KiB (ConfigMap, Secret), "
        f"{SEVERAL_TEMPLATES_KIB} KiB (kinds with several pod templates) or {OTHERS_KIB} KiB: mount files from a "
        "volume, or divide it; kubectl apply --server-side writes no second copy into an annotation",
    )


def _claim_templates() -> str:
    """Return the templates by which controllers create volume claims for the object, as CEL.

    Sources: Kubernetes 1.36 API; CustomResourceDefinitions of LeaderWorkerSet v1, JobSet v1alpha2 and Trainer
    v1alpha1; read 2026-11-28.
    """
    of_job_set = "volumeClaimPolicies.orValue([]).map(one, one.?templates.orValue([])).flatten()"
    found = {
        "statefulsets": "object.?spec.?volumeClaimTemplates.orValue([])",
        "leaderworkersets": "object.?spec.?leaderWorkerTemplate.?volumeClaimTemplates.orValue([])",
        "jobsets": f"object.?spec.?{of_job_set}",
        "trainingruntimes": f"object.?spec.?template.?spec.?{of_job_set}",
    }
    return "".join(f"{_OF} == '{resource}' ? {claims} : " for resource, claims in found.items()) + "[]"


def _rules_of_owners() -> tuple[PodRule, ...]:
    """Return the rules by which a pod keeps the controller that made it."""
    message = "network policies hold for pods of a controller alone: "
    return (
        PodRule(
            id=BARE_POD,
            expression=f"{_OF} != 'pods' || request.operation != 'UPDATE' || {_OLD}.?ownerReferences.orValue([])"
            ".all(one, one in object.metadata.?ownerReferences.orValue([]))",
            message=f"{message}leave metadata.ownerReferences as it is, or delete the pod",
        ),
        PodRule(
            id=BARE_POD,
            expression=_leaves_no_pods(["trainjobs", *(kind.resource for kind in TEMPLATE_KINDS)]),
            message=f"{message}delete it with propagationPolicy Background or Foreground, as kubectl does unless "
            "it is told to orphan",
        ),
    )


def _orphan_rule() -> PodRule:
    """Return the rule of deletions that leave pods behind: Kueue takes their quota for free."""
    return PodRule(
        id="queue-orphans",
        expression=_leaves_no_pods(["trainjobs", *(kind.resource for kind in QUEUED_KINDS)]),
        message="its pods would run on, and no queue would count them: delete it with propagationPolicy "
        "Background or Foreground, as kubectl does unless it is told to orphan",
    )


def _leaves_no_pods(resources: Sequence[str]) -> str:
    """Return, as CEL, that a request deletes none of these resources without its pods."""
    policy = "request.options.?propagationPolicy.orValue('')"
    orphans = "request.options.?orphanDependents"
    # A request that names no policy orphans the pods of a Job, and of nothing else.
    return (
        f"request.operation != 'DELETE' || !({_OF} in {texts(resources)}) || "
        f"{policy} in ['Background', 'Foreground'] || ({policy} == '' && "
        f"!{orphans}.orValue({_OF} == 'jobs'))"
    )
