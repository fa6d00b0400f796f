"""Choose the Pod Security exceptions, and the files, for pods that use the GPU NICs of a pool.

The catalogue contains the exceptions as facts, taken from the vendor's test pods. The rules that enforce the Pod
Security level with these exceptions are in gpu_platform/catalog/rules/pod_security.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpu_platform.base import names
from gpu_platform.catalog import Catalog, FabricPods
from gpu_platform.catalog.admission_rules import AdmissionPolicy, Value, admission_rules
from gpu_platform.catalog.pod_devices import published_devices
from gpu_platform.planning.clouds.section import NodeFabric, PodFile
from gpu_platform.planning.decision import Decided, Decision
from gpu_platform.planning.pools.section import PoolPlan
from gpu_platform.planning.teams.quota_of_pods import most_units
from gpu_platform.stack.team import PodSecurity, Team

_POLICIES: Final = (names.POD_SECURITY_POLICY, names.EXEC_POLICY)


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricAccess:
    """Rules that replace Pod Security in the namespace of a team that uses a fabric.

    `fabrics` are names in the catalogue. The exceptions apply on the nodes of `pools`. `policies` enforce the
    level. `device_annotations` are the annotations that may name devices, with regular expressions for their
    values.
    """

    fabrics: tuple[str, ...]
    pools: tuple[str, ...]
    policies: tuple[AdmissionPolicy, ...]
    device_annotations: Mapping[str, str]
    read_only: tuple[str, ...]
    """Host paths that containers, except the fabric's daemons, may only mount read-only."""


def plan_fabric_access(
    team: Team, pools: Sequence[PoolPlan], catalog: Catalog, *, queues: bool
) -> Decided[FabricAccess | None]:
    """Return the rules that replace Pod Security in a team's namespace, or None if the team uses no fabric that
    needs them.

    `queues` indicates whether the team has a queue and may borrow quota.
    """
    level = team.pod_security
    found: dict[str, list[tuple[PoolPlan, NodeFabric]]] = {}
    for pool in pools:
        fabric = pool.cloud_nodes.node_fabric
        if fabric is not None and _uses_nodes(team, pool, queues=queues):
            found.setdefault(fabric.name, []).append((pool, fabric))
    if not found:
        return Decided(None)
    facts = [catalog.fabric_pods[name] for name in found]
    daemons = [fact.daemon for fact in facts if fact.daemon is not None]
    used = tuple(pool.name for entries in found.values() for pool, _ in entries)
    values: dict[str, Value] = {
        "gpu_resource": names.GPU_RESOURCE,
        "is_restricted": level == "restricted",
        "fabrics": [_record(fact, found[fact.name]) for fact in facts],
        "excepted_pods": f"pods of {' and '.join(fact.name for fact in facts)} that request whole nodes of "
        f"{', '.join(used)}",
        "daemon_names": [daemon.name for daemon in daemons],
        "daemon_images": [f"{daemon.name} runs {daemon.image}" for daemon in daemons],
        "fabric_pools": used,
    }
    policies = (admission_rules().policy(name, values) for name in _POLICIES)
    access = FabricAccess(
        fabrics=tuple(found),
        pools=used,
        policies=tuple(policy for policy in policies if policy.rules),
        device_annotations={daemon.annotation: published_devices(daemon.devices) for daemon in daemons},
        read_only=tuple(dict.fromkeys(path for fact in facts for path in fact.read_only)),
    )
    return Decided(access, (_decision(team.name, level, facts, used),))


def network_files(team: Team, pools: Sequence[PoolPlan], *, queues: bool) -> tuple[PodFile, ...]:
    """Return the ConfigMaps for the team's pods that use the NICs of a node. `queues` indicates whether the team
    has a queue and may borrow quota.
    """
    # With DRA, pods claim GPUs, and the number of GPUs in a claim is not limited by a quota of GPUs.
    found = [
        pool.cloud_nodes.network_file for pool in pools if pool.devices or _uses_nodes(team, pool, queues=queues)
    ]
    return tuple({file.config_map: file for file in found if file is not None}.values())


def _uses_nodes(team: Team, pool: PoolPlan, *, queues: bool) -> bool:
    """Return whether a pod of the team may have all GPUs of a node.

    Only such pods use the NICs. In a pool that is not shared, the vendor's resource name means a whole GPU.
    """
    if pool.sharing.mode != "none" or not any(offer.name == names.GPU_RESOURCE for offer in pool.resources):
        return False
    most = most_units(team, names.GPU_RESOURCE, pool.name, queues=queues)
    return most is None or most >= pool.gpus_per_node


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
        why=f"their GPU NICs need more than {level}, so the namespace is labelled privileged, and a "
        f"ValidatingAdmissionPolicy enforces {level} except on whole nodes of {', '.join(pools)}: {given}",
    )


def _record(fact: FabricPods, pools: Sequence[tuple[PoolPlan, NodeFabric]]) -> Mapping[str, Value]:
    """Return the parameters of the admission rules for one fabric.

    They contain the pools with the fabric, and the host paths, images and capabilities that their pods may use.
    """
    daemon = fact.daemon
    mounted = daemon.mounts.values() if daemon is not None else ()
    record: dict[str, Value] = {
        "pools": [
            {
                "gpus": pool.gpus_per_node,
                "labels": dict(sorted({**pool.node_selector, **fabric.labels}.items())),
                "networks": fabric.networks,
            }
            for pool, fabric in pools
        ],
        "paths": sorted({*fact.read_only, *fact.writable, *mounted}),
        "read_only": fact.read_only,
        "writable": fact.writable,
        "test_images": fact.test_images,
        "test_capabilities": fact.test_capabilities,
    }
    if daemon is not None:
        record["daemon"] = {
            "name": daemon.name,
            "image": daemon.image,
            "command": daemon.command,
            "script": "" if daemon.script is None else f"^(?:{daemon.script})$",
            "capabilities": daemon.capabilities,
            "mounts": daemon.mounts,
        }
    return record
