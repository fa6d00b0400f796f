"""Decide the exceptions from Pod Security for pods that use the GPU NICs of a pool, and which pods they apply to.

Pod Security judges a whole namespace: it cannot allow a host path to one image. Where a team may use all GPUs of
a node whose fabric needs more than its level, the namespace therefore enforces `privileged`, and policies of the
API server enforce the level itself (`pod_security_rules.py`), except for what is decided here. The exceptions are
facts of the catalogue, taken from the vendor's own test pods.

A sidecar that writes host paths as root is trusted because of what it runs: its image, command, environment and
mounts have to be the published ones, and nobody may execute anything in it.

Sources: Kubernetes docs, Pod Security Admission, "Exemptions" (only in the API server's own file, which managed
clouds do not give); ValidatingAdmissionPolicy; container-engine-accelerators, nri_device_injector. Read
2026-11-23.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, FabricDaemon, FabricPods
from gpu_platform.catalog.pod_devices import published_devices
from gpu_platform.planning.clouds.section import NodeFabric
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.admission_rule import PodRule
from gpu_platform.planning.teams.cel import any_of, text, text_map, texts
from gpu_platform.planning.teams.pod_security_rules import Exceptions, pod_security_rules
from gpu_platform.planning.teams.quota_of_pods import most_units
from gpu_platform.stack.team import PodSecurity, Team

_LIBRARIES: Final = "/usr/local/nvidia/lib64"
_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105 - a folder, which Kubernetes mounts
_NETWORKS: Final = "networking.gke.io/interfaces"
# Variables that controllers add to all containers of a pod: Jobs with an index, LeaderWorkerSets.
_OF_CONTROLLERS: Final = "(variable.name == 'JOB_COMPLETION_INDEX' || variable.name.startsWith('LWS_'))"


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricAccess:
    """What the namespace of a team with a fabric enforces in place of Pod Security.

    `fabrics`: names in the catalogue; `pools`: those whose nodes the exceptions are for; `daemons`: containers in
    which nobody may execute anything; `variables`: of the expressions; `device_annotations`: the annotations that
    may name devices, with the values that they may have, as regular expressions.
    """

    fabrics: tuple[str, ...]
    pools: tuple[str, ...]
    daemons: tuple[str, ...]
    variables: Mapping[str, str]
    rules: tuple[PodRule, ...]
    device_annotations: Mapping[str, str]
    read_only: tuple[str, ...]
    """Host paths that containers other than the daemons may mount read-only alone."""


def plan_fabric_access(
    team: Team, pools: Sequence[PoolPlan], catalog: Catalog, *, queues: bool
) -> Decided[FabricAccess | None]:
    """Return what replaces Pod Security in a team's namespace; None: the team uses no fabric that needs it.

    `queues`: the team has a queue, in which it may borrow.
    """
    level = team.pod_security
    found: dict[str, list[tuple[PoolPlan, NodeFabric]]] = {}
    for pool in pools:
        fabric = pool.cloud_nodes.node_fabric
        # Pods name the resource of whole GPUs, as the vendor's: one share or instance of a GPU uses no fabric.
        whole = any(offer.name == names.GPU_RESOURCE for offer in pool.resources) and pool.sharing.mode == "none"
        most = most_units(team, names.GPU_RESOURCE, pool.name, queues=queues)
        if fabric is not None and whole and (most is None or most >= pool.gpus_per_node):
            found.setdefault(fabric.name, []).append((pool, fabric))
    if not found:
        return Decided(None)
    facts = [catalog.fabric_pods[name] for name in found]
    variables = {**_VARIABLES}
    for fact in facts:
        variables |= _variables_of(fact, found[fact.name])
    daemons = [fact.daemon for fact in facts if fact.daemon is not None]
    variables |= {
        "daemons": " + ".join(f"variables.{fact.name}Daemons" for fact in facts if fact.daemon) or "[]",
        "asVendor": " + ".join(["variables.daemons", *(f"variables.{fact.name}Tests" for fact in facts)]),
    }
    exceptions = Exceptions(
        relaxed="one.name in variables.asVendor",
        capability=any_of(_capability(fact) for fact in facts),
        host_path=any_of(f"variables.{fact.name}Pod && path in {texts(_paths(fact))}" for fact in facts),
        mount=any_of(
            (
                "one.name in variables.daemons",
                *(
                    f"variables.{fact.name}Pod && (path in {texts(fact.writable)} || "
                    f"(path in {texts(fact.read_only)} && mount.?readOnly.orValue(false)))"
                    for fact in facts
                ),
            )
        ),
    )
    reserved = tuple(daemon.name for daemon in daemons)
    used = tuple(pool.name for entries in found.values() for pool, _ in entries)
    access = FabricAccess(
        fabrics=tuple(found),
        pools=used,
        daemons=reserved,
        variables=variables,
        rules=(
            *_daemon_rules(daemons, used),
            *pod_security_rules(level, exceptions, _exception_text(facts, used)),
        ),
        device_annotations={daemon.annotation: published_devices(daemon.devices) for daemon in daemons},
        read_only=tuple(dict.fromkeys(path for fact in facts for path in fact.read_only)),
    )
    return Decided(access, (_decision(team.name, level, facts, used),))


def _decision(team: str, level: PodSecurity, facts: Sequence[FabricPods], pools: Sequence[str]) -> Decision:
    given = "; ".join(
        f"{fact.name}: "
        + ", ".join(
            (
                *((f"{fact.daemon.name} ({', '.join(fact.daemon.capabilities)})",) if fact.daemon else ()),
                *(f"{path} (read-only)" for path in fact.read_only),
                *fact.writable,
            )
        )
        for fact in facts
    )
    return Decision(
        subject=f"team {team}",
        what="Pod Security by policy",
        chosen=f"{level}, except for pods of {' and '.join(fact.name for fact in facts)}",
        why=f"their GPU NICs need more than {level}: the namespace is labelled privileged, and a "
        f"ValidatingAdmissionPolicy enforces {level} but for whole nodes of {', '.join(pools)}: {given}",
    )


def _exception_text(facts: Sequence[FabricPods], pools: Sequence[str]) -> str:
    """Return who is excepted, for messages."""
    return f"pods of {' and '.join(fact.name for fact in facts)} that request whole nodes of {', '.join(pools)}"


# -- which pods, and which of their containers --------------------------------------------------------------

_VARIABLES: Final[Mapping[str, str]] = {
    "containers": "dyn(object.spec.containers) + dyn(object.spec.?initContainers.orValue([])) + "
    "dyn(object.spec.?ephemeralContainers.orValue([]))",
    "volumes": "object.spec.?volumes.orValue([])",
    "selector": "object.spec.?nodeSelector.orValue({})",
    "terms": "object.spec.?affinity.?nodeAffinity.?requiredDuringSchedulingIgnoredDuringExecution"
    ".?nodeSelectorTerms.orValue([])",
    "networks": f"object.metadata.?annotations[?'{_NETWORKS}'].orValue('')",
}


def _variables_of(fact: FabricPods, pools: Sequence[tuple[PoolPlan, NodeFabric]]) -> Mapping[str, str]:
    of_pools = any_of(dict.fromkeys(_on(pool, fabric) for pool, fabric in pools))
    found = {
        # Containers that share processes could reach into the sidecar.
        f"{fact.name}Pod": f"!object.spec.?shareProcessNamespace.orValue(false) && ({of_pools})",
        f"{fact.name}Tests": f"variables.{fact.name}Pod ? variables.containers.filter(one, "
        f"{any_of(_of_image(image) for image in fact.test_images)}).map(one, one.name) : []",
    }
    if fact.daemon is not None:
        found[f"{fact.name}Daemons"] = (
            f"variables.{fact.name}Pod ? variables.containers.filter(one, {_as_published(fact.daemon, fact)})"
            ".map(one, one.name) : []"
        )
    return found


def _on(pool: PoolPlan, fabric: NodeFabric) -> str:
    """Return that a pod requests all GPUs of a node, and that it can run on nodes of the pool alone."""
    requested = (
        f"object.spec.containers.exists(one, one.?resources.?limits[?'{names.GPU_RESOURCE}'].hasValue() && "
        f"quantity(string(one.resources.limits['{names.GPU_RESOURCE}'])).asInteger() == {pool.gpus_per_node})"
    )
    labels = {**pool.node_selector, **fabric.labels}
    known, values = texts(sorted(labels)), text_map(labels)
    agrees = f"{known}.all(key, !(key in variables.selector) || variables.selector[key] == {values}[key])"
    by_selector = f"{known}.exists(key, key in variables.selector)"
    by_affinity = (
        "size(variables.terms) > 0 && variables.terms.all(term, term.?matchExpressions.orValue([]).exists(one, "
        f"one.key in {known} && one.operator == 'In' && one.values.all(value, value == {values}[one.key])))"
    )
    # Only nodes of such a pool have the NICs that the pod joins or claims.
    by_nics = (
        f"{texts(fabric.networks)}.all(network, variables.networks.contains('\"' + network + '\"'))"
        if fabric.networks
        else "size(object.spec.?resourceClaims.orValue([])) > 0"
    )
    return (
        f"{requested} && {agrees} && ({by_selector} || ({by_affinity}) || "
        f"(size(variables.terms) == 0 && {by_nics}))"
    )


def _of_image(repository: str) -> str:
    """Return that `one` has an image of a repository, by tag or digest."""
    return f"one.image.startsWith({text(repository + ':')}) || one.image.startsWith({text(repository + '@')})"


def _as_published(daemon: FabricDaemon, fact: FabricPods) -> str:
    """Return that the container `one` is the daemon, and runs nothing but what its vendor published."""
    parts = [
        f"one.name == {text(daemon.name)}",
        f"({_of_image(daemon.image)})",
        f"one.?command.orValue([]) == {texts(daemon.command)}",
        "size(one.?args.orValue([])) == 0"
        if daemon.script is None
        else f"size(one.?args.orValue([])) == 1 && one.args[0].matches({text(f'^(?:{daemon.script})$')})",
        f"one.?env.orValue([]).all(variable, {_OF_CONTROLLERS} || (variable.name == 'LD_LIBRARY_PATH' && "
        f"variable.?value.orValue('') == {text(_LIBRARIES)}))",
        "size(one.?envFrom.orValue([])) == 0 && size(one.?volumeDevices.orValue([])) == 0",
        *(f"!has(one.{name})" for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")),
        f"one.?securityContext.?capabilities.?add.orValue([]).all(name, name in {texts(daemon.capabilities)})",
        f"one.?volumeMounts.orValue([]).all(mount, {_mounted_as_published(daemon, fact)})",
    ]
    return " && ".join(parts)


def _mounted_as_published(daemon: FabricDaemon, fact: FabricPods) -> str:
    table = text_map(daemon.mounts)
    # A socket may be in a folder of the pod instead.
    in_pod = texts(sorted({path for path in daemon.mounts.values() if path in fact.writable}))
    volume = "variables.volumes.exists(volume, volume.name == mount.name && "
    return (
        "!has(mount.subPath) && !has(mount.subPathExpr) && "
        f"((mount.mountPath == {text(_TOKEN)} && {volume}has(volume.projected))) || "
        f"(mount.mountPath in {table} && {volume}"
        f"(has(volume.hostPath) && volume.hostPath.path == {table}[mount.mountPath]) || "
        f"(has(volume.emptyDir) && {table}[mount.mountPath] in {in_pod}))))"
    )


# -- what they may have -------------------------------------------------------------------------------------


def _paths(fact: FabricPods) -> list[str]:
    of_daemon = fact.daemon.mounts.values() if fact.daemon is not None else ()
    return sorted({*fact.read_only, *fact.writable, *of_daemon})


def _capability(fact: FabricPods) -> str:
    """Return that the container `one` may add the capability `name`."""
    found = [f"one.name in variables.{fact.name}Tests && name in {texts(fact.test_capabilities)}"]
    if fact.daemon is not None:
        found.append(f"one.name in variables.{fact.name}Daemons && name in {texts(fact.daemon.capabilities)}")
    return any_of(found)


def _daemon_rules(daemons: Sequence[FabricDaemon], pools: Sequence[str]) -> tuple[PodRule, ...]:
    """Return that the names of daemons are theirs alone: by the name the API server refuses `exec`."""
    if not daemons:
        return ()
    reserved = texts(daemon.name for daemon in daemons)
    images = " and ".join(f"{daemon.name} runs {daemon.image}" for daemon in daemons)
    return (
        PodRule(
            id="fabric-daemon",
            expression=f"variables.containers.all(one, !(one.name in {reserved}) || "
            "one.name in variables.daemons)",
            message=f"{images} with Google's command, environment, mounts and capabilities and nothing else, "
            "beside a container that requests all GPUs of a node, in a pod that does not share processes and "
            f"selects nodes of {', '.join(pools)} or joins all GPU networks: take the container from Google's "
            "manifest, or rename it",
        ),
        PodRule(
            id="fabric-daemon-debug",
            expression="object.spec.?ephemeralContainers.orValue([]).all(one, "
            f"!(one.?targetContainerName.orValue('') in {reserved}))",
            message="an ephemeral container may not join the processes of the daemon: name another target",
        ),
    )


def exec_rule(daemons: Sequence[str]) -> PodRule:
    """Return that nobody executes a command in a daemon, nor attaches to one; `object`: the request's options."""
    return PodRule(
        id="fabric-daemon-exec",
        expression=f"!(object.?container.orValue('') in {texts(daemons)})",
        message=f"nobody executes commands in {' or '.join(daemons)}, which writes to the node: name "
        "another container, or read its log",
    )
