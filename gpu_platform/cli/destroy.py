"""Lists what `gpu-platform destroy` deletes and retains, asks for consent, and destroys the stack."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape

from gpu_platform.base.console import console
from gpu_platform.base.errors import BadInput, Problem, UnknownOutcome
from gpu_platform.base.progress import Progress
from gpu_platform.base.quantity import counted
from gpu_platform.cli.consent import ask_for
from gpu_platform.cli.engines import Deployment
from gpu_platform.cli.mig_rollout import release_nodes
from gpu_platform.cli.team import show_contents
from gpu_platform.deploy.retention import kept_namespaces
from gpu_platform.deploy.retention.cloud_objects import delete_load_balancers, wait_for_volumes
from gpu_platform.deploy.retention.team_stacks import TeamStack, deployed_team_stacks
from gpu_platform.live.cloud_objects import CloudObjects, read_cloud_objects
from gpu_platform.live.cluster_access import ClusterAccess
from gpu_platform.live.contents import Contents, namespace_contents
from gpu_platform.live.objects import object_key
from gpu_platform.planning import Plan
from gpu_platform.planning.changes import PoolChange, retained_resources
from gpu_platform.planning.changes.pool_facts import CLUSTER_PROTECT, EXISTING, PROTECT_FIELD, pool_facts
from gpu_platform.planning.clouds.leftovers import LEFTOVERS
from gpu_platform.stack.loaded import LoadedStack

_UNTOUCHED = "nothing was changed"
_ON = "true, or unset on a cluster with production: true,"


@dataclass(frozen=True, slots=True)
class Destruction:
    """A stack that is about to be destroyed.

    `outputs` are the outputs of its last deployment, or empty if there is none. `is_deployed` is false if nothing
    of the stack exists except retained namespaces.
    """

    loaded: LoadedStack
    deployment: Deployment
    outputs: Mapping[str, Any]
    progress: Progress
    cluster: ClusterAccess
    to_json: bool = False
    is_deployed: bool = True

    @property
    def plan(self) -> Plan:
        """Plan of the stack."""
        return self.loaded.plan

    @property
    def stack(self) -> str:
        """Name of the stack in commands."""
        return self.loaded.argument

    @property
    def out(self) -> Console:
        """Console for the lists.

        With JSON it is standard error, so that standard output contains only the document.
        """
        return console(stderr=self.to_json)

    @property
    def deletes_cluster(self) -> bool:
        """Whether the stack created the cluster, in which case `destroy` deletes it."""
        cloud = self.plan.cluster.cloud
        return self.plan.kind == "environment" and cloud is not None and cloud.create is not None


@dataclass(frozen=True, slots=True)
class _ClusterContents:
    """Contents of a cluster.

    `own` contains the team namespaces of this stack, and `others` the retained namespaces of other stacks. `cloud`
    contains the load balancers and volumes, or is None if the cluster is not deleted or could not be read.
    """

    own: Sequence[tuple[kept_namespaces.TeamNamespace, Contents]] = ()
    others: Sequence[tuple[kept_namespaces.TeamNamespace, Contents]] = ()
    team_stacks: Sequence[TeamStack] = ()
    cloud: CloudObjects | None = None
    unread: str = ""

    @property
    def has_data(self) -> bool:
        """Whether team members created objects in the namespaces of the stack."""
        return any(not contents.is_empty for _, contents in self.own)


def destroy_deployed(run: Destruction, yes: bool, delete_data: bool) -> None:
    """Show what `destroy` deletes and keeps, ask for consent unless `yes`, destroy the stack and print what is
    left.

    Raises BadInput, before anything is changed, if consent is missing or if team stacks are deployed. Without
    `delete_data`, also raises BadInput if the command would delete a cluster that contains objects of team members
    or objects with load balancers. Raises NotReady, before the cluster is deleted, if its load balancers and
    volumes are not deleted in time.
    """
    found = _read(run)
    _refuse_team_stacks(run, found.team_stacks)
    _show(run, found, delete_data=delete_data)
    if not run.is_deployed and not (delete_data and found.own):
        _report(run, found, None, delete_data=delete_data)
        return
    if not delete_data:
        _refuse_cluster_in_use(run, found)
    if not yes:
        options = "--yes --delete-data" if delete_data else "--yes"
        text = f"{run.plan.stack} and its data" if delete_data else run.plan.stack
        ask_for(text, source=f"gpu-platform destroy {run.stack}", option=options)
    with run.deployment.lock("destroy"):
        if delete_data:
            _delete_data(run, found)
        changes = run.deployment.destroy()
        release_nodes(run.plan, run.cluster)
    _report(run, found, changes, delete_data=delete_data)


def _delete_data(run: Destruction, found: _ClusterContents) -> None:
    """Delete the team namespaces. If the cluster will be deleted, also delete its load balancers, and wait until
    the volumes in these namespaces are deleted.
    """
    names = _deleted_namespaces(run, found, delete_data=True)
    if names:
        kept_namespaces.delete_namespaces(run.cluster.client(), run.plan.stack, names, run.progress)
    if found.cloud is not None:
        client, stack = run.cluster.client(), run.plan.stack
        delete_load_balancers(client, stack, run.progress)
        volumes = [volume for volume in found.cloud.volumes if volume.is_deleted_with(names)]
        wait_for_volumes(client, stack, volumes, run.progress)


def _deleted_namespaces(run: Destruction, found: _ClusterContents, *, delete_data: bool) -> Sequence[str]:
    """Return the team namespaces that are deleted before the other resources of the stack."""
    deleted = (*found.own, *(found.others if run.deletes_cluster else ()))
    return [namespace.name for namespace, _ in deleted] if delete_data else []


def _report(
    run: Destruction, found: _ClusterContents, changes: Mapping[str, Any] | None, *, delete_data: bool
) -> None:
    """Print which resources and namespaces are left. `changes` is None if nothing was destroyed."""
    retained = _read_retained(run, found)
    if run.to_json:
        print(json.dumps(_document(run, found, changes, retained, delete_data=delete_data), indent=2))
    else:
        kept = _kept_resources(run, found, delete_data=delete_data) if changes is not None else ()
        _show_left(run, kept, retained, destroyed=changes is not None)


def refuse_protected(stack: str, names: Sequence[str], source: str) -> None:
    """Raise BadInput if a resource is protected. `names` is the value of the stack output `protected`."""
    by_field = [name.removesuffix(PROTECT_FIELD) for name in names if name.endswith(PROTECT_FIELD)]
    by_cluster = [name for name in names if not name.endswith(PROTECT_FIELD)]
    problems = [
        Problem(
            field,
            f"{on} in {source}, which protects {', '.join(found)}",
            f"false in the stack file and in the last deployment: {why}",
            f"set {field}: false, run `gpu-platform up {stack}`, then destroy again; {_UNTOUCHED}",
        )
        for field, found, why, on in (
            (CLUSTER_PROTECT, by_cluster, "no single command destroys a protected cluster", _ON),
            ("protect", by_field, "no single command destroys a protected resource", "true"),
        )
        if found
    ]
    if problems:
        raise BadInput(stack, problems)


def refuse_protected_pools(stack: str, changes: Sequence[PoolChange] | None) -> None:
    """Raise BadInput if a change deletes a protected pool."""
    problems = [
        Problem(
            change.protected_by,
            f"true in the last deployment, and pool {change.pool} is {change.effect}",
            "false in the last deployment before the pool is deleted",
            f"undo the change, set {change.protected_by}: false and run `gpu-platform up {stack}` with only "
            "that change "
            f"first; {_UNTOUCHED}",
        )
        for change in changes or ()
        if change.protected
    ]
    if problems:
        raise BadInput(stack, problems)


def _read(run: Destruction) -> _ClusterContents:
    plan = run.plan
    if plan.cluster.cloud is not None and not run.outputs:
        return _ClusterContents()  # the cluster may not exist yet
    try:
        client = run.cluster.client()
        namespaces = [
            (namespace, namespace_contents(client, namespace.name, is_platform=kept_namespaces.is_of_platform))
            for namespace in kept_namespaces.team_namespaces(client)
            if namespace.is_retained or namespace.stack == plan.stack
        ]
        own = [each for each in namespaces if (each[0].retained_from or each[0].stack) == plan.stack]
        others = [each for each in namespaces if each not in own] if plan.kind == "environment" else []
        stacks = deployed_team_stacks(client, plan.stack) if plan.kind == "environment" else ()
        cloud = read_cloud_objects(client) if run.deletes_cluster else None
    except UnknownOutcome as reason:
        return _ClusterContents(unread=str(reason))
    return _ClusterContents(own, others, stacks, cloud)


def _refuse_team_stacks(run: Destruction, stacks: Sequence[TeamStack]) -> None:
    if not stacks:
        return
    found = ", ".join(
        f"{each.stack} (namespace {', '.join(each.namespaces)})" if each.namespaces else each.stack
        for each in stacks
    )
    first = run.loaded.argument_of(stacks[0].stack)
    fix = f"destroy {'it' if len(stacks) == 1 else 'them'} first, such as `gpu-platform destroy {first}`"
    problem = Problem(
        "stacks of teams", f"deployed: {found}", "no team stack on the environment", f"{fix}; {_UNTOUCHED}"
    )
    raise BadInput(f"gpu-platform destroy {run.stack}", [problem])


def _refuse_cluster_in_use(run: Destruction, found: _ClusterContents) -> None:
    """Raise BadInput if the command would delete a cluster that contains objects of team members or objects with
    load balancers.
    """
    if not run.deletes_cluster:
        return
    problems: list[Problem] = []
    held = [f"namespace {each.name} with {contents}" for each, contents in (*found.own, *found.others)]
    has_data = any(not contents.is_empty for _, contents in (*found.own, *found.others))
    if has_data or found.unread:
        has = f"created by this stack, contains {'; '.join(held)}"
        problems.append(
            Problem(
                "cluster",
                has if has_data else f"could not be read: {found.unread}",
                "--delete-data, because the cluster is deleted with everything in it",
                f"save the data, then add --delete-data; {_UNTOUCHED}",
            )
        )
    lives = found.cloud.load_balancers if found.cloud is not None else ()
    if lives:
        objects = ", ".join(str(object_key(live)) for live in lives)
        commands = " and ".join(f"`{command}`" for command in _deletion_commands(lives))
        problems.append(
            Problem(
                "cluster",
                f"created by this stack, has load balancers of {objects}",
                "no such object, or --delete-data: the cloud would keep the load balancers, and they prevent the "
                "deletion of the cluster's network",
                f"run {commands}, or add --delete-data, which deletes them first; {_UNTOUCHED}",
            )
        )
    if problems:
        raise BadInput(f"gpu-platform destroy {run.stack}", problems)


def _deletion_commands(lives: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a command for the objects of each kind and namespace, in the order of the objects.

    A Service may be deleted together with its Gateway, so the commands accept objects that do not exist.
    """
    names: dict[tuple[str, str], list[str]] = {}
    for key in map(object_key, lives):
        names.setdefault((key.group_kind.lower(), key.namespace), []).append(key.name)
    for (kind, namespace), found in names.items():
        yield f"kubectl delete {kind} {' '.join(found)} -n {namespace} --ignore-not-found"


