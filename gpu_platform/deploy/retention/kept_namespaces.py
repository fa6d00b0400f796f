"""Keeps the namespace of a team that leaves its stack, with everything that team members created in it.

The platform's own objects in the namespace are deleted, except network policies, quotas, limits, admission
policies and claims of workloads. These policies and limits stay as long as the namespace exists, because running
pods must not become less isolated, and their controllers must neither scale up nor create pods that admission
refused. An additional quota admits no new GPU pod, because the team's GPUs are no longer counted as allocated. CPU
pods such as databases may restart within the old limits. Roles are deleted, so team members have no access. A
namespace without objects of team members is deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from gpu_platform.base import names
from gpu_platform.base.errors import Finding
from gpu_platform.base.progress import Progress
from gpu_platform.deploy.changes import Action, Change, Changes
from gpu_platform.deploy.embedded.applyset import PART_OF_LABEL, ApplySet
from gpu_platform.deploy.embedded.deletion import LAST_KINDS, delete_all
from gpu_platform.deploy.embedded.wait import DEFAULT_TIMEOUT_SECONDS, NotReady, Waiter
from gpu_platform.live.client import KubernetesClient
from gpu_platform.live.contents import KEPT_KINDS, Contents, held_by_finalizers, namespace_contents
from gpu_platform.live.objects import ObjectKey, annotation, items_at, mapping_at, object_key

_TRUE: Final = "true"
_FINALIZERS: Final = (
    "If finalizers remain, let their controller remove them, or remove them from metadata.finalizers"
)
_NAMED_AFTER_SECONDS: Final = 15.0  # the namespace controller needs a few seconds even if no finalizer blocks it
_GPU_KEYS: Final = names.quota_key("nvidia.com/")
_ENFORCE_LABEL: Final = "pod-security.kubernetes.io/enforce"
_POLICY_API: Final = "admissionregistration.k8s.io/v1"
_POLICY_KINDS: Final = ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy")
# Once the team has left, the Pod Security label of the namespace replaces these policies, without exceptions.
_IN_PLACE_OF_LABEL: Final = (names.POD_SECURITY_POLICY, names.EXEC_POLICY)
_KEPT_API_VERSIONS: Final = (
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("v1", "ResourceQuota"),
    ("v1", "LimitRange"),
)
_KEPT_APIS: Final = {
    **{kind: api for api, kind in _KEPT_API_VERSIONS},
    **dict.fromkeys(_POLICY_KINDS, _POLICY_API),
}
"""API versions of the kinds that are kept, by kind."""


@dataclass(frozen=True, slots=True)
class TeamNamespace:
    """Namespace of a team in the cluster. `retained_since` is empty while the team is deployed."""

    name: str
    team: str
    stack: str
    retained_since: str = ""
    retained_from: str = ""
    is_being_deleted: bool = False

    @property
    def is_retained(self) -> bool:
        """Whether the team has left its stack."""
        return bool(self.retained_since)


def team_namespaces(client: KubernetesClient) -> tuple[TeamNamespace, ...]:
    """Return the team namespaces of all stacks by name, including retained namespaces."""
    lives = client.objects("v1", "Namespace", label_selector=names.TEAM_LABEL)
    return tuple(team_namespace(live) for live in lives if "deletionTimestamp" not in live["metadata"])


def retained_and_deleted(client: KubernetesClient, namespace: str) -> TeamNamespace | None:
    """Return a retained namespace whose deletion has begun but not ended, or None."""
    live = client.get("v1", "Namespace", namespace)
    if live is None or "deletionTimestamp" not in live["metadata"] or not is_retained(live):
        return None
    return team_namespace(live)


def refuse_deleting(client: KubernetesClient, namespace: str) -> None:
    """Raise Finding if a namespace is being deleted. The message contains the reasons that Kubernetes reports."""
    live = client.get("v1", "Namespace", namespace)
    if live is None or "deletionTimestamp" not in live["metadata"]:
        return
    remaining = [
        str(one.get("message", "")).rstrip(". ")
        for one in items_at(live, "status", "conditions")
        if one.get("status") == "True"
    ]
    held = held_by_finalizers(client, namespace)
    named = [f"held by {', '.join(held)}"] if held else []
    why = "".join(f"; {one}" for one in (*remaining, *named))
    raise Finding(f"namespace {namespace} is being deleted{why}. Wait until it is gone. {_FINALIZERS}")


def team_namespace(live: Mapping[str, Any]) -> TeamNamespace:
    """Return the team and stack of a team's namespace, and its retention state, from metadata that members cannot
    change.
    """
    labels = mapping_at(live, "metadata", "labels")
    retained = is_retained(live)
    return TeamNamespace(
        str(live["metadata"]["name"]),
        str(labels.get(names.TEAM_LABEL) or ""),
        str(labels.get(names.STACK_LABEL) or ""),
        (annotation(live, names.RETAINED_SINCE_ANNOTATION) or "unknown") if retained else "",
        annotation(live, names.RETAINED_FROM_ANNOTATION) if retained else "",
        is_being_deleted="deletionTimestamp" in live["metadata"],
    )


def is_retained(live: Mapping[str, Any]) -> bool:
    """Return whether an object is marked as retained."""
    return names.RETAINED_LABEL in mapping_at(live, "metadata", "labels")


def is_of_platform(live: Mapping[str, Any]) -> bool:
    """Return whether an engine created the object. The result is reliable enough to display the object, but not to
    delete it.

    The embedded engine labels its objects, and Pulumi's provider is a field manager of its objects. The data in a
    claim belongs to the members, regardless of who created the claim.
    """
    if is_kept_claim(live):
        return False
    if PART_OF_LABEL in mapping_at(live, "metadata", "labels"):
        return True
    managers = live["metadata"].get("managedFields") or ()
    return any(str(entry.get("manager", "")).startswith("pulumi-kubernetes") for entry in managers)


def is_kept_claim(live: Mapping[str, Any]) -> bool:
    """Return whether an object is a claim that is kept when its entry is removed from the stack file."""
    labels = mapping_at(live, "metadata", "labels")
    return object_key(live).group_kind == "PersistentVolumeClaim" and names.KEPT_LABEL in labels


# -- teams that leave --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pruned:
    """Objects that a stack no longer declares.

    `deleted` are the objects to delete. `retained` are the namespaces to leave in the cluster, with their
    contents. `kept` are objects that also stay: the platform's policies and limits in these namespaces, and
    claims of workloads.
    """

    deleted: tuple[Mapping[str, Any], ...]
    retained: Mapping[str, Contents]
    kept: tuple[Mapping[str, Any], ...]


def decide(
    client: KubernetesClient, superfluous: Iterable[Mapping[str, Any]], *, before_deletion: bool = False
) -> Pruned:
    """Decide which objects to delete and which namespaces to retain when a stack no longer declares them.

    `before_deletion` means that the namespaces still contain objects of the platform, as in a preview.
    """
    lives = list(superfluous)
    leaving = {str(live["metadata"]["name"]) for live in lives if _is_team_namespace(live)}
    shown = is_of_platform if before_deletion else _nothing
    contents = {name: namespace_contents(client, name, is_platform=shown) for name in sorted(leaving)}
    retained = {name: found for name, found in contents.items() if not found.is_empty}
    stays = [live for live in lives if _stays(live, retained)]
    keys = {object_key(live) for live in stays}
    return Pruned(
        tuple(live for live in lives if object_key(live) not in keys),
        retained,
        tuple(live for live in stays if not _is_team_namespace(live)),
    )


def prune(
    client: KubernetesClient, waiter: Waiter, stack: str, superfluous: Iterable[Mapping[str, Any]]
) -> tuple[Change, ...]:
    """Delete objects that a stack no longer declares, and retain namespaces that contain objects of team members.

    Roles are deleted before the namespaces are read, so that members cannot add anything in between. Raises
    NotReady for an object that is not deleted in time.
    """
    lives = list(superfluous)
    leaving = {str(live["metadata"]["name"]) for live in lives if _is_team_namespace(live)}
    later = [live for live in lives if _is_last(live) or _stays(live, leaving)]
    keys = {object_key(live) for live in later}
    for live in lives:
        if _is_team_namespace(live):
            _enforce_by_label(client, live)  # the label must replace the policies before their deletion
    changes = delete_all(client, waiter, [live for live in lives if object_key(live) not in keys])
    pruned = decide(client, later)
    for live in filter(is_kept_claim, pruned.kept):
        client.merge(_labels(live, {names.RETAINED_LABEL: _TRUE, PART_OF_LABEL: None}))
    for live in later:
        if str(live["metadata"]["name"]) in pruned.retained and _is_team_namespace(live):
            retain(client, str(live["metadata"]["name"]), stack)
    return (*changes, *retain_changes(pruned), *delete_all(client, waiter, pruned.deleted))


def retain_changes(pruned: Pruned) -> tuple[Change, ...]:
    """Return the changes to retained namespaces, and to the objects that stay in them."""
    namespaces = (
        Change(Action.RETAIN, ObjectKey("", "Namespace", "", name), reason=f"holds {contents}")
        for name, contents in pruned.retained.items()
    )
    return (*namespaces, *(Change(Action.RETAIN, object_key(live)) for live in pruned.kept))


def retain(client: KubernetesClient, namespace: str, stack: str) -> None:
    """Mark a namespace, with its policies and limits, as retained. These objects leave the ApplySet.

    The namespace is marked last, so that the next run continues an interrupted run.
    """
    client.apply(_no_gpus(client, namespace))
    for live in _kept_in(client, namespace):
        client.merge(_labels(live, {names.RETAINED_LABEL: _TRUE, PART_OF_LABEL: None}))
    found = client.get("v1", "Namespace", namespace)
    if found is not None:
        _enforce_by_label(client, found)
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    live = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    marks = {names.RETAINED_SINCE_ANNOTATION: since, names.RETAINED_FROM_ANNOTATION: stack}
    client.merge(_labels(live, {names.RETAINED_LABEL: _TRUE, PART_OF_LABEL: None}, marks))


def _enforce_by_label(client: KubernetesClient, live: Mapping[str, Any]) -> None:
    """Let the namespace's label enforce the Pod Security level that policies enforced for the team.

    The policies are deleted with the team. Without the label, controllers in the namespace would create pods that
    the policies refused.
    """
    level = mapping_at(live, "metadata", "labels").get(names.POD_SECURITY_LABEL)
    if level is not None:
        client.merge(_labels(live, {_ENFORCE_LABEL: str(level), names.POD_SECURITY_LABEL: None}))


def _no_gpus(client: KubernetesClient, namespace: str) -> dict[str, Any]:
    """Return a quota that admits no new pod with GPUs.

    All quotas of a namespace apply, so the team's own quota can stay unchanged.
    """
    quotas = client.objects("v1", "ResourceQuota", namespace=namespace)
    limited = {key for quota in quotas for key in mapping_at(quota, "spec", "hard")}
    hard = {key: "0" for key in limited if key.startswith(_GPU_KEYS) or key.endswith(names.DEVICE_QUOTA_SUFFIX)}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": names.RETAINED_QUOTA,
            "namespace": namespace,
            "labels": {names.RETAINED_LABEL: _TRUE},
        },
        "spec": {"hard": {names.quota_key(names.GPU_RESOURCE): "0", **hard}},
    }


# -- teams that return -------------------------------------------------------------------------------------


def may_be_adopted(client: KubernetesClient, live: Mapping[str, Any], stack: str) -> bool | str:
    """Return True if a stack may take over a retained object, or the reason if it may not. Return False for an
    object that is not retained.

    Only objects of the kinds that the platform retains are considered, because members can label objects of all
    other kinds.
    """
    key = object_key(live)
    team = _team_of_policy(live)
    kept = key.group_kind in KEPT_KINDS or is_kept_claim(live) or bool(team)
    if not is_retained(live) or (key.group_kind != "Namespace" and not kept):
        return False
    if team:
        # Policies are cluster-scoped, so this code checks whether the stack may adopt the team's namespace.
        found = client.get("v1", "Namespace", team)
        if found is None:
            return True
        live = found
    elif key.group_kind != "Namespace":
        # Members cannot write the kinds that are kept, and the object's Namespace was adopted before.
        # If a member's claim has these labels, it becomes the claim of the stack file's entry with the same name.
        return True
    try:
        refuse_other_stack(team_namespace(live), stack)
    except Finding as reason:
        return str(reason)
    return True


def refuse_other_stack(namespace: TeamNamespace, stack: str) -> None:
    """Raise Finding if the namespace belongs to a deployed or retained team of another stack."""
    if namespace.is_retained and namespace.retained_from != stack:
        raise Finding(
            f"namespace {namespace.name} is retained from stack {namespace.retained_from!r} since "
            f"{namespace.retained_since}, with the objects that its members created; stack {stack!r} does not "
            "take it over. Rename the team, remove the namespace for good with `gpu-platform team remove STACK "
            f"{namespace.name}`, or give it to this stack with `kubectl annotate namespace {namespace.name} "
            f"--overwrite {names.RETAINED_FROM_ANNOTATION}={stack}`"
        )
    if not namespace.is_retained and namespace.stack != stack:
        raise Finding(
            f"namespace {namespace.name} already exists and belongs to stack {namespace.stack!r}; stack "
            f"{stack!r} does not take it over. A stack has the name of its file, so if the stack file is a copy, "
            f"name the file Pulumi.{namespace.stack}.yaml. Otherwise rename the team, or remove it from the "
            "other stack first"
        )


def release(client: KubernetesClient, live: Mapping[str, Any]) -> None:
    """Remove the label and annotations that mark an object as retained, because its stack declares the object
    again.

    For a namespace, also delete the quota that blocks GPU pods.
    """
    namespace = str(live["metadata"]["name"])
    marks: dict[str, str | None] = {}
    if object_key(live).group_kind == "Namespace":
        quota = client.get("v1", "ResourceQuota", names.RETAINED_QUOTA, namespace)
        if quota is not None:
            client.delete(quota)
        marks = {names.RETAINED_SINCE_ANNOTATION: None, names.RETAINED_FROM_ANNOTATION: None}
    client.merge(_labels(live, {names.RETAINED_LABEL: None}, marks))


def settle(
    client: KubernetesClient,
    stack: str,
    declared: Collection[str],
    progress: Progress,
    *,
    by_policy: Collection[str] = (),
) -> tuple[TeamNamespace, ...]:
    """Mark, release or delete a stack's namespaces after the Pulumi CLI has run, because the CLI cannot do this.

    The program makes Pulumi keep the namespace of a team that leaves, and its admission policies. `declared` are
    the namespaces in the stack file. `by_policy` are the namespaces in which policies enforce the Pod Security
    level. Returns the namespaces that are retained now but were not before.
    """
    left: list[TeamNamespace] = []
    for live in client.objects(
        "v1", "Namespace", label_selector=f"{names.TEAM_LABEL},{names.STACK_LABEL}={stack}"
    ):
        found = team_namespace(live)
        if found.name in declared:
            if found.is_retained:
                for kept in list(_kept_in(client, found.name)):
                    # `release` deletes this quota when it removes the namespace's label.
                    if kept["metadata"]["name"] != names.RETAINED_QUOTA:
                        release(client, kept)
                release(client, live)
        elif not found.is_retained and "deletionTimestamp" not in live["metadata"]:
            if namespace_contents(client, found.name).is_empty:
                delete_namespaces(client, stack, [found.name], progress)
            else:
                retain(client, found.name, stack)
                left.append(found)
        if found.name not in by_policy:
            _delete_pod_security_policies(client, found.name)
    return tuple(left)


def delete_released(
    client: KubernetesClient, changes: Changes, declared: Collection[str], *, dry_run: bool = False
) -> Changes:
    """Delete policies and limits that Pulumi left behind in namespaces that the stack still declares. Return the
    changes with these deletions. With `dry_run`, nothing is deleted.

    The program makes Pulumi keep these objects for the namespaces of teams that leave. If a team stays, but its
    entry no longer needs the object, Pulumi keeps it as well. For example, the network policy of a removed
    `identity` would still admit the metadata server.

    An object that another resource of the stack declares now is not deleted, for example after a component was
    renamed.
    """
    declared_keys = {one.key for one in changes.changes if one.action not in (Action.RETAIN, Action.DELETE)}

    def resolved(change: Change) -> Change:
        api_version = _KEPT_APIS.get(change.key.kind)
        if change.action is not Action.RETAIN or api_version is None or change.key in declared_keys:
            return change
        live = client.get(api_version, change.key.kind, change.key.name, change.key.namespace)
        if live is None or (change.key.namespace or _team_of_policy(live)) not in declared:
            return change
        if not dry_run:
            client.delete(live)
        return replace(change, action=Action.DELETE)

    return Changes(changes.stack, tuple(resolved(one) for one in changes.changes))


def _delete_pod_security_policies(client: KubernetesClient, namespace: str) -> None:
    """Delete the policies that enforced the Pod Security level of a namespace. The namespace's label enforces this
    level now.
    """
    for kind in _POLICY_KINDS:
        for prefix in _IN_PLACE_OF_LABEL:
            live = client.get(_POLICY_API, kind, f"{prefix}-{namespace}")
            if live is not None and mapping_at(live, "metadata", "labels").get(names.TEAM_LABEL) == namespace:
                client.delete(live)


def _kept_in(client: KubernetesClient, namespace: str) -> Iterator[dict[str, Any]]:
    for api_version, kind in _KEPT_API_VERSIONS:
        yield from client.objects(api_version, kind, namespace=namespace)
    yield from _policies(client, namespace)


def _policies(client: KubernetesClient, namespace: str) -> Iterator[dict[str, Any]]:
    """Yield the admission policies that stay while a team's namespace exists, with their bindings."""
    for kind in _POLICY_KINDS:
        for live in client.objects(_POLICY_API, kind, label_selector=f"{names.TEAM_LABEL}={namespace}"):
            if _team_of_policy(live):
                yield live