def _pools(run: Destruction) -> Iterator[tuple[str, int, int, bool]]:
    """Yield each pool with its numbers of nodes and GPUs, and whether it is deleted."""
    if run.plan.kind != "environment" or not run.is_deployed:
        return
    for name, facts in (run.outputs.get("pools") or pool_facts(run.plan)).items():
        nodes = int(facts["nodes"])
        yield name, nodes, nodes * int(facts["gpus_per_node"]), facts["platform"] != EXISTING


def _show(run: Destruction, found: _ClusterContents, *, delete_data: bool) -> None:
    out, plan = run.out, run.plan
    if not run.is_deployed:
        out.print(escape(f"stack {plan.stack} is not deployed, so it has nothing to destroy"))
        if not (delete_data and found.own):
            return
    else:
        out.print(escape(f"stack {plan.stack} is destroyed by the engine {run.deployment.engine}:"))
    for name, nodes, gpus, goes in _pools(run):
        size = f"{counted(nodes, 'node')} with {counted(gpus, 'GPU') if gpus else 'no GPUs'}"
        fate = (
            "the nodes are deleted and their pods are terminated"
            if goes
            else "the nodes stay without the labels of this stack"
        )
        out.print(escape(f"  pool {name}: {size}; {fate}"))
    if run.deletes_cluster and run.is_deployed:
        out.print(escape(f"  cluster {plan.cluster.name} is deleted with everything in it"))
    if found.unread:
        unread = "team stacks and objects of members"
        if run.deletes_cluster:
            unread = "team stacks, objects of members, load balancers and volumes"
        out.print(escape(f"  {unread} could not be read: {found.unread}"))
    for namespace, contents in found.own:
        fate = "retained, because members created objects in it"
        if _goes(run, contents, delete_data):
            fate = "deleted"
        out.print(escape(f"  namespace {namespace.name}: {fate}, contains {contents}"))
        show_contents(contents, indent=4, out=out)
    for live in found.cloud.load_balancers if found.cloud is not None else ():
        fate = "deleted first" if delete_data else "must be deleted first"
        out.print(escape(f"  load balancer of {object_key(live)}: {fate}"))
    for volume in found.cloud.volumes if found.cloud is not None and not _keeps_volumes(run) else ():
        out.print(escape(f"  {volume}: deleted with the cluster, even if its storage class retains it"))
    for name in _kept_resources(run, found, delete_data=delete_data):
        out.print(escape(f"  kept: {name}"))


def _goes(run: Destruction, contents: Contents, delete_data: bool) -> bool:
    return run.deletes_cluster or delete_data or contents.is_empty


def _keeps_volumes(run: Destruction) -> bool:
    """Return whether the cloud keeps the volumes of a cluster that is deleted. AKS deletes them."""
    cloud = run.plan.cluster.cloud
    return cloud is None or LEFTOVERS in cloud.retained


def _kept_resources(run: Destruction, found: _ClusterContents, *, delete_data: bool) -> Sequence[str]:
    """Return the resources that `destroy` keeps, including the volumes of the cluster if they could be read."""
    kept = retained_resources(run.outputs, run.plan)
    if found.cloud is None or not _keeps_volumes(run):
        return kept
    gone = _deleted_namespaces(run, found, delete_data=delete_data)
    volumes = [str(volume) for volume in found.cloud.volumes if not volume.is_deleted_with(gone)]
    return (*(text for text in kept if text != LEFTOVERS), *volumes)


_Retained = Sequence[tuple[kept_namespaces.TeamNamespace, Contents]]


def _read_retained(run: Destruction, found: _ClusterContents) -> _Retained:
    """Return the namespaces that remain after `destroy`, including namespaces of other stacks."""
    if run.deletes_cluster or not (found.own or found.others):
        return ()
    client = run.cluster.client()
    return [
        (namespace, namespace_contents(client, namespace.name))
        for namespace in kept_namespaces.team_namespaces(client)
        if namespace.is_retained
    ]