def _team_of_policy(live: Mapping[str, Any]) -> str:
    """Return the namespace that an admission policy or binding belongs to, or "" for other objects."""
    key = object_key(live)
    if key.group != _POLICY_API.partition("/")[0] or key.kind not in _POLICY_KINDS:
        return ""
    team = str(mapping_at(live, "metadata", "labels").get(names.TEAM_LABEL) or "")
    return "" if key.name in {f"{prefix}-{team}" for prefix in _IN_PLACE_OF_LABEL} else team


def _labels(
    live: Mapping[str, Any], labels: Mapping[str, str | None], annotations: Mapping[str, str | None] | None = None
) -> dict[str, Any]:
    metadata = {key: live["metadata"][key] for key in ("name", "namespace") if key in live["metadata"]}
    metadata |= {"labels": dict(labels)} | ({"annotations": dict(annotations)} if annotations else {})
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata}


def _is_team_namespace(live: Mapping[str, Any]) -> bool:
    return object_key(live).group_kind == "Namespace" and names.TEAM_LABEL in mapping_at(
        live, "metadata", "labels"
    )


def _is_last(live: Mapping[str, Any]) -> bool:
    return object_key(live).group_kind in LAST_KINDS


def _stays(live: Mapping[str, Any], namespaces: Collection[str]) -> bool:
    """Return whether an object is one of `namespaces`, a policy or limit in one of them, or a kept claim."""
    key = object_key(live)
    if is_kept_claim(live) or _team_of_policy(live) in namespaces:
        return True
    if _is_team_namespace(live):
        return key.name in namespaces
    return key.group_kind in KEPT_KINDS and key.namespace in namespaces


def _nothing(_live: Mapping[str, Any]) -> bool:
    return False


# -- final deletion ----------------------------------------------------------------------------------------


def delete_namespaces(client: KubernetesClient, stack: str, namespaces: Iterable[str], progress: Progress) -> None:
    """Delete namespaces with everything in them, and wait. Raises NotReady if a namespace is not deleted
    in time.

    Nothing can be created in a namespace that is being deleted, so its admission policies are deleted immediately.
    """
    for name in namespaces:
        live = client.get("v1", "Namespace", name)
        if live is not None:
            with progress.step(f"deleting namespace {name} with everything in it"):
                if "deletionTimestamp" not in live["metadata"]:
                    client.delete(live)
                for policy in _policies(client, name):
                    client.delete(policy)
                _wait_for_deletion(client, stack, live, progress)


def _wait_for_deletion(client: KubernetesClient, stack: str, live: Mapping[str, Any], progress: Progress) -> None:
    """Wait until a namespace is deleted. If finalizers keep objects in it, report these objects early."""
    waiter, name = Waiter(client, ApplySet(client, stack), progress), str(live["metadata"]["name"])
    try:
        waiter.until_deleted([live], _NAMED_AFTER_SECONDS)
    except NotReady:
        for held in held_by_finalizers(client, name):
            progress.line(f"namespace {name} is kept by {held}. {_FINALIZERS}")
        waiter.until_deleted([live], DEFAULT_TIMEOUT_SECONDS - _NAMED_AFTER_SECONDS)