def _show_left(run: Destruction, kept: Sequence[str], retained: _Retained, *, destroyed: bool) -> None:
    """Print the cloud resources and team namespaces that `destroy` retained."""
    if destroyed:
        print(
            f"stack {run.plan.stack}: destroyed"
            + ("; these resources were kept, remove them by hand:" if kept else "")
        )
    for name in kept:
        print(f"  {name}")
    for namespace, contents in retained:
        print(
            f"  namespace {namespace.name} is retained from stack {namespace.retained_from} with {contents}; "
            f"remove it for good with `{_removal(run, namespace)}`"
        )
    cluster = run.plan.cluster
    if cluster.access == "sandbox" and run.plan.kind == "environment":
        print(
            f"  sandbox {cluster.name} is still running: `gpu-platform sandbox down --name {cluster.name}` "
            "deletes it"
        )


def _removal(run: Destruction, namespace: kept_namespaces.TeamNamespace) -> str:
    return f"gpu-platform team remove {run.stack} {namespace.name}"


def _document(
    run: Destruction,
    found: _ClusterContents,
    changes: Mapping[str, Any] | None,
    retained: _Retained,
    *,
    delete_data: bool,
) -> dict[str, Any]:
    """Return the report: what happened to the cluster, the pools and the namespaces, and what is left."""
    of_stack = "deleted" if run.is_deployed else "absent"
    return {
        **nothing_to_destroy(run.plan, of_stack if run.deletes_cluster else "kept"),
        "engine": {"name": run.deployment.engine, "why": run.deployment.why},
        "delete_data": delete_data,
        "cluster_read": not found.unread,
        "pools": [
            {"pool": name, "nodes": nodes, "gpus": gpus, "fate": "deleted" if goes else "kept"}
            for name, nodes, gpus, goes in _pools(run)
        ],
        "namespaces": [
            {
                "team": namespace.team,
                "fate": "deleted" if _goes(run, contents, delete_data) else "retained",
                **contents.to_json(),
            }
            for namespace, contents in found.own
        ],
        "changes": changes,
        "load_balancers": [
            {"kind": key.group_kind, "namespace": key.namespace, "name": key.name}
            for key in map(object_key, found.cloud.load_balancers if found.cloud is not None else ())
        ],
        "kept": [] if changes is None else list(_kept_resources(run, found, delete_data=delete_data)),
        "retained": [
            {
                "team": namespace.team,
                "from": namespace.retained_from,
                "since": namespace.retained_since,
                "remove": _removal(run, namespace),
                **contents.to_json(),
            }
            for namespace, contents in retained
        ],
    }


def nothing_to_destroy(plan: Plan, cluster: str = "absent") -> dict[str, Any]:
    """Return the report of a `destroy` that had nothing to delete.

    `cluster` describes what happened to the cluster: `absent`, `kept` or `deleted`.
    """
    return {
        "version": 1,
        "stack": plan.stack,
        "engine": None,
        "error": None,
        "delete_data": False,
        "cluster": {"name": plan.cluster.name, "fate": cluster},
        "cluster_read": True,
        "pools": [],
        "namespaces": [],
        "team_stacks": [],  # an environment with deployed team stacks cannot be destroyed
        "changes": None,
        "load_balancers": [],  # objects with load balancers, which were deleted before the cluster
        "kept": [],
        "retained": [],
    }
